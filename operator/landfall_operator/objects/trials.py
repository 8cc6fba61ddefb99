"""The Backfill that tries a revision, as a manifest for the API server. Pure.

It lands again what was landed last, by the spec of another revision, and is never promoted.
"""

from datetime import datetime, timedelta

from landfall.api.spec import ConsumerGroup
from landfall.api.values import duration_text, percent_text
from landfall_operator.api.backfill import KIND, MAX_NAME
from landfall_operator.objects import names
from landfall_operator.objects.manifests import Owner, owned_object, with_hash
from landfall_operator.objects.overlay import Json

STRATEGIES = frozenset({"Shadow", "Canary"})
"""The values of ``upgrade.strategy`` by which a revision is tried first."""


def terms_of(group: ConsumerGroup) -> str:
    """Return the terms of a revision's trial as text: trials with equal terms judge alike."""
    upgrade = group.spec.upgrade
    if upgrade.strategy == "Canary":
        canary = upgrade.canary
        return (
            f"Canary of {percent_text(canary.topic_partitions)} of the topic partitions, "
            f"window {duration_text(canary.window)}, "
            f"bad records up to {percent_text(canary.bad_records)}, "
            f"throughput from {percent_text(canary.min_throughput)}"
        )
    shadow = upgrade.shadow
    return (
        f"Shadow, window {duration_text(shadow.window)}, "
        f"rows differing up to {percent_text(shadow.tolerate.rows)}, "
        f"more dead letters up to {percent_text(shadow.tolerate.dead_letters)}"
    )


def window_of(group: ConsumerGroup) -> timedelta:
    """How far back a trial looks for landed records: long enough for every topic partition."""
    spec = group.spec
    upgrade = spec.upgrade
    policy = spec.upload_policy
    window = upgrade.canary.window if upgrade.strategy == "Canary" else upgrade.shadow.window
    ages = (override.max_age for override in policy.overrides if override.max_age)
    return max(window, policy.max_age, *ages)


_DIGITS = "0123456789abcdefghijklmnopqrstuvwxyz"


def backfill_name(group: str, revision: str, since: datetime) -> str:
    """The name of a trial's Backfill: ``clicks-g3-1a2b3c4d-t4k2x0``.

    It differs for each trial of a revision: the former one may still be deleting its objects.
    """
    ending = f"-{revision}-{_base36(int(since.timestamp()))}"
    return f"{group[: MAX_NAME - len(ending)].rstrip('-')}{ending}"


def trial_manifest(
    owner: Owner, group: ConsumerGroup, name: str, revision: str, executors: int
) -> Json:
    """The Backfill that tries the spec of a group.

    Args:
        owner: the group's resource.
        group: the spec that is tried.
        name: see ``backfill_name``.
        revision: the revision of the spec; its ControllerRevision exists.
        executors: how many executors the group has now.
    """
    upgrade = group.spec.upgrade
    share = upgrade.canary.topic_partitions if upgrade.strategy == "Canary" else 1.0
    cores = executors * group.spec.executor.cores
    spec: Json = {
        "group": owner.name,
        "revision": revision,
        "last": duration_text(window_of(group)),
        "into": "Replace",
        "promote": "Never",
        # As much of the executors as of the topic partitions, so that its speed can be compared.
        "maxCores": max(1, round(cores * share)),
    }
    if share < 1:
        spec["share"] = f"{max(0.001, round(share * 100, 3)):g}%"
    labels = {**names.labels(owner.name), names.COMPONENT: names.TRIAL}
    base = owned_object(owner, names.API_VERSION, KIND, name, labels=labels)
    return with_hash({**base, "spec": spec})


def _base36(number: int) -> str:
    text = ""
    while number:
        number, digit = divmod(number, 36)
        text = _DIGITS[digit] + text
    return text
