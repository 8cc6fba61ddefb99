"""The Start pages work one after another, in one shell, as printed, on the servers they start.

Each page has a test that compares all it shows. Here they share a shell, its variables, a broker
and what earlier pages have left, as with somebody who reads them in the order of the navigation.
The copy of the repository is a clean one, with the environment that `make setup` has made.
"""

import os
import re
import shutil
import signal
import subprocess
from collections.abc import Iterator
from dataclasses import dataclass, field
from itertools import zip_longest
from pathlib import Path

import pytest

from tests.support.hourly_etl import without_times
from tests.support.markdown import ROOT, code
from tests.unit.test_start_pages import PAGES, commands

pytestmark = [pytest.mark.xdist_group("spark"), pytest.mark.timeout(3600)]

FOLLOWED = [page for page in PAGES if page.stem not in {"see-it-work", "cluster"}]
"""In the order of the navigation. Those two need root, a Kubernetes node and most of an hour.

``LANDFALL_PAGES=hourly-etl`` chooses among them while one works on a page.
"""
BROKEN = re.compile(
    r"Traceback|ALREADY_EXISTS|command not found|No such file|does not answer|SpecInvalid|"
    r"error: |cannot stat|Connection refused"
)
"""What no page means to show, but for the lines that it prints itself."""
END = "@@ended"


@dataclass
class Shell:
    """One bash, as a reader has it open from the first page to the last."""

    folder: Path
    own: Path
    process: "subprocess.Popen[str]" = field(init=False)

    def __post_init__(self) -> None:
        """Start it in the copy, with nothing that names a server."""
        hidden = ("LANDFALL_", "AWS_", "PYTEST", "COVERAGE")
        environment = {k: v for k, v in os.environ.items() if not k.startswith(hidden)}
        self.process = subprocess.Popen(
            ["bash", "--norc"],
            stdin=subprocess.PIPE,
            stdout=subprocess.PIPE,
            stderr=subprocess.STDOUT,
            text=True,
            cwd=self.folder,
            env=environment,
            start_new_session=True,
        )

    def mine(self, text: str) -> str:
        """A text of a page, with a folder of this test in the place of ``/tmp``."""
        return text.replace("/tmp/", f"{self.own}/")

    def enter(self, folder: Path) -> None:
        """Go to a folder of this test, whose path is none of a page."""
        self._type(f"cd {folder}")
        assert self.place == folder

    def type(self, command: str) -> str:
        """What a command of a page prints, on both outputs."""
        return self._type(self.mine(command))

    def _type(self, command: str) -> str:
        assert self.process.stdin
        assert self.process.stdout
        self.process.stdin.write(f"{command}\nprintf '\\n{END}\\n'\n")
        self.process.stdin.flush()
        lines = []
        for line in self.process.stdout:
            if line.startswith(END):
                return "".join(lines).strip("\n")
            lines.append(line)
        raise AssertionError(f"the shell ended: {''.join(lines)}")

    @property
    def place(self) -> Path:
        """The folder that it is in."""
        return Path(self.type("pwd"))


@pytest.fixture
def shell(tmp_path: Path) -> Iterator[Shell]:
    folder = tmp_path / "landfall"
    files = subprocess.run(
        ["git", "ls-files", "-z"], cwd=ROOT, capture_output=True, text=True, check=True
    ).stdout
    for name in filter(None, files.split("\0")):
        if (ROOT / name).is_file():
            (folder / name).parent.mkdir(parents=True, exist_ok=True)
            shutil.copy2(ROOT / name, folder / name)
    (folder / ".venv").symlink_to(ROOT / ".venv")
    own = tmp_path / "tmp"
    own.mkdir()
    made = Shell(folder, own)
    for file in (folder / "examples").rglob("*"):
        if file.suffix in {".py", ".yaml", ".properties", ".json", ".sh", ".sql"}:
            file.write_text(made.mine(file.read_text()))
    yield made
    os.killpg(made.process.pid, signal.SIGTERM)
    made.process.kill()
    for server in ("kafka", "s3", "schema-registry"):
        subprocess.run([folder / "dev" / server, "down"], check=False, capture_output=True)


def steps(page: Path) -> list[tuple[str, str]]:
    """The commands of a page, each with what the page shows of it; last the one that ends it."""
    printed = [
        part.partition("\n")[2].strip("\n")
        for block in code(page, "console")
        for part in block.text.removeprefix("$ ").split("\n$ ")
    ]
    return [*zip_longest(commands(page), printed, fillvalue="")]


def write_files(page: Path, shell: Shell) -> None:
    """Write the files that a page tells to write: those whose first line is their name."""
    folder = shell.place
    for block in (*code(page, "python"), *code(page, "yaml")):
        named = re.match(r"# ([\w./-]+\.(?:py|yaml))\b", block.text)
        if named and not (folder / named[1]).exists():
            (folder / named[1]).write_text(shell.mine(block.text))


def follow(page: Path, shell: Shell) -> list[str]:
    """Type the commands of a page; return what went otherwise than the page shows."""
    shell.enter(shell.folder)  # as each page begins in the checkout
    faults = []
    for command, wanted in steps(page):
        # For readers who have servers; and a mistake that the page describes in words.
        if ".example:" in command or "SpecInvalid" in wanted.partition("\n")[0]:
            continue
        write_files(page, shell)
        # It is set up.
        typed = command.replace("make setup && ", "")
        ours = shell.type(typed)
        wrong = [line for line in ours.splitlines() if BROKEN.search(line)]
        of_page = [line for line in wanted.splitlines() if BROKEN.search(line)]
        differs = command.startswith("landfall run") and "Stopped:" in wanted
        if len(wrong) > len(of_page) or (
            differs and without_times(command, ours) != without_times(command, wanted)
        ):
            faults.append(f"{page.stem}: $ {command}\n{ours}\nand not\n{wanted}")
    return faults


def test_the_pages_in_the_order_of_the_navigation(shell: Shell) -> None:
    chosen = {*filter(None, os.environ.get("LANDFALL_PAGES", "").split(","))}

    faults = [
        fault
        for page in FOLLOWED
        if not chosen or page.stem in chosen
        for fault in follow(page, shell)
    ]

    assert not faults, "\n\n".join(faults)
