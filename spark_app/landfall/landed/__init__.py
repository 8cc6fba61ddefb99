"""What another group has landed, as a log: its topic partitions, offsets and topic ids.

``log`` is the driver's side and ``reader`` a task's. Both find what the other group's ledger says
of a topic partition by the index of its segments (``history``), never by listing a bucket.
``pieces`` knows which objects hold the records of a range, now and after their replacement,
``rows`` reads them, and ``specs`` says which objects hold records as Kafka held them. The other
group is only read: nothing is ever written to its root.

Records come back with their offsets, payloads, and what else the format stores. What the other
group counted as invisible stays invisible, and its dead letters are records as all others.
"""
