"""A producer that kills itself in the middle of a transaction, once the broker has all its records.

``python -m tests.chaos.killed_producer BOOTSTRAP TRANSACTIONAL_ID TOPIC NAME SEED TIME NUMBER...``

It is a process of its own, because SIGKILL must leave the transaction open at the broker: a
producer that ends in an orderly way would abort it.
"""

import os
import random
import signal
import sys

from tests.chaos.records import TOPICS, Identity, record
from tests.chaos.writers import create_producer, produce, retry

_CALL_TIMEOUT = 30
"""Seconds."""


def main() -> None:
    """Produce the numbers in a transaction, and end by SIGKILL."""
    bootstrap, transactional_id, topic_name, name, seed, at, *numbers = sys.argv[1:]
    (topic,) = (topic for topic in TOPICS if topic.name == name)
    rng = random.Random(int(seed))
    producer = create_producer(bootstrap, {"transactional.id": transactional_id})
    retry(producer.init_transactions)  # the broker may be away; whoever started this waits
    producer.begin_transaction()
    for number in map(int, numbers):
        made = record(Identity(topic_name, number), topic, rng, int(at))
        produce(producer, topic_name, made, None)
    producer.flush(_CALL_TIMEOUT)
    os.kill(os.getpid(), signal.SIGKILL)


if __name__ == "__main__":
    main()
