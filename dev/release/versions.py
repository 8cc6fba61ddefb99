"""The version: written in one place, repeated where other programs and users look for it.

    python -m dev.release.versions          prints it, and fails if a repetition differs
    python -m dev.release.versions 0.2.0    writes it everywhere

``landfall/__init__.py`` holds it. Wheels read it from there; Cargo and Helm read only files of
their own, and documentation shows it where users type it.
"""

import argparse
import re
import sys
from pathlib import Path

ROOT = Path(__file__).resolve().parents[2]
HELD = "spark_app/landfall/__init__.py"
VERSION = re.compile(r"\d+\.\d+\.\d+")
"""Versions of semantic versioning and of Python packages alike: without suffixes."""

PLACES = {
    HELD: r'^__version__ = "(.+)"$',
    "native/Cargo.toml": r'^version = "(.+)"$',
    "native/Cargo.lock": r'^name = "landfall-native"\nversion = "(.+)"$',
    "charts/landfall/Chart.yaml": r"^(?:version|appVersion): (.+)$",
    "docs/start/laptop.md": r"^landfall (\d.+)$",
    "docs/guides/install.md": r"landfall-(?:operator|spark):([\d.]+\d)|docker/release ([\d.]+\d) ",
    "docs/guides/releases.md": r"landfall-(?:\$image-|\$image:|)([\d.]+\d)",
    "docs/guides/check-a-group.md": r"^    rev: v(.+)$",
}
"""By file, where in it the version is: in the groups of an expression."""


def version(root: Path = ROOT) -> str:
    """The version of a copy of the sources.

    Raises:
        ValueError: the file that holds it has none.
    """
    return _found(root, HELD)[0]


def differing(root: Path = ROOT) -> list[str]:
    """Where another version is repeated than the one that is held, as ``file: version``."""
    held = version(root)
    return [
        f"{file}: {repeated}"
        for file in PLACES
        for repeated in _found(root, file)
        if repeated != held
    ]


def write(wanted: str, root: Path = ROOT) -> list[str]:
    """Write a version wherever one is; returns the files that were changed.

    Raises:
        ValueError: it is no version, or a file has no place for it.
    """
    if not VERSION.fullmatch(wanted):
        raise ValueError(f"not a version, such as 0.2.0: {wanted!r}")
    changed = []
    for file, pattern in PLACES.items():
        path, held = root / file, _found(root, file)
        text = re.sub(
            pattern,
            lambda match: match[0].replace(next(filter(None, match.groups())), wanted),
            path.read_text(),
            flags=re.MULTILINE,
        )
        if {*held} != {wanted}:
            path.write_text(text)
            changed.append(file)
    return changed


def _found(root: Path, file: str) -> list[str]:
    matches = re.finditer(PLACES[file], (root / file).read_text(), re.MULTILINE)
    if found := [next(filter(None, match.groups())) for match in matches]:
        return found
    raise ValueError(f"{file} has no version where one is expected: {PLACES[file]}")


def main() -> None:
    """Print the version, or write another one."""
    parser = argparse.ArgumentParser(prog="python -m dev.release.versions", description=__doc__)
    parser.add_argument("version", nargs="?", help="the version to write")
    given = parser.parse_args()
    if given.version:
        print("\n".join(write(given.version)))
    elif wrong := differing():
        sys.exit("\n".join([f"the version is {version()}, but:", *wrong]))
    else:
        print(version())


if __name__ == "__main__":
    main()
