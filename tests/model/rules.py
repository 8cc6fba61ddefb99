"""The protocol's rules, each of which a variant leaves out, and how many faults a world allows."""

from dataclasses import dataclass, field
from enum import StrEnum


class Harm(StrEnum):
    """What must never be. The first three are what a user would see; the others are invariants on
    the way there.
    """

    TWICE = "a record is visible twice"
    CHANGED = "a visible object changed"
    LOST = "a record is never landed"
    UNDECIDED = "an object is visible that no COMMIT or REPAIR names (I3)"
    UNAPPLIED = "the ledger says a COMMIT is applied, but an object of it is not there (I6)"
    ABORTED = "an upload was aborted that a COMMIT names and that was not completed"
    REFUSED = "a driver made a record that the fold refuses (I2, I4, I8)"
    FOREIGN = "a driver found an object of another upload at its key (I4)"
    UNREADABLE = "a COMMIT names a schema that is not stored (I9)"
    STUCK = "a driver that owns the lane and runs undisturbed never finishes"


class Taken(StrEnum):
    """What a driver concludes from the response "taken" to a create."""

    COMPARES = "reads the slot and compares the bytes"
    IS_FENCED = "assumes that another driver owns the lane"
    HAS_WON = "assumes that it is its own record"


class Gone(StrEnum):
    """What a driver concludes from the response "no such upload" to a completion."""

    LOOKS = "looks up the object"
    IS_DONE = "assumes that it was completed before"
    IS_LOST = "assumes that it is lost"


@dataclass(frozen=True, slots=True)
class Rules:
    """What Landfall does; a variant differs in one rule."""

    commits_first: bool = True
    completes_unconditionally: bool = True
    recovers_before_planning: bool = True
    keeps_seals: bool = True
    keeps_first_slots: bool = True
    deletes_sealed_only: bool = True
    records_segments_first: bool = True
    spares_decided_uploads: bool = True
    aborts_as_owner_only: bool = True
    keeps_uploads_in_doubt: bool = True
    on_taken: Taken = Taken.COMPARES
    stops_when_fenced: bool = True
    on_gone: Gone = Gone.LOOKS
    records_repairs: bool = True
    verifies_before_applied: bool = True
    checks_the_topic_id: bool = True
    never_reuses_names: bool = True
    looks_before_it_gives_up: bool = True
    records_what_it_gives_up: bool = True
    records_repairs_of_missing: bool = True
    repairs_under_own_slot: bool = True
    repairs_only_what_is_due: bool = True
    drops_batches_of_blocked: bool = True
    decides_between_batches: bool = True
    compares_leader_epochs: bool = True
    stores_schemas_first: bool = True
    keeps_schemas: bool = True


@dataclass(frozen=True, slots=True)
class Scope:
    """A small world: the number of drivers and records, and how often each fault may happen.

    Any driver may pause at any step, also for ever, while others start: that needs no setting.

    Attributes:
        generations: of the drivers, which start in this order and perhaps all at once.
        revisions: of the drivers, where standing by counts; else each takes the lane as soon as it
            is there.
        records: in the log, offsets from 0.
        batches: COMMITs that may be unapplied before a driver plans no more.
        unanswered: calls that have their effect and no answer.
        late: calls that have no answer, and their effect at any later time.
        killed: uploads that a lifecycle rule takes.
        expired: times that the log drops what is decided.
        sweeps: of a driver that is landing, beside the one before it begins.
        yields: times that a driver hands the lane over.
        orders: times that the operator lets a driver take the lane, whoever has it.
        ends: times that a driver ends itself, for a reason like lost credentials.
        recreated: times that the topic is deleted and created again.
        seals: times that a driver seals its own epoch.
        deleted: slots that are deleted because a segment holds them.
        truncated: times that an election cuts the log back below the checkpoint, and other records
            follow.
        restored: times that the log gets back what it had dropped.
        applies: times that a driver records only what is applied.
        decisions: of a person, by any verb that moves no checkpoint back.
        schemas: whether payloads have a schema, which a task stores before its batch is committed.
        asks: whether a driver leaves it to a person to give up what it cannot make again.
    """

    generations: tuple[int, ...] = (1, 1)
    revisions: str = ""
    records: int = 2
    batches: int = 2
    unanswered: int = 0
    late: int = 0
    killed: int = 0
    expired: int = 0
    sweeps: int = 0
    yields: int = 0
    applies: int = 0
    orders: int = 0
    ends: int = 0
    recreated: int = 0
    seals: int = 0
    deleted: int = 0
    truncated: int = 0
    restored: int = 0
    decisions: int = 0
    schemas: bool = False
    asks: bool = False
    cuts: bool = field(default=True)
    """Whether a round may take less than there is."""
