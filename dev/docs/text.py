"""The layout of generated text."""

import textwrap

WIDTH = 120


def prose(text: str) -> str:
    """A paragraph in lines of at most ``WIDTH`` columns; nothing is broken inside a word."""
    return textwrap.fill(text, WIDTH, break_long_words=False, break_on_hyphens=False)
