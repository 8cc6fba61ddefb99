"""The worlds in which the protocol must hold, and for each rule one that shows why it is needed."""

from collections.abc import Mapping
from dataclasses import dataclass

from tests.model.rules import Gone, Harm, Rules, Scope, Taken

WORLDS: Mapping[str, Scope] = {
    "three drivers": Scope((1, 1, 1)),
    "lost and late answers": Scope(unanswered=1, late=1),
    "batches in batch": Scope(records=3, late=1),
    "a lifecycle rule": Scope(late=1, killed=1),
    "retention": Scope(unanswered=1, expired=1, sweeps=1, ends=1),
    "hand-over": Scope((1, 1, 1), revisions="ABB", yields=1, orders=1),
    "a recreated topic": Scope((1, 2), unanswered=1, recreated=1),
    "deleted slots": Scope(records=3, batches=3, seals=1, deleted=2),
    "deleted slots and late answers": Scope(records=3, late=1, seals=1, deleted=1),
    "objects given up": Scope(killed=1, expired=1, late=1),
    "blocks and decisions": Scope(killed=1, expired=1, decisions=1, asks=True),
    "missing objects": Scope(killed=1, expired=1, restored=1, decisions=2, asks=True, cuts=False),
    "a truncated log": Scope(truncated=1, decisions=1, unanswered=1),
    "stored schemas": Scope(schemas=True, unanswered=1, late=1),
    "records of what is applied": Scope(applies=1, killed=1, unanswered=1),
}
"""Small enough for every run of the tests."""

LARGE_WORLDS: Mapping[str, Scope] = {
    "three drivers": Scope((1, 1, 1), late=1),
    "lost and late answers": Scope(unanswered=2, late=2),
    "batches in batch": Scope(unanswered=1, late=1, records=4),
    "a lifecycle rule": Scope(unanswered=1, late=1, killed=2),
    "retention": Scope((1, 1, 1), expired=1, sweeps=1, ends=1),
    "hand-over": Scope((1, 1, 1), revisions="ABA", yields=2, orders=2),
    "a recreated topic": Scope((1, 2, 1), recreated=1),
    "deleted slots": Scope((1, 1, 1), records=3, seals=1, deleted=2),
    "deleted slots and late answers": Scope(records=3, late=1, seals=2, deleted=3),
    "objects given up": Scope(unanswered=1, killed=2, expired=1, late=1),
    "blocks and decisions": Scope(killed=1, expired=1, decisions=2, asks=True, late=1),
    "missing objects": Scope(killed=2, expired=1, restored=1, decisions=2, asks=True),
    "a truncated log": Scope((1, 1, 1), truncated=1, decisions=1),
    "stored schemas": Scope((1, 1, 1), schemas=True, unanswered=1, late=1),
    "records of what is applied": Scope(applies=2, killed=1, unanswered=1, late=1),
}
"""The same with more of everything: minutes."""


@dataclass(frozen=True, slots=True)
class Variant:
    """The protocol without one rule.

    Attributes:
        rule: that it leaves out.
        instead: what it does.
        rules: of the variant.
        scope: a world that is large enough to show it.
        harm: what comes of it.
    """

    rule: str
    instead: str
    rules: Rules
    scope: Scope
    harm: Harm


