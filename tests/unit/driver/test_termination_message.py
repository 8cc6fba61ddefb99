from pathlib import Path

import pytest

from landfall.api.contract import ExitCode
from landfall.driver.process.termination_message import MAX_LENGTH, TerminationMessage
from landfall.store.memory import MemoryStore
from tests.support.driver.driver_status import report_of
from tests.support.driver.fakes import FakeLog, FakeRunner, driver, group


@pytest.fixture
def path(tmp_path: Path) -> Path:
    path = tmp_path / "termination-log"
    path.touch()
    return path


def written(path: Path, message: str, code: ExitCode) -> str:
    store = MemoryStore()
    one = driver(group(), store, FakeLog(), FakeRunner(store))
    one.counters.message = message
    termination = TerminationMessage(path)
    termination.update(report_of(one))
    assert termination.write_exit(code) is code
    return path.read_text() if path.exists() else ""


def test_a_message_with_a_reason_is_written_as_it_is(path: Path) -> None:
    assert written(path, "DataLoss: a/0: gone\nDataLoss: b/0: gone", ExitCode.STALLED) == (
        "DataLoss: a/0: gone; DataLoss: b/0: gone\n"
    )


def test_without_a_reason_the_exit_code_is_named(path: Path) -> None:
    assert (
        written(path, "ledger slot 1 was taken by w", ExitCode.FENCED)
        == "FENCED: ledger slot 1 was taken by w\n"
    )


def test_a_driver_that_ends_well_writes_nothing(path: Path) -> None:
    assert written(path, "the lane is handed over", ExitCode.OK) == ""


def test_a_long_message_is_cut(path: Path) -> None:
    assert len(written(path, "x" * 5000, ExitCode.UNAVAILABLE)) == MAX_LENGTH + 1


def test_a_file_that_does_not_exist_is_not_created(path: Path) -> None:
    path.unlink()

    assert written(path, "gone", ExitCode.UNAVAILABLE) == ""
    assert not path.exists()
