"""Errors that Landfall raises on purpose: three kinds, each with one right reaction. Pure.

``Retry``    a temporary failure: wait with backoff, then try the same thing again.
``Fenced``   another driver owns the ledger now: stop, and change nothing more.
``Stalled``  someone must intervene; ``reason`` names the cause and is shown in status and alerts.

A record that cannot be decoded, routed or encoded is not an error but data: see
``landfall.pipeline.records.BadRows``.
"""

from enum import StrEnum


class Reason(StrEnum):
    """Why a group, or one of its topic partitions, is stopped until someone intervenes.

    The values are shown in conditions, status and metrics: they are public.
    """

    SPEC_INVALID = "SpecInvalid"
    STORE_UNSAFE = "StoreUnsafe"
    STORE_DENIED = "StoreDenied"
    SOURCE_DENIED = "SourceDenied"
    SOURCE_UNAVAILABLE = "SourceUnavailable"
    OUTPUT_OCCUPIED = "OutputOccupied"
    TOPIC_MISSING = "TopicMissing"
    TOPIC_RECREATED = "TopicRecreated"
    DATA_LOSS = "DataLoss"
    FILE_CHANGED = "FileChanged"
    FILE_UNREADABLE = "FileUnreadable"
    BAD_RECORDS = "BadRecordsOverLimit"
    LEDGER_BROKEN = "LedgerBroken"
    LEDGER_BEHIND = "LedgerBehind"
    LEDGER_REWRITTEN = "LedgerRewritten"
    OBJECT_LOST = "ObjectLost"
    DESTINATION_CONFLICT = "DestinationConflict"


class LandfallError(Exception):
    """Base of every error that Landfall raises on purpose."""


class Retry(LandfallError):  # noqa: N818  # the name is the advice
    """The store, the broker or a worker failed temporarily; the same call may succeed later."""


class StoreAway(Retry):
    """The store does not respond, throttles, or reports an internal error."""


class StoreDenied(StoreAway):
    """The store refuses: credentials, permissions, the bucket, or the request itself.

    Someone may have to act. Landing continues by itself afterwards: what was refused is tried again
    with growing pauses, and secrets are read again.
    """


class LettersAway(Retry):
    """The place of dead letters (``spec.badRecords.url``) refuses or does not respond.

    It is no ``StoreAway``: what has no dead letters lands.
    """


class LettersDenied(LettersAway):
    """The place of dead letters refuses: credentials, permissions, or the bucket."""


AccessDenied = StoreDenied | LettersDenied
"""A store of objects refuses, of data or of dead letters."""


class SourceAway(Retry):
    """The source does not respond."""


class SchemasAway(Retry):
    """The schema registry does not respond, throttles, or gives an answer that is none."""


class SchemasDenied(SchemasAway):
    """The schema registry refuses: credentials or permissions.

    Someone may have to act. Landing continues by itself afterwards, and secrets are read again.
    """


class SchemaChanged(SchemasDenied):
    """A registry gives another schema for an id than it gave before, or a stored one is damaged."""


class DestinationAway(Retry):
    """The destination of a publisher does not respond, throttles, or the outcome is unknown."""


class DestinationDenied(DestinationAway):
    """The destination of a publisher refuses: credentials or permissions.

    Someone may have to act. Publishing continues by itself afterwards, and secrets are read again.
    """


class BatchFailed(Retry):
    """The job of a batch failed as a whole, and it is unknown which of its slices is the cause."""


class PartUnreadable(LandfallError):  # noqa: N818  # the name is the state
    """A part of a file cannot be read as it is: it is damaged, or another version is there.

    The text names the topic partition, the part, the file and what is wrong.

    Attributes:
        offset: of the first row that cannot be read.
    """

    def __init__(self, offset: int, message: str) -> None:
        super().__init__(message)
        self.offset = offset

    def __reduce__(self) -> tuple[type["PartUnreadable"], tuple[int, str]]:
        # As for Stalled.
        return PartUnreadable, (self.offset, str(self))


class NotTried(Retry):
    """A task gave up before it came to the slice: an outage had failed several before it."""


class Fenced(LandfallError):  # noqa: N818  # the name is the state
    """Another driver opened the lane: this one has lost the right to commit."""


class Stalled(LandfallError):  # noqa: N818  # the name is the state
    """Trying again cannot help until someone intervenes."""

    def __init__(self, reason: Reason, message: str) -> None:
        """Keep ``reason`` apart from the text, for status, conditions and alerts."""
        super().__init__(message)
        self.reason = reason

    def __reduce__(self) -> tuple[type["Stalled"], tuple[Reason, str]]:
        """Support pickling between Spark task and driver, which by default drops ``reason``."""
        return (type(self), (self.reason, str(self)))


class LettersUnreachable(Stalled):
    """Dead letters are in a place that the spec does not name; they need not be lost."""

    def __init__(self, message: str) -> None:
        super().__init__(Reason.SPEC_INVALID, message)

    def __reduce__(self) -> tuple[type["LettersUnreachable"], tuple[str]]:  # type: ignore[override]  # its own arguments
        """Support pickling between Spark task and driver."""
        return (type(self), (str(self),))


class LogTruncated(Stalled):
    """A log ends, or was written again, below an offset that was read from it."""

    def __init__(self, message: str, diverges_at: int) -> None:
        """Keep the first offset that the log does not have as it was read."""
        super().__init__(Reason.DATA_LOSS, message)
        self.diverges_at = diverges_at

    def __reduce__(self) -> tuple[type["LogTruncated"], tuple[str, int]]:  # type: ignore[override]  # its own arguments
        """Support pickling between Spark task and driver."""
        return (type(self), (str(self), self.diverges_at))


def cause(error: LandfallError, otherwise: str) -> str:  # noqa: C901, PLR0911  # a table
    """One word for what failed: a ``Reason``, an outage, or ``otherwise``.

    The operator rolls a new generation back if its commits fail, but not because of an outage,
    which the previous generation would meet as well. It recognizes outages by the prefixes
    ``Store``, ``Source`` and ``SchemaRegistry``.
    """
    match error:
        case Stalled():
            return error.reason
        case StoreDenied() | LettersDenied():
            return Reason.STORE_DENIED
        case StoreAway() | LettersAway():
            return "StoreUnavailable"
        case SourceAway():
            return "SourceUnavailable"
        case SchemaChanged():
            return "SchemaRegistryChanged"
        case SchemasDenied():
            return "SchemaRegistryDenied"
        case SchemasAway():
            return "SchemaRegistryUnavailable"
        case DestinationDenied():
            return "DestinationDenied"
        case DestinationAway():
            return "DestinationUnavailable"
    return otherwise


DISTRIBUTION = "landfall-kafka"
"""The name of Landfall's distribution. ``landfall`` on the Python package index is another program,
so no message may name that.
"""


def how_to_install(extra: str) -> str:
    """Return how to install the packages of an extra, as the end of a sentence."""
    return (
        f"install the extra {extra} of {DISTRIBUTION}, as by pip install '.[{extra}]' in a checkout"
    )
