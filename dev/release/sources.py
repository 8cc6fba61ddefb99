"""The sources of a release: of one commit, in a folder of their own."""

import io
import subprocess
import tarfile
from collections.abc import Mapping
from dataclasses import dataclass
from datetime import UTC, datetime
from pathlib import Path

from dev.release import versions
from dev.servers.cache import MissingTool
from dev.servers.unpacking import unpack

ROOT = Path(__file__).resolve().parents[2]


@dataclass(frozen=True, slots=True)
class CommitSources:
    """The exported sources of one commit.

    Attributes:
        root: the folder that they were exported to.
        commit: the commit's hash, 40 hexadecimal digits.
        committed: when it was committed, to the second.
    """

    root: Path
    commit: str
    committed: datetime

    @property
    def version(self) -> str:
        """The version that the sources have."""
        return versions.version(self.root)

    @property
    def environment(self) -> Mapping[str, str]:
        """Variables for programs that build: the commit's time, which files get."""
        return {"SOURCE_DATE_EPOCH": str(self.epoch), "PYTHONHASHSEED": "0"}

    @property
    def epoch(self) -> int:
        """When it was committed, in seconds since 1970."""
        return int(self.committed.timestamp())


def export(folder: Path, repository: Path = ROOT) -> CommitSources:
    """Export the last commit of a working copy to an empty folder.

    Raises:
        MissingTool: the working copy has changes that are not committed, or is none.
    """
    changed = _git(repository, "status", "--porcelain", "--untracked-files=no").decode().strip()
    if changed:
        raise MissingTool(f"a release is built from a commit; not committed are:\n{changed}")
    commit, seconds = _git(repository, "log", "-1", "--format=%H %ct").decode().split()
    archive = _git(repository, "-c", "tar.umask=0022", "archive", "--format=tar", commit)
    with tarfile.open(fileobj=io.BytesIO(archive)) as tar:
        unpack(tar, folder, "tar")
    return CommitSources(folder, commit, datetime.fromtimestamp(int(seconds), UTC))


def _git(repository: Path, *arguments: str) -> bytes:
    done = subprocess.run(["git", "-C", repository, *arguments], capture_output=True, check=False)
    if done.returncode:
        raise MissingTool(f"`git {arguments[0]}` failed: {done.stderr.decode().strip()}")
    return done.stdout
