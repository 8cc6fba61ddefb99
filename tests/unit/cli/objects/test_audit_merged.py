"""What ``landfall audit`` prints about objects that took the place of others."""

from collections.abc import Callable
from pathlib import Path

import pytest

from landfall.api.contract import ExitCode
from landfall.cli import main
from landfall_audit.cli import command
from tests.support.audit.audited_group import message
from tests.support.audit.auditor_fakes import GeneratedLog
from tests.support.ledger.sample_replacing import Merge
from tests.unit.cli.conftest import Landed


class Log(GeneratedLog):
    """Ten records."""

    def __init__(self, *_: object) -> None:
        super().__init__(10, message)

    def close(self) -> None:
        """Nothing is open."""


def test_records_that_a_merge_left_out_are_counted(
    landed: Callable[[str], Landed],
    capsys: pytest.CaptureFixture[str],
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setattr(command, "ClusterLog", Log)
    made = landed("SequenceFile")
    made.sample.shown()
    rows = [(0, offset) for offset in range(9, -1, -1) if offset != 4]
    merge = Merge.of(made.sample, [(2, made.first.objects[0])], rows).record().complete()
    (Path(made.root) / merge.retire[0].landed.upload.key).unlink()
    made.sample.shown()

    code = main(["audit", made.file])

    assert "recorded as duplicates that a merge left out: 1 record" in capsys.readouterr().out
    assert code == ExitCode.OK
