"""The folders above a data object: its destination, its topic and its output partition. Pure.

A destination is where records chose to be, such as ``db=shop/layer=raw``: folders with ``=`` in
their names. No topic has one, so the first folder without is the topic's, for any values in the
other ones; that makes the names of objects of two topics different.
"""

import unicodedata

DESTINATION_END = "//"
"""What a route writes between destination and output partition; no folder has an empty name."""


def check_directories(path: str, shown: str | None = None) -> None:
    """Return if the path is one or more folder names separated by ``/``.

    Args:
        path: the folders.
        shown: what errors quote; by default the path.

    Raises:
        ValueError: a folder name is empty, ``.`` or ``..``, or contains a control character or a
            lone surrogate, which UTF-8 cannot encode.
    """
    shown = path if shown is None else shown
    if any(part in {"", ".", ".."} for part in path.split("/")):
        raise ValueError(f"not directories below the output root: {shown!r}")
    if any(unicodedata.category(char) in {"Cc", "Cs"} for char in path):
        raise ValueError(f"control characters in {shown!r}")


def check_destination(destination: str) -> None:
    """Return if this is a destination, or empty.

    Raises:
        ValueError: a folder has no ``=``, or is none.
    """
    if not destination:
        return
    check_directories(destination)
    if not all("=" in folder for folder in destination.split("/")):
        raise ValueError(f"a folder of the destination has no =: {destination!r}")


def split_destination(key: str) -> tuple[str, str]:
    """The destination in a data object's key, empty if it has none, and the key below it."""
    folders = key.split("/")
    above = next((i for i, folder in enumerate(folders) if "=" not in folder), len(folders))
    return "/".join(folders[:above]), "/".join(folders[above:])


def directories(routed: str) -> tuple[str, str]:
    """The destination, empty if there is none, and the output partition that a route renders."""
    destination, _, output_partition = routed.rpartition(DESTINATION_END)
    return destination, output_partition


def folder(topic: str, routed: str) -> str:
    """The folder, relative to the output root, of the objects that a route leads to."""
    destination, output_partition = directories(routed)
    return f"{destination}/{topic}/{output_partition}".removeprefix("/")
