"""A module that a hostile party names: whoever imports or calls it leaves a note.

The note says which program ran it, so that a test can tell the tenant's own pod, which may run
anything, from the operator, which must not.
"""

import os
import sys
from pathlib import Path
from uuid import uuid4

LOOT = "LANDFALL_HOSTILE_LOOT"
"""Environment variable: the folder of the notes."""


def note(what: str) -> None:
    """Leave a note."""
    folder = os.environ.get(LOOT)
    if folder:
        text = f"{what} in {Path(sys.argv[0]).name or 'python'} {' '.join(sys.argv[1:])}"
        (Path(folder) / uuid4().hex).write_text(text)


note("imported")


class Format:
    """A format."""

    def __init__(self, *_: object, **__: object) -> None:
        note("called")


def step(batch: object) -> object:
    """A transform."""
    note("called")
    return batch
