"""The parts of a group's status about ``spec.schedule`` and ``spec.idle``. Pure."""

from enum import StrEnum

from landfall.api.pod_spec import Model
from landfall_operator.api.status_values import Count, Moment


class RunResult(StrEnum):
    """Whether a range was landed."""

    LANDED = "Landed"
    """Everything that the topics had in it."""
    LEFT = "Left"
    """Something of it is not landed: ``left`` names the topics."""


class RunStatus(Model):
    """A run: a closed range of the topics that has ended."""

    until: Moment
    """End of the range, by the Kafka timestamps of its records."""
    began: Moment
    """When a driver began to land the range."""
    ended: Moment
    """When all of it was visible to readers."""
    seconds: Count
    """Seconds that this took."""
    records: Count
    """Records landed since the run before."""
    bad_records: Count = 0
    """Records kept as dead letters since the run before."""
    bad_ratio: str = "0"
    """Share of these in all records, such as 0.0012."""
    objects: Count
    """Objects landed since the run before."""
    bytes: Count
    """Size of these objects."""
    batches: Count = 0
    """Batches in which they were landed, each decided by one COMMIT."""
    slices: Count | None = None
    """Pieces of topic partitions that the tasks landed, cut to take about the same time; absent for
    the first run.
    """
    task_seconds: Count | None = None
    """Seconds that tasks took for these, together."""
    longest_slice: Count | None = None
    """Seconds that the longest of these took."""
    result: RunResult
    """Landed, or Left if something of the range is not landed."""
    left: tuple[str, ...] = ()
    """Topics of which something is not landed, at most twenty."""
    left_topics: Count = 0
    """Number of such topics."""


class ScheduleStatus(Model):
    """Where a group with spec.schedule is."""

    sleeping: bool
    """Whether no driver runs because no range is due."""
    next: Moment | None = None
    """When the next range will be due; absent while the group is suspended."""
    last: Moment | None = None
    """End of the range that was landed last; absent before the first run."""
    until: Moment | None = None
    """End of the oldest range that is due; absent while none is."""
    due_since: Moment | None = None
    """Since when that range has been due."""


class IdleStatus(Model):
    """Where a group with spec.idle is."""

    sleeping: bool
    """Whether no driver runs because the topics are quiet."""
    since: Moment | None = None
    """Since when a group that sleeps has landed nothing; absent while it has a driver."""
    next_look: Moment | None = None
    """When a driver is started to look for new records; absent while there is one."""
