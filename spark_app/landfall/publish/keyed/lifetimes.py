"""Finds the lifetimes of the rows of a table's files."""

from collections.abc import Callable, Mapping, Sequence
from contextlib import suppress

from landfall.ledger.names.object_names import parse_key
from landfall.publish import Stretch
from landfall.publish.keyed.passes import KeyedFile
from landfall.publish.keyed.rows import Lifetimes, lifetimes_in
from landfall.publish.table_names import below


def lifetimes_of(stretch: Stretch, root: str) -> Callable[[KeyedFile], Lifetimes]:
    """Return the lifetimes of the rows of files, by their names.

    Args:
        stretch: a part of the ledger with objects of a table, which is of one topic.
        root: the URL of the output root.

    Raises:
        Stalled, Retry: see ``EndedLifetimes``.
    """
    retired = (o for replacement in stretch.replaced for o in replacement.retired)
    keys = [*(o.key for o in stretch.objects), *(o.key for o in retired)]
    return lifetimes_by(stretch.ended(parse_key(keys[0]).topic) if keys else {}, root)


def lifetimes_by(ended: Mapping[int, Sequence[int]], root: str) -> Callable[[KeyedFile], Lifetimes]:
    """Return the lifetimes of the rows of files, by the lifetimes that have ended."""
    return lambda file: lifetimes_in(_generation(file, root), ended) if ended else {}


def is_landed(file: KeyedFile, root: str) -> bool:
    """Return whether a file is a landed one, by its name.

    Args:
        file: of a table.
        root: the URL of the output root.
    """
    return _generation(file, root) is not None


def _generation(file: KeyedFile, root: str) -> int | None:
    key = below(root, file.uri)
    with suppress(ValueError):  # a file of another program in the folder of a table below the root
        return None if key is None else parse_key(key).generation
    return None
