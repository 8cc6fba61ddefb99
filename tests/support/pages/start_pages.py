"""The Start pages as a reader types them: their commands, in one shell."""

import os
import re
import subprocess
from collections.abc import Iterator, Mapping
from dataclasses import dataclass, field
from itertools import zip_longest
from pathlib import Path

import yaml

from tests.support.pages.markdown import DOCS, ROOT, code

PAGES = [
    DOCS / page
    for section in yaml.load((ROOT / "mkdocs.yml").read_text(), yaml.BaseLoader)["nav"]
    for pages in section.values()
    if isinstance(pages, list)
    for entry in pages
    for page in (entry.values() if isinstance(entry, dict) else [entry])
    if str(page).startswith("start/")
]
"""In the order of the navigation."""
BROKEN = re.compile(
    r"Traceback|ALREADY_EXISTS|command not found|No such file|does not answer|SpecInvalid|"
    r"error: |cannot stat|Connection refused"
)
"""What no page means to show, but for the lines that it prints itself."""
_END = "@@ended"
_HIDDEN = ("LANDFALL_", "AWS_", "PYTEST", "COVERAGE")
"""Variables that may name a server."""


def _typed(page: Path) -> Iterator[tuple[str, str]]:
    """The commands in the blocks of a page, continued lines in one, and what is shown of each."""
    for block in code(page, "console"):
        for part in block.text.removeprefix("$ ").split("\n$ "):
            command, _, shown = re.sub(r" \\\n +", " ", part).partition("\n")
            yield command, shown.strip("\n")


def commands(page: Path) -> list[str]:
    """What a reader types, in order; the last line of a page may name commands in its text."""
    typed = [command for command, _ in _typed(page)]
    end = re.findall(r"`([^`\n]*(?:dev/[a-z-]+ down|rm -r /tmp/)[^`\n]*)`", page.read_text())
    return [*typed, *end]


def steps(page: Path) -> list[tuple[str, str]]:
    """The commands of a page, each with what the page shows of it; last the one that ends it.

    Without those for readers who have servers, and those with a mistake that the page describes.
    """
    printed = [shown for _, shown in _typed(page)]
    return [
        (command, wanted)
        for command, wanted in zip_longest(commands(page), printed, fillvalue="")
        if ".example:" not in command and "SpecInvalid" not in wanted.partition("\n")[0]
    ]


def unexpected(ours: str, wanted: str) -> bool:
    """Return whether a command printed more errors than the page shows of it."""
    wrong, of_page = (
        [line for line in text.splitlines() if BROKEN.search(line)] for text in (ours, wanted)
    )
    return len(wrong) > len(of_page)


@dataclass
class Shell:
    """One bash, as a reader has it open from the first page to the last.

    Attributes:
        folder: the checkout, in which it begins.
        own: what stands for ``/tmp``.
        environment: all its variables.
        process: bash.
        code: the exit code of the last command.
    """

    folder: Path
    own: Path
    environment: Mapping[str, str] = field(
        default_factory=lambda: {k: v for k, v in os.environ.items() if not k.startswith(_HIDDEN)}
    )
    process: "subprocess.Popen[str]" = field(init=False)
    code: int = 0

    def __post_init__(self) -> None:
        """Start it."""
        self.process = subprocess.Popen(
            ["bash", "--norc"],
            stdin=subprocess.PIPE,
            stdout=subprocess.PIPE,
            stderr=subprocess.STDOUT,
            text=True,
            cwd=self.folder,
            env=self.environment,
            start_new_session=True,
        )

    def mine(self, text: str) -> str:
        """A text of a page, with a folder of this shell for ``/tmp``."""
        return text.replace("/tmp/", f"{self.own}/")

    def enter(self, folder: Path) -> None:
        """Go to a folder of this shell, whose path is none of a page."""
        self._type(f"cd {folder}")
        assert self.place == folder

    def type(self, command: str) -> str:
        """What a command of a page prints, on both outputs."""
        return self._type(self.mine(command))

    def _type(self, command: str) -> str:
        assert self.process.stdin
        assert self.process.stdout
        self.process.stdin.write(f"{command}\nprintf '\\n{_END} %s\\n' $?\n")
        self.process.stdin.flush()
        lines: list[str] = []
        for line in self.process.stdout:
            if line.startswith(_END):
                self.code = int(line.split()[1])
                return "".join(lines).strip("\n")
            lines.append(line)
        raise AssertionError(f"the shell ended: {''.join(lines)}")

    @property
    def place(self) -> Path:
        """The folder that it is in."""
        return Path(self._type("pwd"))

    def write_files(self, page: Path) -> None:
        """Write the files that a page tells to write: those whose first line is their name."""
        folder = self.place
        for block in (*code(page, "python"), *code(page, "yaml")):
            named = re.match(r"# ([\w./-]+\.(?:py|yaml))\b", block.text)
            if named and not (folder / named[1]).exists():
                (folder / named[1]).write_text(self.mine(block.text))
