"""By what a revision is tried, as its spec says. Pure."""

from datetime import timedelta

from landfall.api.spec import ConsumerGroup
from landfall.api.values import duration_text, percent_text

STRATEGIES = frozenset({"Shadow", "Canary"})
"""The values of ``upgrade.strategy`` by which a revision is tried first."""


def terms_of(group: ConsumerGroup) -> str:
    """What a revision is tried by, as text: two trials by the same terms judge alike."""
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
    """How far back a trial looks for what was landed: long enough for every topic partition."""
    spec = group.spec
    upgrade, policy = spec.upgrade, spec.upload_policy
    window = upgrade.canary.window if upgrade.strategy == "Canary" else upgrade.shadow.window
    ages = (each.max_age for each in policy.overrides if each.max_age)
    return max(window, policy.max_age, *ages)
