"""The words of a group's status: phases, condition types, and every reason there is.

``docs/operations.md`` has a section for each reason that is not simply good news; a test holds the
two together.
"""

from enum import StrEnum


class Phase(StrEnum):
    """What ``kubectl get`` shows: a summary of the conditions."""

    PENDING = "Pending"
    STARTING = "Starting"
    CATCHING_UP = "CatchingUp"
    RUNNING = "Running"
    UPGRADING = "Upgrading"
    ROLLING_BACK = "RollingBack"
    DEGRADED = "Degraded"
    SUSPENDING = "Suspending"
    SUSPENDED = "Suspended"
    STALLED = "Stalled"
    TERMINATING = "Terminating"


class ConditionType(StrEnum):
    """What a condition is about."""

    READY = "Ready"
    """The active generation lands, its numbers are fresh, and nothing below is wrong."""
    COMMITS_HEALTHY = "CommitsHealthy"
    WITHIN_LAG_TARGET = "WithinLagTarget"
    SOURCE_REACHABLE = "SourceReachable"
    STORE_SAFE = "StoreSafe"
    SPEC_VALID = "SpecValid"
    UPGRADING = "Upgrading"
    STALLED = "Stalled"
    """A person is needed."""
    RECONCILING = "Reconciling"
    """Something is being done about it: with Ready and Stalled, what kstatus and ``kubectl wait``
    look for.
    """


class Reason(StrEnum):
    """Why a condition is as it is."""

    # good news, and things that take their time
    AS_EXPECTED = "AsExpected"
    UNKNOWN = "Unknown"
    STARTING = "Starting"
    RECOVERING = "Recovering"
    CATCHING_UP = "CatchingUp"
    WARMING = "Warming"
    HANDING_OVER = "HandingOver"
    DRAINING = "Draining"
    WATCHING = "Watching"
    ROLLING_BACK = "RollingBack"
    SUSPENDED = "Suspended"
    DELETING = "Deleting"

    # the pod
    IMAGE_PULL = "ImagePullFailed"
    UNSCHEDULABLE = "Unschedulable"
    OUT_OF_MEMORY = "OutOfMemory"
    CRASH_LOOP = "CrashLoop"
    CONFIG_ERROR = "ConfigError"
    POD_REFUSED = "PodRefused"
    UNREACHABLE = "DriverUnreachable"
    DRIVER_STALLED = "DriverStalled"
    FENCED = "Fenced"

    # the work
    COMMITS_FAILING = "CommitsFailing"
    STORE_UNAVAILABLE = "StoreUnavailable"
    SOURCE_UNAVAILABLE = "SourceUnavailable"
    LAG_ABOVE_TARGET = "LagAboveTarget"
    PARTITIONS_BLOCKED = "TopicPartitionsBlocked"

    # upgrades
    NOT_READY_IN_TIME = "NotReadyInTime"
    NO_COMMIT = "NoCommit"
    ROLLED_BACK = "RolledBack"

    # a person is needed: landfall.errors.Reason
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


GOOD_NEWS = frozenset(list(Reason)[: list(Reason).index(Reason.IMAGE_PULL)])
"""Reasons that need no section in docs/operations.md."""
