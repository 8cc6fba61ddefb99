"""Numbers and texts for users, rounded so that a status changes only when it matters. Pure."""

import math
from datetime import timedelta

from landfall.api.values import time_text

_COUNTS = ((10**12, "T"), (10**9, "G"), (10**6, "M"), (10**3, "k"))


def rough(number: float) -> int:
    """The number rounded up to two significant digits, so that only zero becomes zero."""
    if number <= 0:
        return 0
    step: int = 10 ** max(0, math.floor(math.log10(number)) - 1)
    return math.ceil(round(number / step, 9)) * step


def count_text(number: int) -> str:
    """A count such as ``950``, ``18k`` or ``1.2M``."""
    for size, unit in _COUNTS:
        if number >= size:
            scaled = number / size
            return f"{scaled:.1f}{unit}".replace(".0", "") if scaled < 10 else f"{scaled:.0f}{unit}"
    return str(number)


def aged(text: str, age: timedelta) -> str:
    """A text with the age of its value: ``41s (5m ago)``."""
    return f"{text} ({time_text(rough(age.total_seconds()))} ago)"


def shortened(text: str, most: int) -> str:
    """The text, cut to at most ``most`` characters; an ellipsis then ends it."""
    return text if len(text) <= most else text[: most - 1] + "…"
