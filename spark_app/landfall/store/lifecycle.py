"""Checks a bucket's lifecycle rules for ones that discard uploads too early. Pure.

A committed upload waits for its driver, perhaps through a long outage. If a rule aborts it before,
its records must be read from Kafka again, which may have dropped them by then.
"""

from collections.abc import Iterable, Mapping, Sequence
from datetime import timedelta
from typing import Any, Protocol, runtime_checkable

PROBES = "_landfall/_probe/"
"""Prefix of what ``probe`` leaves, which may go at any time."""
MIN_LIFETIME = timedelta(days=7)
"""An upload should live at least this long."""


@runtime_checkable
class ExpiresUploads(Protocol):
    """A store that may know after how long it discards open uploads. Stores need not have it."""

    def upload_lifetime(self) -> timedelta | None:
        """The shortest time after which an open upload is discarded; None if never or unknown."""
        ...


@runtime_checkable
class GivesAdvice(Protocol):
    """A store that may know what else is to change in its settings. Stores need not have it."""

    def advice(self) -> Sequence[str]:
        """Return what to change, one sentence each; empty if nothing, or if it is unknown."""
        ...


def upload_lifetime(rules: Iterable[Mapping[str, Any]], root: str) -> timedelta | None:
    """The shortest lifetime that a bucket's lifecycle rules leave to uploads below ``root``.

    Args:
        rules: as ``GetBucketLifecycleConfiguration`` answers.
        root: prefix of all keys; empty, or with a slash at its end.
    """
    days = [
        rule["AbortIncompleteMultipartUpload"]["DaysAfterInitiation"]
        for rule in rules
        if rule.get("Status") == "Enabled"
        and "AbortIncompleteMultipartUpload" in rule
        and _concerns(_prefix(rule), root)
    ]
    return timedelta(days=min(days)) if days else None


def settings_warning(store: object) -> str:
    """Return what to change in the store's settings; empty if nothing, or if they are unknown.

    Raises:
        Retry: the store does not answer.
    """
    advice = store.advice() if isinstance(store, GivesAdvice) else ()
    return "; ".join(filter(None, (lifetime_warning(store), *advice)))


def lifetime_warning(store: object) -> str:
    """Return what to change if the store discards uploads too early; else, or if unknown, empty.

    Raises:
        Retry: the store does not answer.
    """
    lifetime = store.upload_lifetime() if isinstance(store, ExpiresUploads) else None
    if lifetime is None or lifetime >= MIN_LIFETIME:
        return ""
    return (
        f"a lifecycle rule of the bucket discards incomplete uploads after {lifetime.days} d: "
        "committed ones may be lost while no driver runs; give them "
        f"{MIN_LIFETIME.days} d (S3: AbortIncompleteMultipartUpload)"
    )


def _prefix(rule: Mapping[str, Any]) -> str:
    chosen = rule.get("Filter", {})
    return str(chosen.get("And", chosen).get("Prefix") or rule.get("Prefix") or "")


def _concerns(prefix: str, root: str) -> bool:
    """Return whether a rule for a prefix concerns data below the root; probes do not count."""
    return root.startswith(prefix) or (
        prefix.startswith(root) and not prefix.startswith(root + PROBES)
    )
