"""Landfall's data plane: lands Kafka topics in an object store exactly once."""

from typing import TYPE_CHECKING, Unpack

if TYPE_CHECKING:
    import os
    from collections.abc import Collection

    from landfall.api.spec import Access
    from landfall.reading import LandedGroup

__version__ = "0.1.0"


def open(  # noqa: A001  # landfall.open, as gzip.open
    source: "str | os.PathLike[str]",
    *,
    group: str = "",
    lane: str = "0",
    plugins: "Collection[str]" = (),
    **access: "Unpack[Access]",
) -> "LandedGroup":
    """Open what a group has landed, for reading.

    Args:
        source: the group's file, or the URL of its output root, such as ``s3://logs/parsed``.
        group: its name, if the output root has another owner.
        lane: the name of the lane.
        plugins: formats of your own that may be imported, by their names (``package.module:Name``).
            Those that the group's file names need not be among them; a file in the bucket names
            none, for a program that may write there would run code here.
        access: how to access the store of a URL, such as ``s3=S3(endpoint=…)``, with the fields of
            ``spec.output``; the default chain of the store's library finds the credentials if
            there are none.

    Raises:
        Stalled: SPEC_INVALID, the file is invalid, or no group has landed there.
        Retry: the store does not answer.
    """
    from landfall.reading import open_group  # noqa: PLC0415  # it needs Arrow

    return open_group(source, group=group, lane=lane, plugins=plugins, **access)
