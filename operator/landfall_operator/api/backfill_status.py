"""The status of a ``Backfill``, which the operator writes. Pure.

``phase`` and ``promotion`` are the operator's intent log: an operator that restarts at any point
reads them and continues. Everything else can be observed again. The docstrings of fields are the
descriptions that ``kubectl explain`` shows.
"""

from enum import StrEnum
from typing import Literal

from landfall.api.backfill_report import OldAndNew, RowCounts
from landfall.api.pod_spec import Model
from landfall_operator.api.status_values import (
    UNOBSERVED,
    AnyCondition,
    Count,
    Moment,
    ObservedGeneration,
    Text,
)


class BackfillPhase(StrEnum):
    """The states of a backfill; ``landfall_operator.core.backfills`` has the transitions."""

    PENDING = "Pending"
    """Something is missing before it can start, such as its group."""
    PLANNING = "Planning"
    """Its driver starts, and chooses the ranges."""
    LANDING = "Landing"
    """Its driver lands the ranges in the side lane."""
    COMPARING = "Comparing"
    """Its driver compares what it landed with what is live."""
    COMPARED = "Compared"
    """It is landed and compared, and nothing is replaced."""
    PROMOTING = "Promoting"
    """The group's driver is asked to replace the live objects with it."""
    PROMOTED = "Promoted"
    """It has replaced the live objects, by the REPLACE in ``ledgerSlot``."""
    FAILED = "Failed"
    """It cannot be landed, compared or promoted; ``message`` has the reason."""
    DISCARDED = "Discarded"
    """It is being deleted, and its side lane with it."""


RUNNING = frozenset({BackfillPhase.PLANNING, BackfillPhase.LANDING, BackfillPhase.COMPARING})
"""The phases in which its driver runs."""


class ComparisonStatus(Model):
    """The landed rows of the backfill, against what is live, row by row."""

    rows: RowCounts
    """Rows of data."""
    dead_letters: OldAndNew
    """Dead letters."""
    bytes: OldAndNew
    """Bytes of data objects."""
    output_partitions: Count
    """Output partitions that either has."""
    differing: Count
    """Output partitions whose rows are not the same."""
    sample: tuple[str, ...] = ()
    """Some of the rows that only one of them has, with object and row number."""
    records_per_second: Count = 0
    """Records that were landed per second."""


BackfillConditionType = Literal["Compared", "Promoted", "Failed", "Ready", "Stalled", "Reconciling"]


class BackfillCondition(AnyCondition):
    """A condition, by the Kubernetes API conventions."""

    type: BackfillConditionType
    """Type of the condition."""
    status: Literal["True", "False"]
    """Whether the condition holds."""
    reason: str
    """The phase, or a word for the failure."""


class PromotionStatus(Model):
    """The request to the group's driver to promote the side lane."""

    id: str
    """Names the request: a driver carries it out once."""
    since: Moment
    """When it was made."""


class BackfillStatus(Model):
    """Observed state of the backfill."""

    observed_generation: ObservedGeneration = UNOBSERVED
    """The metadata.generation that was acted on last; -1 before an operator has seen it."""
    phase: BackfillPhase = BackfillPhase.PENDING
    """The state of the backfill."""
    reason: str | None = None
    """One word for what it waits for, or for why it failed."""
    message: Text = ""
    """Explanation of the phase."""
    revision: str | None = None
    """The revision of the group whose spec lands it."""
    side_lane: str | None = None
    """Name of its side lane: the one that `landfall backfill` takes."""
    offsets: Count | None = None
    """Offsets of the ranges; absent before they are planned."""
    landed_offsets: Count = 0
    """Offsets of them that are landed."""
    percent: Count | None = None
    """Share of the offsets that is landed."""
    progress: str | None = None
    """The same as text, such as `43%`."""
    eta: str | None = None
    """Time until all is landed at the present speed, such as `12m`."""
    records_per_second: Count | None = None
    """Records that are landed per second."""
    started: Moment | None = None
    """When its driver was first started."""
    ended: Moment | None = None
    """When it was compared, or failed."""
    comparison: ComparisonStatus | None = None
    """What it landed, against what is live; absent before it is compared."""
    promotion: PromotionStatus | None = None
    """The request to promote it; absent before it is made."""
    ledger_slot: Count | None = None
    """Slot of the group's ledger with the REPLACE by which it was promoted: `landfall undo` takes
    it.
    """
    conditions: tuple[BackfillCondition, ...] = ()
    """Compared, Promoted and Failed; for tools that wait, Ready (what the spec asks for is done),
    Stalled (it failed) and Reconciling (it is under way).
    """
