"""A producer that kills itself in the middle of its transaction, when the broker has all of its
records.

``python -m tests.chaos.kill_group BOOTSTRAP TRANSACTIONAL_ID TOPIC NAME SEED NUMBER...``
"""

import os
import random
import signal
import sys
import time

from tests.chaos.records import TOPICS, Identity, record
from tests.chaos.writers import producer, put


def main() -> None:
    """See the module."""
    bootstrap, transactional_id, topic, name, seed, *numbers = sys.argv[1:]
    (kind,) = (topic for topic in TOPICS if topic.name == name)
    dice = random.Random(int(seed))
    made = producer(bootstrap, {"transactional.id": transactional_id})
    made.init_transactions(30)
    made.begin_transaction()
    for number in map(int, numbers):
        put(
            made,
            topic,
            record(Identity(topic, number), kind, dice, time.time_ns() // 1_000_000),
            None,
        )
    made.flush(30)
    os.kill(os.getpid(), signal.SIGKILL)


if __name__ == "__main__":
    main()
