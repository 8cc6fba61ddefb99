"""The tutorial does on a real Kafka what its page shows, command by command."""

import os
import re
import subprocess
import sys
from dataclasses import dataclass
from pathlib import Path
from uuid import uuid4

import pytest

from tests.support.kafka.broker import Broker
from tests.support.pages.markdown import DOCS, code

pytestmark = pytest.mark.xdist_group("spark")

PAGE = DOCS / "start/laptop.md"
TOPIC, FOLDER = "app.web", "/tmp/landed"
RUN = "landfall run web.yaml --until-caught-up"


@dataclass(frozen=True)
class Reader:
    """Follows the page in a folder of its own, with a topic of its own."""

    broker: Broker
    folder: Path
    topic: str

    def prepare(self) -> None:
        """The files that the page tells to write."""
        (program,) = code(PAGE, "python")
        (self.folder / "produce.py").write_text(self._ours(program.text))
        group = code(PAGE, "yaml")[0]
        (self.folder / "web.yaml").write_text(self._ours(group.text))

    def type(self, command: str) -> str:
        """What is printed, with the names of the page and nothing that differs from run to run."""
        path = f"{Path(sys.executable).parent}:{os.environ['PATH']}"
        done = subprocess.run(
            ["bash", "-c", self._ours(command)],
            cwd=self.folder,
            env={**os.environ, "PATH": path, "LANDFALL_KAFKA": str(self.broker)},
            capture_output=True,
            text=True,
            check=False,
        )
        printed = done.stdout + done.stderr
        return printed.replace(self.topic, TOPIC).replace(str(self.folder / "landed"), FOLDER)

    def _ours(self, text: str) -> str:
        return text.replace(TOPIC, self.topic).replace(FOLDER, str(self.folder / "landed"))


def shown() -> list[tuple[str, str]]:
    """Commands with what the page shows of them."""
    texts = "".join(block.text for block in code(PAGE, "console"))
    pairs = (part.partition("\n") for part in texts.removeprefix("$ ").split("\n$ "))
    return [(command, printed.strip("\n")) for command, _, printed in pairs]


def shape(printed: str) -> list[str]:
    """Words and columns, without numbers, units and the widths that depend on them."""
    printed = re.sub(r"last commit \S+ ago", "last commit N ago", printed)
    numbers = re.sub(r"\d[\d,.:T+-]*", "N", printed.strip("\n"))
    return [" ".join(re.sub(r"N [kMG]?B", "N B", line).split()) for line in numbers.splitlines()]


@pytest.fixture
def reader(kafka: Broker, tmp_path: Path) -> Reader:
    made = Reader(kafka, tmp_path, f"t{uuid4().hex[:8]}")
    made.prepare()
    return made


def test_the_page_shows_what_happens(reader: Reader) -> None:
    pages = dict(shown())
    looks = [
        command
        for command in pages
        if re.match(r"find|zcat|landfall (init|status|locate|audit)", command)
    ]

    produced = reader.type("python produce.py $LANDFALL_KAFKA")
    ran = reader.type(f"{RUN} --http-port 0").splitlines()
    printed = {command: reader.type(command) for command in looks}

    assert produced == ""
    assert reader.type("python produce.py $LANDFALL_KAFKA") == "", "more records, no traceback"
    assert shape(ran[-1]) == shape(pages[RUN])[-1:]
    assert len(looks) == 6
    assert {c: shape(text) for c, text in printed.items()} == {c: shape(pages[c]) for c in looks}
    assert [text for c, text in printed.items() if c.startswith("zcat")] == ["10000\n"]


def test_a_misspelled_field_is_refused_as_shown(reader: Reader) -> None:
    file = reader.folder / "web.yaml"
    file.write_text(file.read_text().replace("{maxAge: 10s}", "{max_bytes: 1Mi}"))

    assert reader.type("landfall run web.yaml").strip() == dict(shown())["landfall run web.yaml"]
