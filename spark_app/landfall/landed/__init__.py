"""Another group's landed records as a log: its topic partitions, offsets and topic ids.

``log`` is the driver's side and ``reader`` a task's. Both find a topic partition in the other
group's ledger by the index of its segments (``history``), never by listing a bucket.
``pieces`` knows which objects hold the records of a range, now and after their replacement,
``rows`` reads them, and ``specs`` finds which objects hold records as Kafka held them. The other
group is only read: nothing is ever written to its root.

Records come back with their offsets, payloads, and what else the format stores. What the other
group counted as invisible stays invisible, and its dead letters are records like any.
"""
