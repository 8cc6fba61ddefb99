"""An audit that has nothing to compare is an error: a CI job with a typo must be red."""

from collections.abc import Callable
from pathlib import Path

import pytest

from landfall.api.contract import ExitCode
from landfall.cli import main
from landfall_audit.cli import command
from tests.support.audit.auditor_fakes import GeneratedLog, Message
from tests.unit.cli.conftest import Landed

Make = Callable[[str], Landed]
Captured = pytest.CaptureFixture[str]


class Log(GeneratedLog):
    """Ten records, in each topic partition."""

    def __init__(self, *_: object) -> None:
        super().__init__(10, lambda offset: Message(offset, b'{"o":%d}' % offset))

    def close(self) -> None:
        """Nothing is open."""


@pytest.fixture(autouse=True)
def without_broker(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(command, "ClusterLog", Log)


def audited(capsys: Captured, made: Landed, *argv: str) -> tuple[int, str]:
    code = main(["audit", made.file, *argv])
    captured = capsys.readouterr()
    return code, captured.out + captured.err


def test_a_misspelt_topic(landed: Make, capsys: Captured) -> None:
    made = landed("Json")

    code, text = audited(capsys, made, "clikcs")

    assert code == ExitCode.NOTHING
    assert "has no topic clikcs; did you mean clicks?" in text


def test_a_mistyped_output(landed: Make, capsys: Captured) -> None:
    made = landed("Json")
    Path(made.file).write_text(Path(made.file).read_text().replace("/root", "/rout"))

    code, text = audited(capsys, made)

    assert code == ExitCode.NOTHING
    assert "there is no ledger of the group shop in file://" in text


def test_a_generation_that_landed_nothing(landed: Make, capsys: Captured) -> None:
    made = landed("Json")
    made.sample.applied()

    code, text = audited(capsys, made, "--generation", "7")

    assert code == ExitCode.NOTHING
    assert "nothing was compared" in text
