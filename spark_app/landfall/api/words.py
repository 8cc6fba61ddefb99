"""Corrections of misspelt words, and numbers with their nouns; imports nothing heavy."""

from collections.abc import Iterable
from difflib import get_close_matches


def did_you_mean(text: str, words: Iterable[str]) -> str:
    """``, did you mean WORD?`` if one of the words is similar to the text, else nothing."""
    typed, by_lower = text.lower(), {word.lower(): word for word in words}
    begun = [word for word in by_lower if len(typed) > 1 and word.startswith(typed)]
    swapped = [word for word in by_lower if sorted(word) == sorted(typed)]
    close = next((candidates for candidates in (begun, swapped) if len(candidates) == 1), None)
    close = close or get_close_matches(typed, by_lower, 1, 0.7)
    return f", did you mean {by_lower[close[0]]}?" if close else ""


def count(number: float) -> str:
    """A number with separators: ``1,234,567``."""
    return f"{number:,.0f}"


def counted(number: int, singular: str, plural: str = "") -> str:
    """A number with its noun: ``1 object``, ``1,200 objects``."""
    return f"{count(number)} {singular if number == 1 else plural or f'{singular}s'}"
