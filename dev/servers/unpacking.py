"""Unpacks archives whose bytes are known: by their hash, or because they were made here."""

import tarfile
from pathlib import Path
from typing import Literal


def unpack(tar: tarfile.TarFile, folder: Path, kept: Literal["data", "tar"] = "data") -> None:
    """Unpack an archive into a folder.

    Args:
        tar: the archive.
        folder: where to.
        kept: which properties of files are kept, see ``tarfile``. Python before 3.11.4, as Debian
            12 has it, keeps all.
    """
    if hasattr(tarfile, "data_filter"):
        tar.extractall(folder, filter=kept)  # noqa: S202  # one of two
    else:
        tar.extractall(folder)  # noqa: S202  # known bytes
