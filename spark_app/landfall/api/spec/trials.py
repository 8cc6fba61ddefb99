"""How a new revision is tried before it takes over: strategies Shadow and Canary."""

from datetime import timedelta

from landfall.api.pod_spec import Model
from landfall.api.values import Duration, Percent


class Tolerate(Model):
    """Differences between what both revisions land that Shadow tolerates."""

    rows: Percent = 0.0
    """Share of the rows that only one of the two revisions lands. 100% tolerates any difference, as
    for a change that is meant to change every row.
    """
    dead_letters: Percent = 0.0
    """Share of the records that become dead letters by the new revision and did not before."""


class Shadow(Model):
    """What strategy Shadow compares, and which differences it tolerates."""

    window: Duration = timedelta(hours=1)
    """What was landed within this time is landed again and compared, row by row. If the upload
    policy's ``maxAge`` is longer, that time applies.
    """
    tolerate: Tolerate = Tolerate()
    """Differences that do not speak against the new revision."""


class Canary(Model):
    """What strategy Canary lands again, and what it tolerates."""

    topic_partitions: Percent = 0.1
    """Share of the topic partitions that the new revision lands again, at least one."""
    window: Duration = timedelta(minutes=10)
    """What was landed within this time is landed again. If the upload policy's ``maxAge`` is
    longer, that time applies.
    """
    bad_records: Percent = 0.01
    """Share of the records that may become dead letters. More are tolerated if there were as many
    before.
    """
    min_throughput: Percent = 0.5
    """How fast the new revision must land these records at least, as a share of the speed at which
    the running one has landed them.
    """