VARIANTS: Mapping[str, Variant] = {
    "completes-first": Variant(
        "objects are completed only after the COMMIT that names them",
        "completes its uploads, then appends the COMMIT",
        Rules(commits_first=False),
        Scope(),
        Harm.CHANGED,
    ),
    "completes-first-next-generation": Variant(
        "objects are completed only after the COMMIT that names them",
        "completes its uploads first, and its successor uses other names",
        Rules(commits_first=False),
        Scope((1, 2)),
        Harm.TWICE,
    ),
    "completes-first-if-none-match": Variant(
        "objects are completed only after the COMMIT that names them",
        "completes its uploads first, if no object is there, and its successor uses other names",
        Rules(commits_first=False, completes_unconditionally=False),
        Scope((1, 2)),
        Harm.TWICE,
    ),
    "if-none-match-on-complete": Variant(
        "a completion has no condition",
        "completes with If-None-Match, and two that do so at once both get 409",
        Rules(completes_unconditionally=False),
        Scope(late=1, expired=1),
        Harm.LOST,
    ),
    "plans-before-recovery": Variant(
        "a driver that opens the lane completes what is committed before it plans",
        "trusts its predecessor to have completed everything",
        Rules(recovers_before_planning=False),
        Scope(),
        Harm.LOST,
    ),
    "counts-handed-in-as-applied": Variant(
        "a COMMIT counts as applied once each of its objects was seen",
        "records a COMMIT as applied when it starts to complete its objects",
        Rules(verifies_before_applied=False),
        Scope(),
        Harm.LOST,
    ),
    "deletes-seals": Variant(
        "the OPEN that seals an epoch is never deleted",
        "deletes every slot of a sealed epoch but its first",
        Rules(keeps_seals=False),
        Scope(deleted=1),
        Harm.CHANGED,
    ),
    "deletes-first-slots": Variant(
        "the first slot of an epoch is never deleted",
        "deletes every slot of a sealed epoch but its seal",
        Rules(keeps_first_slots=False),
        Scope(records=3, batches=3, seals=2, deleted=2),
        Harm.CHANGED,
    ),
    "deletes-unsealed-slots": Variant(
        "only slots of sealed epochs are deleted",
        "deletes slots of the present epoch that a snapshot covers",
        Rules(deletes_sealed_only=False),
        Scope(deleted=1),
        Harm.CHANGED,
    ),
    "deletes-before-it-records": Variant(
        "slots are deleted only after the record in a later epoch that names their segment",
        "deletes the slots of an epoch as soon as it is sealed",
        Rules(records_segments_first=False),
        Scope(seals=1, deleted=1),
        Harm.CHANGED,
    ),
    "takes-taken-for-fenced": Variant(
        "after a lost response, the slot's bytes decide whose record it is",
        'takes "taken" (412) for the record of another driver, and aborts its uploads',
        Rules(on_taken=Taken.IS_FENCED),
        Scope(unanswered=1, expired=1),
        Harm.LOST,
    ),
    "takes-taken-for-won": Variant(
        "after a lost response, the slot's bytes decide whose record it is",
        'takes "taken" (412) for its own record',
        Rules(on_taken=Taken.HAS_WON),
        Scope(),
        Harm.CHANGED,
    ),
    "gives-up-in-doubt": Variant(
        "uploads are aborted only if they are certainly not committed",
        "aborts its uploads when it ends, though its COMMIT has no response yet",
        Rules(keeps_uploads_in_doubt=False),
        Scope(unanswered=1, ends=1, expired=1),
        Harm.LOST,
    ),
    "ignores-the-fence": Variant(
        "a driver that finds the record of another driver in its slot stops",
        "reads what it missed and appends after it",
        Rules(stops_when_fenced=False),
        Scope(expired=1),
        Harm.LOST,
    ),
    "sweeps-what-is-decided": Variant(
        "uploads that a COMMIT names are no orphans",
        "aborts all open uploads but those of its own batch",
        Rules(spares_decided_uploads=False),
        Scope(sweeps=1, expired=1),
        Harm.LOST,
    ),
    "sweeps-though-fenced": Variant(
        "between listing orphans and aborting them, a driver checks that it still owns the lane",
        "aborts what it listed without that check",
        Rules(aborts_as_owner_only=False),
        Scope(expired=1),
        Harm.LOST,
    ),
    "believes-no-such-upload-is-done": Variant(
        "only the object proves a completion",
        'takes "no such upload" to mean that it was completed before',
        Rules(on_gone=Gone.IS_DONE),
        Scope(killed=1),
        Harm.LOST,
    ),
    "believes-no-such-upload-is-lost": Variant(
        "only the object proves a completion",
        'takes "no such upload" to mean that it is lost, and makes the object again',
        Rules(on_gone=Gone.IS_LOST),
        Scope(),
        Harm.CHANGED,
    ),
    "repairs-unrecorded": Variant(
        "an object is made again only under a REPAIR in the ledger",
        "completes the new upload without recording it",
        Rules(records_repairs=False),
        Scope(killed=1),
        Harm.CHANGED,
    ),
    "lands-a-namesake": Variant(
        "before a COMMIT the topic's id is checked again",
        "assumes that the topic is still the one it planned for",
        Rules(checks_the_topic_id=False),
        Scope((1, 2), recreated=1),
        Harm.TWICE,
    ),
    "gives-up-unseen": Variant(
        "an object is given up only after a completion found neither its upload nor itself",
        "gives it up as soon as the log no longer has its records",
        Rules(looks_before_it_gives_up=False),
        Scope(expired=1),
        Harm.UNDECIDED,
    ),
    "gives-up-unrecorded": Variant(
        "COMMITs count as applied despite a missing object only once a BLOCK or LOST names it",
        "waits no longer for what it cannot make again",
        Rules(records_what_it_gives_up=False),
        Scope(killed=1, expired=1),
        Harm.UNAPPLIED,
    ),
    "repairs-under-the-commit": Variant(
        "a missing object that is made again is due under the slot of its REPAIR",
        "leaves it due under its COMMIT, which may count as applied",
        Rules(repairs_under_own_slot=False),
        Scope(killed=1, expired=1, restored=1, decisions=1, asks=True),
        Harm.LOST,
    ),
    "repairs-missing-unrecorded": Variant(
        "a missing object, too, is made again only under a REPAIR in the ledger",
        "completes a new upload of a missing object without recording it",
        Rules(records_repairs_of_missing=False),
        Scope(killed=1, expired=1, restored=1, decisions=1, asks=True),
        Harm.UNDECIDED,
    ),
    "repairs-what-was-given-up": Variant(
        "what a decision gave up while it was made again is not repaired",
        "records the REPAIR",
        Rules(repairs_only_what_is_due=False),
        Scope(killed=1, expired=1, restored=1, decisions=2, asks=True, cuts=False),
        Harm.REFUSED,
    ),
    "commits-what-is-blocked": Variant(
        "a batch is not committed if its topic partition was blocked meanwhile",
        "commits it",
        Rules(drops_batches_of_blocked=False),
        Scope(killed=1, expired=1, asks=True),
        Harm.REFUSED,
    ),
    "decides-beside-a-batch": Variant(
        "a decision that moves or drops a checkpoint waits for the batch in flight",
        "records it at once",
        Rules(decides_between_batches=False),
        Scope(decisions=1),
        Harm.REFUSED,
    ),
    "lands-a-truncated-log": Variant(
        "a log whose leader epochs show that it was truncated is blocked until a decision",
        "lands on after it",
        Rules(compares_leader_epochs=False),
        Scope(truncated=1),
        Harm.LOST,
    ),
    "names-schemas-unstored": Variant(
        "a task stores the schemas that it used before its result names them",
        "commits what a task names, and leaves it to a later task to store the schemas",
        Rules(stores_schemas_first=False),
        Scope(schemas=True),
        Harm.UNREADABLE,
    ),
    "deletes-schemas": Variant(
        "a stored schema is never deleted",
        "deletes a schema that no COMMIT names, as the rest of a task that died",
        Rules(keeps_schemas=False),
        Scope(schemas=True),
        Harm.UNREADABLE,
    ),
    "reuses-names": Variant(
        "a recreated topic lands only under a generation above those that named its old objects",
        "lands it under the same generation",
        Rules(never_reuses_names=False),
        Scope(recreated=1),
        Harm.CHANGED,
    ),
}
