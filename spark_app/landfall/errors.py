"""One tree of errors, of three kinds, so that whoever catches one knows what to do with it.

``Retry``    it comes right by itself: wait, with backoff, and try the same thing again.
``Fenced``   somebody else writes this ledger now: stop, touch nothing more.
``Stalled``  a person is needed; ``reason`` says for what, and is what a status or an alert shows.

A record that cannot be decoded, routed or encoded is not an error but data: see
``landfall.pipeline.records.BadRows``.
"""

from enum import StrEnum


class Reason(StrEnum):
    """Why a group, or one of its topic partitions, stands still until a person acts."""

    SPEC_INVALID = "SpecInvalid"
    STORE_UNSAFE = "StoreUnsafe"
    STORE_DENIED = "StoreDenied"
    SOURCE_DENIED = "SourceDenied"
    OUTPUT_OCCUPIED = "OutputOccupied"
    TOPIC_MISSING = "TopicMissing"
    TOPIC_RECREATED = "TopicRecreated"
    DATA_LOSS = "DataLoss"
    BAD_RECORDS = "BadRecordsOverLimit"
    LEDGER_BROKEN = "LedgerBroken"
    OBJECT_LOST = "ObjectLost"


class LandfallError(Exception):
    """The root: every error Landfall raises on purpose."""


class Retry(LandfallError):  # noqa: N818  # the name is the advice
    """The store, the broker or a worker could not answer now; the same call may succeed later."""


class StoreAway(Retry):
    """The store does not answer, throttles, or says it is not well."""


class SourceAway(Retry):
    """The source does not answer."""


class Fenced(LandfallError):  # noqa: N818  # the name is the state
    """Another driver opened the ledger: this one has lost the right to commit."""


class Stalled(LandfallError):  # noqa: N818  # the name is the state
    """Nothing will get better until a person acts."""

    def __init__(self, reason: Reason, message: str) -> None:
        """Keep ``reason`` apart from the text, for status, conditions and alerts."""
        super().__init__(message)
        self.reason = reason

    def __reduce__(self) -> tuple[type["Stalled"], tuple[Reason, str]]:
        """Survive the pickling between a Spark task and the driver."""
        return (type(self), (self.reason, str(self)))


def cause(error: LandfallError, otherwise: str) -> str:
    """One word for what failed: a person's ``Reason``, an outage of the store or the source, or what was being done.

    Whoever takes a bad generation back must know an outage, which the one before would meet as
    well: those begin with ``Store`` and ``Source``.
    """
    match error:
        case Stalled():
            return error.reason
        case StoreAway():
            return "StoreUnavailable"
        case SourceAway():
            return "SourceUnavailable"
    return otherwise
