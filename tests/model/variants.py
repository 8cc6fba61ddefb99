"""The worlds in which the protocol must hold, and for each of its rules a world in which it does
not without it.
"""

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
        "completes its uploads first, and its successor gives other names",
        Rules(commits_first=False),
        Scope((1, 2)),
        Harm.TWICE,
    ),
    "completes-first-if-none-match": Variant(
        "objects are completed only after the COMMIT that names them",
        "completes its uploads first, but only where nothing is, and its successor gives other names",
        Rules(commits_first=False, completes_unconditionally=False),
        Scope((1, 2)),
        Harm.TWICE,
    ),
    "if-none-match-on-complete": Variant(
        "a completion has no condition",
        "completes with If-None-Match, and of two at once both get 409",
        Rules(completes_unconditionally=False),
        Scope(late=1, expired=1),
        Harm.LOST,
    ),
    "plans-before-recovery": Variant(
        "whoever opens the ledger completes what is committed, before it plans",
        "trusts its predecessor to have completed everything",
        Rules(recovers_before_planning=False),
        Scope(),
        Harm.LOST,
    ),
    "counts-handed-in-as-applied": Variant(
        "a COMMIT is applied when each of its objects was seen",
        "records a COMMIT as applied when it begins to complete it",
        Rules(verifies_before_applied=False),
        Scope(),
        Harm.LOST,
    ),
    "deletes-a-slot": Variant(
        "no slot is ever deleted",
        "deletes slots that a snapshot covers",
        Rules(keeps_slots=False),
        Scope(),
        Harm.TWICE,
    ),
    "takes-taken-for-fenced": Variant(
        "after a lost answer, the slot's bytes tell whose it is",
        'takes the answer "taken" (412) for somebody else\'s record, and gives its uploads up',
        Rules(on_taken=Taken.IS_FENCED),
        Scope(unanswered=1, expired=1),
        Harm.LOST,
    ),
    "takes-taken-for-won": Variant(
        "after a lost answer, the slot's bytes tell whose it is",
        'takes the answer "taken" (412) for its own lost answer',
        Rules(on_taken=Taken.HAS_WON),
        Scope(),
        Harm.CHANGED,
    ),
    "gives-up-in-doubt": Variant(
        "uploads are given up only if they are certainly not committed",
        "gives up its uploads on its way out, though the COMMIT has no answer yet",
        Rules(keeps_uploads_in_doubt=False),
        Scope(unanswered=1, ends=1, expired=1),
        Harm.LOST,
    ),
    "ignores-the-fence": Variant(
        "a driver that finds another's record in its slot stops",
        "reads what it missed and goes on behind it",
        Rules(stops_when_fenced=False),
        Scope(expired=1),
        Harm.LOST,
    ),
    "sweeps-what-is-decided": Variant(
        "a sweep spares uploads that a COMMIT names",
        "aborts all open uploads but those of its round",
        Rules(spares_decided_uploads=False),
        Scope(sweeps=1, expired=1),
        Harm.LOST,
    ),
    "sweeps-though-fenced": Variant(
        "a sweep looks whether it still has the lane after it listed and before it aborts",
        "aborts what it listed",
        Rules(aborts_as_owner_only=False),
        Scope(expired=1),
        Harm.LOST,
    ),
    "believes-no-such-upload-is-done": Variant(
        "only the object proves a completion",
        'takes "no such upload" for: completed before',
        Rules(on_gone=Gone.IS_DONE),
        Scope(killed=1),
        Harm.LOST,
    ),
    "believes-no-such-upload-is-lost": Variant(
        "only the object proves a completion",
        'takes "no such upload" for: lost, and makes the object again',
        Rules(on_gone=Gone.IS_LOST),
        Scope(),
        Harm.CHANGED,
    ),
    "repairs-unrecorded": Variant(
        "an object is made again only under a REPAIR in the ledger",
        "completes the new upload without stories",
        Rules(records_repairs=False),
        Scope(killed=1),
        Harm.CHANGED,
    ),
    "lands-a-namesake": Variant(
        "before a COMMIT the topic's id is looked at again",
        "trusts that the topic is the one that it planned for",
        Rules(checks_the_topic_id=False),
        Scope((1, 2), recreated=1),
        Harm.TWICE,
    ),
    "reuses-names": Variant(
        "a recreated topic lands only under a generation above all that named objects of its former incarnation",
        "lands it under the same generation",
        Rules(never_reuses_names=False),
        Scope(recreated=1),
        Harm.CHANGED,
    ),
}
