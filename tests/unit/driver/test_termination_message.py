from pathlib import Path

import pytest

from landfall.api.contract import ExitCode
from landfall.driver.status import driver_status
from landfall.driver.termination_message import LONGEST, TerminationMessage
from landfall.store.memory import MemoryStore
from tests.support.fakes import NOW, FakeLog, FakeRunner, driver, group


@pytest.fixture
def path(tmp_path: Path) -> Path:
    path = tmp_path / "termination-log"
    path.touch()
    return path


def said(path: Path, message: str, code: ExitCode) -> str:
    store = MemoryStore()
    one = driver(group(), store, FakeLog(), FakeRunner(store))
    one.counters.message = message
    last = TerminationMessage(path)
    last.note(driver_status(one, NOW))
    assert last.of(code) is code
    return path.read_text() if path.exists() else ""


def test_a_reason_is_left_as_it_was_told(path: Path) -> None:
    assert said(path, "DataLoss: a/0: gone\nDataLoss: b/0: gone", ExitCode.STALLED) == (
        "DataLoss: a/0: gone; DataLoss: b/0: gone\n"
    )


def test_without_a_reason_the_exit_code_is_named(path: Path) -> None:
    assert (
        said(path, "ledger slot 1 was taken by w", ExitCode.FENCED)
        == "FENCED: ledger slot 1 was taken by w\n"
    )


def test_a_driver_that_ends_well_leaves_nothing(path: Path) -> None:
    assert said(path, "the lane is handed over", ExitCode.OK) == ""


def test_what_is_too_long_is_cut(path: Path) -> None:
    assert len(said(path, "x" * 5000, ExitCode.UNAVAILABLE)) == LONGEST + 1


def test_nothing_is_made_where_nobody_reads(path: Path) -> None:
    path.unlink()

    assert said(path, "gone", ExitCode.UNAVAILABLE) == ""
    assert not path.exists()
