"""Print where a measured session of tests spent its time, as tables of Markdown.

python -m tests.times FOLDER [--longest 40]
"""

import argparse
import json
from collections import defaultdict
from collections.abc import Iterator
from pathlib import Path
from typing import NamedTuple


class Line(NamedTuple):
    """What one test, fixture or collection has spent, in seconds."""

    kind: str
    name: str
    clock: float
    cpu: float


class Sum(NamedTuple):
    """What several have spent, in seconds."""

    number: int = 0
    clock: float = 0
    cpu: float = 0

    def and_(self, line: Line) -> "Sum":
        """Return the sum with one more."""
        return Sum(self.number + 1, self.clock + line.clock, self.cpu + line.cpu)


def read(folder: Path) -> list[Line]:
    """Read what ``tests.times.plugin`` wrote into a folder, all processes' files together."""
    texts = (file.read_text() for file in sorted(folder.glob("*.jsonl")))
    return [Line(**json.loads(line)) for text in texts for line in text.splitlines()]


def folder_of(line: Line) -> str:
    """Return the first folder below ``tests``, and the second one of unit tests."""
    if line.kind != "test":
        return line.kind
    parts = file_of(line).split("/")[1:-1]
    return "/".join(parts[:2])


def file_of(line: Line) -> str:
    """Return the file of a test; a fixture's or the collection's name."""
    return line.name.partition("::")[0] if line.kind == "test" else f"{line.kind} {line.name}"


def table(title: str, sums: dict[str, Sum], longest: int) -> Iterator[str]:
    """Yield the lines of a table, what needs most CPU first, and a line of all."""
    yield from (f"| {title} | number | clock, s | CPU, s |", "|---|---:|---:|---:|")
    by_cpu = sorted(sums.items(), key=lambda named: (-max(named[1].cpu, named[1].clock), named[0]))
    for name, (number, clock, cpu) in by_cpu[:longest]:
        yield f"| {name} | {number} | {clock:.1f} | {cpu:.1f} |"
    number, clock, cpu = (sum(column) for column in zip(*sums.values(), strict=True))
    yield f"| all | {number} | {clock:.1f} | {cpu:.1f} |"


def main() -> None:
    """Print tables by folder, by file, and of the longest tests."""
    parser = argparse.ArgumentParser(description=__doc__.partition("\n")[0])
    parser.add_argument("folder", type=Path)
    parser.add_argument("--longest", type=int, default=25, metavar="N", help="rows of a table")
    args = parser.parse_args()
    lines = read(args.folder)
    for title, name in (("folder", folder_of), ("file", file_of), ("test", lambda line: line.name)):
        sums: dict[str, Sum] = defaultdict(Sum)
        for line in lines:
            if title != "test" or line.kind == "test":
                sums[name(line)] = sums[name(line)].and_(line)
        print("\n".join(table(title, sums, args.longest)), end="\n\n")


if __name__ == "__main__":
    main()
