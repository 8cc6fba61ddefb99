"""What the status says of a trial: a revision that lands beside the active one. Pure.

The docstrings of fields are the descriptions that ``kubectl explain`` shows.
"""

from enum import StrEnum

from landfall.api.pod_spec import Model
from landfall_operator.api.reasons import Reason
from landfall_operator.api.status_values import Count, Moment, Text

MAX_SAMPLE = 6
"""Rows of a comparison that the status keeps."""
MAX_SAMPLE_TEXT = 240
"""Characters of each."""


class TrialResult(StrEnum):
    """What came of a trial."""

    PENDING = "Pending"
    """The revision is being tried."""
    PASSED = "Passed"
    """Nothing speaks against the revision; it takes over."""
    REFUSED = "Refused"
    """The comparison speaks against the revision; it does not take over."""
    FAILED = "Failed"
    """The trial did not end, or not in time; the revision does not take over."""
    SKIPPED = "Skipped"
    """There is nothing to try the revision by; it takes over."""
    OVERRULED = "Overruled"
    """The user goes on with the revision, whatever its trial says."""
    ABORTED = "Aborted"
    """The user gave the trial up, or asks for another revision."""


class TrialRows(Model):
    """Rows that both revisions landed of the same offsets."""

    old: Count
    """Rows by the revision that was active when they were landed."""
    new: Count
    """Rows by the revision that is tried."""
    only_old: Count
    """Rows that only the former has."""
    only_new: Count
    """Rows that only the latter has."""


class TrialDeadLetters(Model):
    """Records of the same offsets that became dead letters."""

    old: Count
    """By the revision that was active when they were landed."""
    new: Count
    """By the revision that is tried."""


class TrialComparison(Model):
    """What the trial was judged by."""

    rows: TrialRows
    """Rows that both revisions landed."""
    dead_letters: TrialDeadLetters
    """Records that became dead letters."""
    records_per_second: Count
    """How fast the new revision landed them."""
    sample: tuple[str, ...] = ()
    """Some rows that only one of the two has."""


class TrialStatus(Model):
    """A trial of a revision by strategy Shadow or Canary."""

    revision: str
    """The revision that is tried."""
    terms: str
    """What it is judged by, as it was asked for when the trial began."""
    since: Moment
    """When the trial began."""
    backfill: str = ""
    """The Backfill that lands again what was landed; empty if there is none."""
    result: TrialResult = TrialResult.PENDING
    """What came of it."""
    reason: Reason | None = None
    """Why the revision does not take over, in one word."""
    message: Text = ""
    """Why."""
    comparison: TrialComparison | None = None
    """What both revisions landed."""
