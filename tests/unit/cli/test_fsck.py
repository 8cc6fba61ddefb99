import re
from collections.abc import Callable, Iterator
from dataclasses import replace
from pathlib import Path

import pytest

from landfall import ledger
from landfall.api.contract import ExitCode
from landfall.cli import main
from landfall.cli.fsck import examine
from landfall.cli.group_store import GroupStore
from landfall.ledger import object_names
from landfall.ledger.offsets import TopicPartition
from landfall.objects import ObjectStat
from landfall.store.file import FileStore
from tests.support.sample_ledger import GROUP, LANE
from tests.unit.cli.conftest import TP, Landed

Make = Callable[[str], Landed]


@pytest.fixture
def two_commits(landed: Make) -> Landed:
    """Two COMMITs, all applied."""
    made = landed("Json")
    made.sample.commit(made.sample.land(TP, 10, 20)).applied()
    return made


def fsck(landed: Landed, capsys: pytest.CaptureFixture[str], *options: str) -> tuple[int, str]:
    code = main(["fsck", landed.file, *options])
    return code, capsys.readouterr().out


def broken(text: str) -> list[str]:
    """The invariants that the output reports as broken."""
    return re.findall(r"^(I\d)  BROKEN", text, re.MULTILINE)


def slot(landed: Landed, seq: int) -> Path:
    return landed.root / object_names.slot_key(GROUP, LANE, seq)


def test_a_sound_store_has_eight_good_lines(
    two_commits: Landed, capsys: pytest.CaptureFixture[str]
) -> None:
    code, text = fsck(two_commits, capsys, "--deep")

    assert (code, broken(text)) == (ExitCode.OK, [])
    assert re.findall(r"^(I\d)  ok", text, re.MULTILINE) == [f"I{n}" for n in range(1, 9)]
    assert "2 ranges of 1 topic partition\n" in text


def test_a_deleted_slot_is_named(two_commits: Landed, capsys: pytest.CaptureFixture[str]) -> None:
    slot(two_commits, 2).unlink()

    code, text = fsck(two_commits, capsys)

    assert (code, broken(text)) == (ExitCode.FAULT, ["I1"])
    assert "slot 2: expected the next slot" in text
    assert "I6  ?" in text


def test_a_changed_slot_is_named(two_commits: Landed, capsys: pytest.CaptureFixture[str]) -> None:
    slot(two_commits, 1).write_bytes(slot(two_commits, 1).read_bytes().replace(b'"id"', b'"xx"'))

    code, text = fsck(two_commits, capsys)

    assert (code, broken(text)) == (ExitCode.FAULT, ["I1"])
    assert "slot 2: expected hash" in text


def test_a_ledger_that_was_cut_off_before_its_head_is_broken(
    two_commits: Landed, capsys: pytest.CaptureFixture[str]
) -> None:
    two_commits.sample.store.overwrite(object_names.head_key(GROUP, LANE), b'{"seq":9}')

    assert broken(fsck(two_commits, capsys)[1]) == ["I1"]


def test_an_overlap_is_named(landed: Make, capsys: pytest.CaptureFixture[str]) -> None:
    made = landed("Json")
    made.sample.write(
        ledger.encode(made.sample.committing(made.sample.land(TP, 9, 20))(made.sample.next_header))
    )

    code, text = fsck(made, capsys)

    assert (code, broken(text)) == (ExitCode.FAULT, ["I2"])
    assert "slot 3, clicks/0, offsets [9, 20): expected start 10, got 9, an overlap" in text


def test_a_missing_object_is_named(two_commits: Landed, capsys: pytest.CaptureFixture[str]) -> None:
    two_commits.object.unlink()

    code, text = fsck(two_commits, capsys)

    assert (code, broken(text)) == (ExitCode.FAULT, ["I6"])
    assert str(two_commits.object.relative_to(two_commits.root)) in text


def test_a_missing_object_that_is_not_applied_awaits_completion(
    landed: Make, capsys: pytest.CaptureFixture[str]
) -> None:
    made = landed("Json")
    made.sample.commit(made.sample.land(TP, 10, 20), complete=False)

    code, text = fsck(made, capsys)

    assert code == ExitCode.OK
    assert "1 committed upload awaits completion" in text


def test_a_changed_object_is_named(two_commits: Landed, capsys: pytest.CaptureFixture[str]) -> None:
    two_commits.object.write_bytes(two_commits.object.read_bytes()[:-1])

    assert broken(fsck(two_commits, capsys)[1]) == ["I5"]


def test_changed_bytes_of_the_same_length_need_a_deep_check(
    two_commits: Landed, capsys: pytest.CaptureFixture[str]
) -> None:
    two_commits.object.write_bytes(two_commits.object.read_bytes().replace(b'"o"', b'"x"'))

    assert broken(fsck(two_commits, capsys)[1]) == []
    assert broken(fsck(two_commits, capsys, "--deep")[1]) == ["I5"]


def test_an_object_that_no_record_names_is_a_fault(
    two_commits: Landed, capsys: pytest.CaptureFixture[str]
) -> None:
    two_commits.sample.store.complete(
        two_commits.sample.land(TopicPartition("clicks", 7), 0, 3).objects[0].upload
    )

    code, text = fsck(two_commits, capsys)

    assert (code, broken(text)) == (ExitCode.FAULT, ["I3"])
    assert "1_7_00000000000000000000.json" in text


def test_a_repaired_object_is_compared_with_its_repair(
    landed: Make, capsys: pytest.CaptureFixture[str]
) -> None:
    made = landed("Json")
    lost = made.sample.land(TP, 10, 20)
    made.sample.commit(lost, complete=False)
    again = made.sample.upload(lost.objects[0].upload.key, range(10, 20))
    made.sample.append(lambda h: ledger.Repair(header=h, commit=3, objects=(again,)))
    made.sample.store.complete(again.upload)
    made.sample.applied()

    code, text = fsck(made, capsys, "--deep")

    assert (code, broken(text)) == (ExitCode.OK, [])


def test_what_lands_while_the_store_is_listed_is_no_fault(two_commits: Landed) -> None:
    sample = two_commits.sample.open()

    class Busy(FileStore):
        """Commits and completes another batch just before the objects are listed."""

        def list_after(self, prefix: str, after: str = "") -> Iterator[ObjectStat]:
            if not prefix:
                sample.commit(sample.land(TP, 20, 30))
            yield from super().list_after(prefix, after)

    opened = GroupStore.of(Path(two_commits.file))

    report = examine(replace(opened, store=Busy(two_commits.root)), deep=False)

    assert (report.findings, report.visible, report.named) == ([], 3, 2)


def test_objects_that_do_not_belong_to_landfall_are_only_counted(
    two_commits: Landed, capsys: pytest.CaptureFixture[str]
) -> None:
    two_commits.sample.store.overwrite("clicks/dt=2026-11-21/_SUCCESS", b"")

    code, text = fsck(two_commits, capsys)

    assert code == ExitCode.OK
    assert "1 object does not belong to Landfall" in text
