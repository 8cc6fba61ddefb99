"""``landfall publish``: what it does to a publisher of the tests, and what it says."""

import json
from collections.abc import Callable
from pathlib import Path

import pytest
import stamina
import yaml

from landfall.api.contract import ExitCode
from landfall.cli import main
from tests.support.publishers.played_publisher import PLAYED
from tests.unit.cli.conftest import TP, Landed

Captured = pytest.CaptureFixture[str]


class Published:
    """A landed group with the publishers ``one`` and ``two``, each with a file."""

    def __init__(self, landed: Landed, folder: Path) -> None:
        self.landed, self.folder = landed, folder
        landed.sample.shown()
        file = Path(landed.file)
        document = yaml.safe_load(file.read_text())
        document["spec"]["publish"] = [
            {"name": name, "type": PLAYED, "options": {"path": str(folder / f"{name}.txt")}}
            for name in ("one", "two")
        ]
        file.write_text(yaml.safe_dump(document))

    def run(self, *argv: str) -> int:
        with stamina.set_testing(True, attempts=2):
            return main(["publish", self.landed.file, *argv])

    def keys(self, name: str) -> list[str]:
        path = self.folder / f"{name}.txt"
        return path.read_text().splitlines() if path.exists() else []

    def fail(self, name: str, how: str) -> None:
        (self.folder / f"{name}.fails").write_text(how)


@pytest.fixture
def made(landed: Callable[[str], Landed], tmp_path: Path) -> Published:
    return Published(landed("Json"), tmp_path)


def test_every_publisher_publishes_what_is_visible_once(made: Published, capsys: Captured) -> None:
    assert made.run() == ExitCode.OK
    assert capsys.readouterr().out == (
        f"one ({PLAYED}): 1 object, through slot 3 of the ledger\n"
        f"two ({PLAYED}): 1 object, through slot 3 of the ledger\n"
    )

    made.landed.sample.commit(made.landed.sample.land(TP, 10, 15)).shown()
    assert made.run("two") == ExitCode.OK
    assert made.run("two") == ExitCode.OK

    assert capsys.readouterr().out == (
        f"two ({PLAYED}): 1 object, through slot 5 of the ledger\n"
        f"two ({PLAYED}): nothing new, through slot 5 of the ledger\n"
    )
    assert (len(made.keys("one")), len(made.keys("two"))) == (1, 2)


def test_a_dry_run_says_what_would_be_done_and_does_nothing(
    made: Published, capsys: Captured
) -> None:
    assert made.run("one", "--dry-run") == ExitCode.OK

    key = made.landed.first.objects[0].upload.key
    assert capsys.readouterr().out == f"one ({PLAYED}): would\n  write {key}\n"
    assert made.keys("one") == []
    made.run("one")
    capsys.readouterr()
    made.run("one", "--dry-run")
    assert capsys.readouterr().out == f"one ({PLAYED}): nothing to publish\n"


def test_a_rebuild_begins_anew(made: Published, capsys: Captured) -> None:
    made.run()
    assert made.run("one", "--rebuild", "--dry-run") == ExitCode.OK
    assert "begin again, from the start of the ledger" in capsys.readouterr().out

    assert made.run("one", "--rebuild") == ExitCode.OK

    assert (len(made.keys("one")), len(made.keys("two"))) == (2, 1)


def test_a_rebuild_of_nobody_in_particular_is_refused(made: Published, capsys: Captured) -> None:
    assert made.run("--rebuild") == ExitCode.USAGE

    assert "publish --rebuild: name the publishers to rebuild" in capsys.readouterr().err


@pytest.mark.parametrize(
    ("how", "code", "why"),
    [
        ("retry", ExitCode.UNAVAILABLE, "the file is away"),
        ("stalled", ExitCode.STALLED, "the file is somebody else's"),
    ],
)
def test_one_that_fails_does_not_stop_the_next(
    made: Published, capsys: Captured, how: str, code: ExitCode, why: str
) -> None:
    made.fail("one", how)

    assert made.run("--json") == code

    one, two = (json.loads(line) for line in capsys.readouterr().out.splitlines())
    assert why in one["error"]
    assert (two["objects"], two["error"]) == (1, "")
    made.fail("two", "stalled")
    made.landed.sample.commit(made.landed.sample.land(TP, 10, 15)).shown()
    assert made.run() == ExitCode.STALLED


def test_an_unknown_publisher_is_named_with_those_that_there_are(
    made: Published, capsys: Captured
) -> None:
    assert made.run("onne") == ExitCode.USAGE

    said = " ".join(capsys.readouterr().err.split())
    assert "no publisher 'onne', did you mean one?; the group has one, two" in said


def test_a_group_without_publishers_is_refused(
    landed: Callable[[str], Landed], capsys: Captured
) -> None:
    assert main(["publish", landed("Json").file]) == ExitCode.USAGE

    assert "the group has no publishers" in capsys.readouterr().err


def test_a_group_without_a_ledger_has_nothing_to_publish(made: Published, capsys: Captured) -> None:
    text = Path(made.landed.file).read_text()
    Path(made.landed.file).write_text(
        text.replace(str(made.landed.root), f"{made.landed.root}-not")
    )

    assert made.run() == ExitCode.NOTHING
    assert "NothingToCheck" in capsys.readouterr().err
