"""An audit that cannot compare everything says so, in its last line and by its exit code."""

import json
from collections.abc import Callable
from pathlib import Path

import pytest

from landfall.api.contract import ExitCode
from landfall.cli import main
from landfall_audit.cli import command
from tests.support.audit.audited_group import message
from tests.support.audit.auditor_fakes import GeneratedLog
from tests.unit.cli.conftest import TP, Landed

Make = Callable[[str], Landed]
Captured = pytest.CaptureFixture[str]


class Log(GeneratedLog):
    """Thirty records, of which Kafka may have deleted the first."""

    def __init__(self, *_: object, start: int = 0) -> None:
        super().__init__(30, message, start)

    def close(self) -> None:
        """Nothing is open."""


@pytest.fixture(autouse=True)
def without_broker(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(command, "ClusterLog", Log)


AS_IT_IS = """\
  decode: {format: Json}
"""
MADE_OF_CSV = """\
  decode:
    format: Csv
    columns: [{name: a, type: String}]
"""


def shown(make: Make, added: str) -> Landed:
    made = make("Json")
    made.sample.shown()
    with Path(made.file).open("a") as file:
        file.write(added)
    return made


def audited(capsys: Captured, made: Landed, *argv: str) -> tuple[int, str]:
    code = main(["audit", made.file, *argv])
    return code, capsys.readouterr().out


def test_what_is_checked_wholly_is_right(landed: Make, capsys: Captured) -> None:
    code, text = audited(capsys, shown(landed, AS_IT_IS))

    assert code == ExitCode.OK
    assert text.splitlines()[-1] == "no fault found in 1 object"


def test_json_made_of_other_payloads_is_not_called_right(landed: Make, capsys: Captured) -> None:
    code, text = audited(capsys, shown(landed, MADE_OF_CSV))

    assert code == ExitCode.UNCHECKED
    last = "no fault found in what was checked in 1 object; records of 1 topic are unchecked"
    assert text.splitlines()[-1] == last


def test_unchecked_records_are_accepted_when_asked_for(landed: Make, capsys: Captured) -> None:
    code, text = audited(capsys, shown(landed, MADE_OF_CSV), "--allow-unchecked")

    assert code == ExitCode.OK
    assert "records of 1 topic are unchecked" in text


def test_json_output_names_the_topics(landed: Make, capsys: Captured) -> None:
    code, text = audited(capsys, shown(landed, MADE_OF_CSV), "--json")

    assert code == ExitCode.UNCHECKED
    assert json.loads(text)["unchecked_topics"] == ["clicks"]


def test_a_fault_is_a_fault_also_if_unchecked_records_are_accepted(
    landed: Make, capsys: Captured
) -> None:
    made = shown(landed, MADE_OF_CSV)
    made.object.write_bytes(made.object.read_bytes()[:-3])

    code, _ = audited(capsys, made, "--allow-unchecked")

    assert code == ExitCode.FAULT


def test_what_another_generation_landed_is_left_out_as_asked(
    landed: Make, capsys: Captured
) -> None:
    code, text = audited(capsys, shown(landed, AS_IT_IS), "--generation", "7")

    assert code == ExitCode.NOTHING
    assert "are unchecked" not in text


# ------------------------------------------------------------------------ gone from the source


@pytest.fixture
def old_group(landed: Make, monkeypatch: pytest.MonkeyPatch) -> Landed:
    """A group of which Kafka has the last half of the records."""
    made = shown(landed, AS_IT_IS)
    made.sample.commit(made.sample.land(TP, 10, 30))
    made.sample.applied().open().shown()
    monkeypatch.setattr(command, "ClusterLog", lambda *_: Log(start=10))
    return made


def test_records_that_kafka_deleted_are_named_and_no_reason_to_alarm(
    old_group: Landed, capsys: Captured
) -> None:
    code, text = audited(capsys, old_group)

    assert code == ExitCode.OK
    last = "no fault found in 1 object; the source no longer has 10 records"
    assert text.splitlines()[-1] == last


def test_json_output_counts_what_the_source_no_longer_has_apart_from_expired_dead_letters(
    old_group: Landed, capsys: Captured
) -> None:
    _, text = audited(capsys, old_group, "--json")

    found = json.loads(text)
    assert (found["gone_from_source"], found["expired"]) == (10, 10)
    assert [each["dead_letters_expired"] for each in found["partitions"]] == [0]


def test_an_audit_may_require_that_every_record_is_compared(
    old_group: Landed, capsys: Captured
) -> None:
    code, text = audited(capsys, old_group, "--require-all")

    assert code == ExitCode.UNCHECKED
    last = "no fault found in 1 object; the source no longer has 10 records"
    assert text.splitlines()[-1] == last


def test_unchecked_and_deleted_records_are_named_apart(
    landed: Make, capsys: Captured, monkeypatch: pytest.MonkeyPatch
) -> None:
    made = shown(landed, MADE_OF_CSV)
    made.sample.commit(made.sample.land(TP, 10, 30))
    made.sample.applied().open().shown()
    monkeypatch.setattr(command, "ClusterLog", lambda *_: Log(start=10))

    code, text = audited(capsys, made)
    accepted, _ = audited(capsys, made, "--allow-unchecked")
    required, _ = audited(capsys, made, "--allow-unchecked", "--require-all")

    assert (code, accepted, required) == (ExitCode.UNCHECKED, ExitCode.OK, ExitCode.UNCHECKED)
    assert text.splitlines()[-1] == (
        "no fault found in what was checked in 1 object; records of 1 topic are unchecked; "
        "the source no longer has 10 records"
    )
