"""What a user asks the operator to do with a group, by an annotation. Pure.

    kubectl annotate consumergroup clicks landfall.dev/rollback=

The operator carries the verb out once, removes the annotation, and says in ``status.lastRequest``
and in an Event what came of it. ``kubectl landfall`` sets the same annotations and waits for the
answer. ``landfall_operator.core.requests`` says what each verb changes.

``PAUSE`` is a state, not a verb: it holds for as long as the annotation is there.
"""

from collections.abc import Mapping
from enum import StrEnum

PREFIX = "landfall.dev/"
"""Begins the names of all annotations that the operator reads."""


class Verb(StrEnum):
    """The name of an annotation, after ``landfall.dev/``."""

    RETRY = "retry"
    """Try the spec again that was rolled back or given up, and let the driver try again what it
    was denied.
    """
    ROLLBACK = "rollback"
    """Land with the previous revision again, or with the one that the annotation's value names."""
    PROMOTE = "promote"
    """Go on with the rollout without waiting: whatever a trial says, without a warm driver, or
    without the rest of the watch.
    """
    ABORT = "abort"
    """Give the rollout up: the active revision stays, or the previous one comes back."""
    RESTART = "restart"
    """Stop the driver, which drains and hands over, and start it again."""


PAUSE = f"{PREFIX}pause-reconciliation"
"""While this annotation has the value ``true``, the operator changes nothing and only reports."""


def annotation(verb: Verb) -> str:
    """The annotation's name."""
    return f"{PREFIX}{verb}"


def requested(annotations: Mapping[str, str]) -> tuple[Verb, str] | None:
    """The verb to carry out next, with the annotation's value; None if there is none."""
    return next(
        ((verb, annotations[annotation(verb)]) for verb in Verb if annotation(verb) in annotations),
        None,
    )


def is_paused(annotations: Mapping[str, str]) -> bool:
    """Whether the user has paused the group's reconciliation."""
    return annotations.get(PAUSE, "").strip().lower() == "true"
