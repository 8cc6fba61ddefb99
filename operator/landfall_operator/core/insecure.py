"""What a valid spec should not do, and does: a warning, since what ran before must go on. Pure."""

from landfall.api.plain_http import plain_http
from landfall.api.spec import ConsumerGroup


def secrets_over_plain_http(group: ConsumerGroup) -> str:
    """Return which fields send a secret over plain HTTP, and to whom; empty if none does."""
    return "; ".join(f"{field}: {warning}" for field, warning in plain_http(group.spec))
