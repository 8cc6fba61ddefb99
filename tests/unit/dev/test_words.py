"""Phrases are found in prose, messages and comments, and neither in names nor in blocks of code."""

from pathlib import Path

from dev.words import PHRASES, TOO_OFTEN, found, table

MODULE = '''\
"""Whether a lane is open."""

# Objects that were put in the place
# of older ones.
anew = "nobody knows"


def others() -> None:
    """Return the objects that took their place."""
'''

PAGE = """\
Merged objects take the
place of small ones.

```console
$ landfall says hello
```

    whoever

The command `says` it.
"""


def names(path: str, text: str) -> list[tuple[str, int]]:
    return sorted((phrase.name, line) for phrase, line, _ in found(Path(path), text))


def test_phrases_of_a_module_are_found() -> None:
    assert names("lane.py", MODULE) == [
        ("docstring: What …", 1),
        ("in the place of", 3),
        ("in the place of", 9),
        ("somebody", 5),
    ]


def test_phrases_of_a_page_are_found() -> None:
    assert names("page.md", PAGE) == [("in the place of", 1)]


def test_a_phrase_that_is_written_more_often_than_before_is_marked() -> None:
    limit = next(phrase.code for phrase in PHRASES if phrase.name == "anew")
    lines = list(table({("anew", ".py"): limit + 1, ("anew", ".md"): 0}))
    assert [line for line in lines if TOO_OFTEN in line] == [
        f"anew                 code  {limit + 1:5}  more than {limit}: write again"
    ]
