"""Verbs that a user asks of the operator for a group, by an annotation. Pure.

    kubectl annotate consumergroup clicks landfall.dev/rollback=

The operator carries the verb out once, removes the annotation, and reports the outcome in
``status.lastRequest`` and in an Event. An annotation with a value stays, because a tool that
applies it from Git would add it again: a value is carried out once, for as long as the annotation
has it. ``kubectl landfall`` sets the same annotations and waits for the answer.
``landfall_operator.core.requests`` documents what each verb changes.

``PAUSE`` is a state, not a verb: it holds for as long as the annotation is there.
"""

from collections.abc import Mapping
from enum import StrEnum
from types import MappingProxyType

PREFIX = "landfall.dev/"
"""Begins the names of all annotations that the operator reads."""


class Verb(StrEnum):
    """The name of an annotation, after ``landfall.dev/``."""

    RETRY = "retry"
    """Try the spec again that was rolled back or given up, and let the driver try again what it
    was denied.
    """
    ROLLBACK = "rollback"
    """Land with the previous revision again, or with the one that the annotation's value names by
    its first word.
    """
    PROMOTE = "promote"
    """Continue the rollout without waiting: despite a trial's result, without a warm driver, or
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


MAX_VALUE = 253
"""Characters of an annotation's value that are remembered: later ones change nothing."""


def requested(
    annotations: Mapping[str, str], answered: Mapping[str, str] = MappingProxyType({})
) -> tuple[Verb, str] | None:
    """The verb to carry out next, with the annotation's value; None if there is none.

    Args:
        annotations: the annotations of the group.
        answered: the value of each verb's annotation that was answered already.
    """
    values = {verb: _value(annotations, verb) for verb in Verb if annotation(verb) in annotations}
    pending = (item for item in values.items() if not item[1] or answered.get(item[0]) != item[1])
    return next(pending, None)


def still_answered(annotations: Mapping[str, str], answered: Mapping[str, str]) -> dict[str, str]:
    """The answered values that their annotations still have; the rest may be given again."""
    return {
        verb: value
        for verb, value in answered.items()
        if value and annotations.get(f"{PREFIX}{verb}", "").strip()[:MAX_VALUE] == value
    }


def _value(annotations: Mapping[str, str], verb: Verb) -> str:
    return annotations[annotation(verb)].strip()[:MAX_VALUE]


def is_paused(annotations: Mapping[str, str]) -> bool:
    """Return whether the user has paused the group's reconciliation."""
    return annotations.get(PAUSE, "").strip().lower() == "true"
