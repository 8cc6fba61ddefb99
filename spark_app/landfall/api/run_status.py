"""The part of ``/status`` on closed ranges: ended ones, and the one that is being landed."""

from dataclasses import dataclass


@dataclass(frozen=True, slots=True)
class RunStatus:
    """A closed range of the log that has ended, as the ledger's RUN has it.

    Attributes:
        until: its end, by Kafka timestamps, ISO 8601.
        began: when a driver began to land it, ISO 8601.
        ended: when all of it was visible, ISO 8601.
        records: rows landed since the range before it ended.
        bad_records: records dead-lettered since then.
        objects: objects landed since then.
        bytes: their size.
        left: topics with something that is not landed; in a summary, the first of them.
        slot: of its RUN.
        batches: COMMITs since the range before it ended.
        slices: pieces of topic partitions in them; 0 if not known, as of the first range.
        task_seconds: how long tasks took for those, together.
        longest_seconds: how long the longest of them took.
        left_topics: how many topics a summary would have in ``left``; 0 if ``left`` has them all.
    """

    until: str
    began: str
    ended: str
    records: int
    bad_records: int
    objects: int
    bytes: int
    left: tuple[str, ...] = ()
    slot: int = -1
    batches: int = 0
    slices: int = 0
    task_seconds: float = 0.0
    longest_seconds: float = 0.0
    left_topics: int = 0


@dataclass(frozen=True, slots=True)
class ScheduleStatus:
    """Where a driver that lands closed ranges is.

    Attributes:
        until: the end of the range that is being landed; None while none is due.
        waits: whether nothing is due, so that the driver may be gone until the next range is.
        runs: the ranges that ended last, newest first.
    """

    until: str | None
    waits: bool
    runs: tuple[RunStatus, ...] = ()
