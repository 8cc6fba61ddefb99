"""The release before this one: its sources, from which its chart and images are made."""

import subprocess
from pathlib import Path

from dev.kube.images import ROOT, Sources

COMMIT = "7b0c57d0ae3775dc18782e50ed970e20074f9e32"
"""No version has a tag yet, so this stands for one: its drivers speak version 1 of the contract."""


def check_out(folder: Path) -> Sources:
    """Write the release's files into a folder.

    Raises:
        subprocess.CalledProcessError: this clone's history does not reach back to it.
    """
    archive = folder / "last_release.tar"
    git = ["git", "-C", str(ROOT), "archive", f"--output={archive}", COMMIT]
    subprocess.run(git, check=True)
    root = folder / "last_release"
    root.mkdir()
    subprocess.run(["tar", "-xf", str(archive), "-C", str(root)], check=True)
    return Sources(root, tag="last-release")
