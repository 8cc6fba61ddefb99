"""The vocabulary of a group's status: phases, condition types and reasons. Pure.

The troubleshooting guide in ``docs/`` has a section for every reason that reports a problem; a test
compares the two.
"""

from collections.abc import Mapping
from enum import StrEnum
from types import MappingProxyType


class Phase(StrEnum):
    """The summary of the conditions that ``kubectl get`` shows."""

    PENDING = "Pending"
    STARTING = "Starting"
    CATCHING_UP = "CatchingUp"
    RUNNING = "Running"
    SLEEPING = "Sleeping"
    UPGRADING = "Upgrading"
    ROLLING_BACK = "RollingBack"
    DEGRADED = "Degraded"
    SUSPENDING = "Suspending"
    SUSPENDED = "Suspended"
    STALLED = "Stalled"
    TERMINATING = "Terminating"


class ConditionType(StrEnum):
    """The type of a condition."""

    READY = "Ready"
    """The active generation lands, its status is fresh, and commits and source are healthy; or no
    driver is needed: the group sleeps, or is suspended as its spec asks.
    """
    DEPLOYED = "Deployed"
    """What the spec asks for is in force: its revision is the active one, and Ready holds."""
    COMMITS_HEALTHY = "CommitsHealthy"
    """Commits do not fail repeatedly."""
    WITHIN_LAG_TARGET = "WithinLagTarget"
    """No record is overdue by more than the group's lag target."""
    SOURCE_REACHABLE = "SourceReachable"
    """The driver can read from Kafka."""
    STORE_SAFE = "StoreSafe"
    """The store has passed the driver's probe of conditional writes and rights."""
    EXECUTORS_READY = "ExecutorsReady"
    """As many executors run as are wanted, or the missing ones were asked for a moment ago."""
    PUBLISHED = "Published"
    """Every publisher keeps up with what lands. Groups without publishers do not have it, and it is
    no part of Ready: landing waits for no publisher.
    """
    ON_SCHEDULE = "OnSchedule"
    """The range that is due is landed in time, and the last one was landed as a whole. Only groups
    with a schedule have it.
    """
    REPLACED = "Replaced"
    """The store refuses nothing of what merges, promotions and undoings replace. It is there once
    something was refused, and no part of Ready: neither landing nor readers wait for it.
    """
    SPEC_VALID = "SpecValid"
    """The spec can be applied."""
    UPGRADING = "Upgrading"
    """One generation takes over from another, or is watched after it did."""
    STALLED = "Stalled"
    """A user must act before the group continues."""
    RECONCILING = "Reconciling"
    """The operator is working on the group. kstatus and ``kubectl wait`` look for this condition,
    for Ready and for Stalled.
    """


class ConditionReason(StrEnum):
    """Why a condition has its status."""

    # healthy states, and operations that take time
    AS_EXPECTED = "AsExpected"
    UNKNOWN = "Unknown"
    STARTING = "Starting"
    CATCHING_UP = "CatchingUp"
    SLEEPING = "Sleeping"
    QUEUED = "Queued"
    TRYING = "Trying"
    WARMING = "Warming"
    HANDING_OVER = "HandingOver"
    DRAINING = "Draining"
    WATCHING = "Watching"
    ROLLING_BACK = "RollingBack"
    SUSPENDED = "Suspended"
    DELETING = "Deleting"
    PAUSED = "ReconciliationPaused"

    # the pod
    IMAGE_PULL = "ImagePullFailed"
    UNSCHEDULABLE = "Unschedulable"
    OUT_OF_MEMORY = "OutOfMemory"
    CRASH_LOOP = "CrashLoop"
    CONFIG_ERROR = "ConfigError"
    SECRET_MISSING = "SecretMissing"  # noqa: S105  # the name of a reason
    POD_REFUSED = "PodRefused"
    NAME_TAKEN = "NameTaken"
    EXECUTORS_MISSING = "ExecutorsMissing"
    UNREACHABLE = "DriverUnreachable"
    DRIVER_STALLED = "DriverStalled"
    FENCED = "Fenced"
    DEPENDENCY_UNAVAILABLE = "DependencyUnavailable"

    # the work
    RECOVERING = "Recovering"
    COMMITS_FAILING = "CommitsFailing"
    STORE_UNAVAILABLE = "StoreUnavailable"
    SOURCE_UNAVAILABLE = "SourceUnavailable"
    SCHEMAS_UNAVAILABLE = "SchemaRegistryUnavailable"
    SCHEMAS_DENIED = "SchemaRegistryDenied"
    SCHEMAS_CHANGED = "SchemaRegistryChanged"
    LAG_ABOVE_TARGET = "LagAboveTarget"
    RUN_LATE = "RunLate"
    RUN_INCOMPLETE = "RunIncomplete"
    PARTITIONS_BLOCKED = "TopicPartitionsBlocked"
    PUBLISHER_BLOCKED = "PublisherBlocked"
    PUBLISHER_FAILING = "PublisherFailing"
    PUBLISHER_BEHIND = "PublisherBehind"
    REPLACEMENT_REFUSED = "ReplacementRefused"
    REPLACED_NOT_DELETED = "ReplacedObjectsNotDeleted"

    # upgrades
    NOT_READY_IN_TIME = "NotReadyInTime"
    NO_COMMIT = "NoCommit"
    ROLLED_BACK = "RolledBack"
    TRIAL_REFUSED = "TrialRefused"
    TRIAL_FAILED = "TrialFailed"
    TRIAL_TIMED_OUT = "TrialTimedOut"

    # a user must act: these are the values of landfall.errors.Reason
    SPEC_INVALID = "SpecInvalid"
    STORE_UNSAFE = "StoreUnsafe"
    STORE_DENIED = "StoreDenied"
    SOURCE_DENIED = "SourceDenied"
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


BY_WORD: Mapping[str, ConditionReason] = MappingProxyType(
    {reason.value: reason for reason in ConditionReason}
)
"""The reasons that this release knows, by the word that drivers report."""

TRIAL_REASONS = frozenset(
    {ConditionReason.TRIAL_REFUSED, ConditionReason.TRIAL_FAILED, ConditionReason.TRIAL_TIMED_OUT}
)
"""Reasons for which a revision was given up before it landed anything: its trial."""

_ENVIRONMENT = frozenset(
    {
        ConditionReason.IMAGE_PULL,
        ConditionReason.UNSCHEDULABLE,
        ConditionReason.POD_REFUSED,
        ConditionReason.CONFIG_ERROR,
        ConditionReason.SECRET_MISSING,
        ConditionReason.FENCED,
        ConditionReason.DEPENDENCY_UNAVAILABLE,
    }
)


def is_environment(reason: str) -> bool:
    """Return whether the cause is the cluster, the store, Kafka or a registry, not the revision.

    Reasons of the store, of Kafka and of a schema registry begin with ``Store``, ``Source`` and
    ``SchemaRegistry``, including reasons that only a newer driver knows
    (``landfall.errors.cause``).
    """
    return reason in _ENVIRONMENT or reason.startswith(("Store", "Source", "SchemaRegistry"))


GOOD_NEWS = frozenset(
    list(ConditionReason)[: list(ConditionReason).index(ConditionReason.IMAGE_PULL)]
)
"""Reasons that report no problem, so they need no section in the troubleshooting guide."""
