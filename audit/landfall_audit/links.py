"""Links in a folder of a file system: which of them the auditor follows (docs/adr/0073)."""

import os
from pathlib import Path
from typing import BinaryIO


def leads_out(root: Path, path: Path) -> bool:
    """Return whether links lead from a path below a folder to somewhere else."""
    real, above = os.path.realpath(path), os.path.realpath(root)
    return os.path.commonpath([real, above]) != above


def open_below(root: Path, path: Path) -> BinaryIO:
    """Open a file for reading that is below a folder, wherever links lead.

    Raises:
        FileNotFoundError: there is none, it is no file, or links lead out of the folder.
    """
    if leads_out(root, path) or not path.is_file():
        raise FileNotFoundError(f"{path}: no file, or a link that leads out of {root}")
    stream = path.open("rb")
    # It may have been replaced by a link since.
    if leads_out(root, path) or not os.path.samestat(os.fstat(stream.fileno()), path.stat()):
        stream.close()
        raise FileNotFoundError(f"{path}: replaced while it was opened")
    return stream
