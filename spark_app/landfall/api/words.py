"""Suggests corrections of misspelt words; imports nothing heavy, for the command line."""

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
