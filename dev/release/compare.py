"""Builds a release twice, each in a clean clone, and compares the bytes: ``make release-twice``.

The clones differ in what must not matter: the path and its length, umask, time zone, language, and
the time of the build. They share the caches of this machine: of pip, cargo and images.
"""

import hashlib
import os
import subprocess
import sys
import tempfile
from collections.abc import Mapping, Sequence
from pathlib import Path

from dev.release.sources import ROOT

SURROUNDINGS: Mapping[str, tuple[str, Mapping[str, str]]] = {
    "a": ("022", {"TZ": "UTC", "LC_ALL": "C.UTF-8"}),
    "a-much/longer-path": ("077", {"TZ": "Pacific/Auckland", "LC_ALL": "C"}),
}
"""The umask and the environment of each build, by its folder."""


def differences(one: Path, other: Path) -> list[str]:
    """The files that two folders do not have with the same bytes, sorted, with the reason."""
    hashes = [
        {file.name: hashlib.sha256(file.read_bytes()).hexdigest() for file in folder.iterdir()}
        for folder in (one, other)
    ]
    found = []
    for name in sorted({*hashes[0], *hashes[1]}):
        here, there = (of.get(name) for of in hashes)
        if here is None or there is None:
            found.append(f"{name}: only in {other if here is None else one}")
        elif here != there:
            found.append(f"{name}: {here[:12]} and {there[:12]}")
    return found


def build(folder: Path, umask: str, environment: Mapping[str, str], options: Sequence[str]) -> Path:
    """Clone the last commit to a folder and build a release there; returns the release's folder.

    Raises:
        CalledProcessError: the clone or the build failed.
    """
    folder.parent.mkdir(parents=True, exist_ok=True)
    subprocess.run(["git", "clone", "-q", "--no-local", ROOT, folder], check=True)
    make = ["make", "-s", "release", f"ARGS={' '.join(options)}"]
    subprocess.run(
        make, cwd=folder, umask=int(umask, 8), env={**os.environ, **environment}, check=True
    )
    return folder / "dist/release"


def main() -> None:
    """Build twice with the options of ``dev.release``, and fail if a byte differs."""
    with tempfile.TemporaryDirectory(prefix="landfall-release-") as scratch:
        releases = [
            build(Path(scratch, name), umask, environment, sys.argv[1:])
            for name, (umask, environment) in SURROUNDINGS.items()
        ]
        if found := differences(*releases):
            sys.exit("\n".join(["two builds of one commit differ:", *found]))
        print(f"{len([*releases[0].iterdir()])} files, the same bytes in both builds")


if __name__ == "__main__":
    main()
