"""What happens to log and bucket of a schedule, whatever its drivers do.

Records arrive and expire, topics are recreated, Kafka partitions are without a leader for a while,
and a lifecycle rule aborts uploads.
"""

from typing import TYPE_CHECKING

from landfall.errors import SourceAway
from landfall.ledger.offsets import TopicPartition
from landfall.source import Watermarks
from tests.crashes.judge import records_of

if TYPE_CHECKING:
    from tests.crashes.machine import Schedule


def arrive(schedule: "Schedule") -> None:
    """Let records arrive in one of the topics."""
    topic, log = schedule.dice.choice(("a", "b")), schedule.log
    more = [
        Watermarks(m.log_start, m.end + schedule.dice.randrange(20)) for m in log.partitions[topic]
    ]
    for number, marks in enumerate(log.partitions[topic]):
        log.times.setdefault(TopicPartition(topic, number), []).append(
            (schedule.clock(), marks.end)
        )
    log.partitions[topic] = more
    schedule.say(f"records arrive: {topic} {more}")


def drop(schedule: "Schedule") -> None:
    """Let the log drop records that are committed, or any records."""
    with schedule.judging():
        checkpoint = schedule.lane.read().checkpoint
    log = schedule.log
    for tp in checkpoint:
        marks = log.partitions[tp.topic][tp.partition]
        start = checkpoint[tp]
        if schedule.luck.loss.of_unlanded:
            start = schedule.dice.randint(marks.log_start, marks.end)
        log.partitions[tp.topic][tp.partition] = Watermarks(start, marks.end)
    schedule.say(f"the log drops records: {log.partitions}")


def recreate(schedule: "Schedule") -> None:
    """Delete a topic, and create another one of its name."""
    topic, log = schedule.dice.choice(("a", "b")), schedule.log
    schedule.former += records_of(log, topic)
    log.ids[topic] += "'"
    for number in range(len(log.partitions[topic])):
        log.times.pop(TopicPartition(topic, number), None)
    log.partitions[topic] = [
        Watermarks(0, schedule.dice.randrange(30)) for _ in log.partitions[topic]
    ]
    schedule.generations += schedule.dice.choice((0, 1, 1))
    schedule.say(
        f"topic {log.ids[topic]} is created in place of the one before: {log.partitions[topic]}"
    )


def lose_leader(schedule: "Schedule") -> None:
    """Leave a Kafka partition without a leader: its offsets and records cannot be read."""
    log = schedule.log
    topic = schedule.dice.choice(("a", "b"))
    tp = TopicPartition(topic, schedule.dice.randrange(len(log.partitions[topic])))
    log.unavailable[tp] = SourceAway(f"{tp}: the Kafka partition has no leader")
    schedule.say(f"{tp} has no leader")


def elect_leader(schedule: "Schedule") -> None:
    """Let a Kafka partition that is without a leader have one again."""
    if leaderless := sorted(schedule.log.unavailable):
        tp = schedule.dice.choice(leaderless)
        del schedule.log.unavailable[tp]
        schedule.say(f"{tp} has a leader again")


LEADERS = (lose_leader, lose_leader, elect_leader)
"""What happens to leaders, by its weight."""


def expire_upload(schedule: "Schedule") -> None:
    """Let a lifecycle rule abort an upload that a COMMIT names; the log may drop records then."""
    with schedule.judging():
        unapplied = schedule.lane.read().unapplied
        still_open = {upload.upload_id for upload in schedule.store.open_uploads("")}
    decided = [o.upload for objects in unapplied.values() for o in objects]
    waiting = [upload for upload in decided if upload.upload_id in still_open]
    if waiting:
        upload = schedule.dice.choice(waiting)
        with schedule.judging():
            schedule.store.abort(upload.key, upload.upload_id)
        schedule.say(f"a lifecycle rule aborts {upload.key}")
        if schedule.luck.loss.of_unlanded:
            drop(schedule)
            damage_letters(schedule)


def damage_letters(schedule: "Schedule") -> None:
    """Damage dead letters that were replayed."""
    with schedule.judging():
        replayed = sorted(schedule.lane.read().replayed)
    if replayed and schedule.dice.random() < 0.5:
        schedule.rows.damaged |= {*replayed}
        schedule.say(f"dead letters are damaged: {replayed}")
