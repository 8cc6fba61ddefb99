import hashlib
import json
import re
import zlib
from collections.abc import Callable, Iterator
from dataclasses import replace
from pathlib import Path

import pytest
from msgspec import structs

from landfall import ledger
from landfall.api.contract import ExitCode, LedgerAnchor, LedgerPosition
from landfall.cli import main
from landfall.cli.group_store import GroupStore
from landfall.cli.objects.fsck import WITHOUT_ANCHOR, examine
from landfall.errors import Reason
from landfall.ledger.names import object_names
from landfall.ledger.offsets import TopicPartition
from landfall.ledger.task_results import LandedObject, ObjectKind, ReplayedSlice
from landfall.objects import ObjectStat, Part, multipart_etag
from landfall.store.file import FileStore
from tests.support.ledger.sample_ledger import GROUP, LANE
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
    return re.findall(r"^(I\d+) +BROKEN", text, re.MULTILINE)


def slot(landed: Landed, seq: int) -> Path:
    return landed.root / object_names.slot_key(GROUP, LANE, 1, seq - 1)


def test_a_sound_store_has_a_good_line_for_each_invariant(
    two_commits: Landed, capsys: pytest.CaptureFixture[str]
) -> None:
    code, text = fsck(two_commits, capsys, "--deep")

    assert (code, broken(text)) == (ExitCode.OK, [])
    assert re.findall(r"^(I\d+) +ok", text, re.MULTILINE) == [f"I{n}" for n in range(1, 14)]
    assert "2 ranges of 1 topic partition\n" in text


def test_a_deleted_slot_is_named(two_commits: Landed, capsys: pytest.CaptureFixture[str]) -> None:
    slot(two_commits, 2).unlink()

    code, text = fsck(two_commits, capsys)

    assert (code, broken(text)) == (ExitCode.FAULT, ["I1"])
    assert "slot 2: expected the next slot" in text
    assert "I6   ?" in text


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


def rewrite(landed: Landed, old: bytes, new: bytes) -> None:
    """Change landed bytes and all that vouches for them, as who may write to the bucket can."""
    content = landed.object.read_bytes().replace(old, new)
    landed.object.write_bytes(content)
    etag, tip, key = hashlib.md5(content).hexdigest(), "", landed.object.relative_to(landed.root)
    for path in sorted((landed.root / "_landfall" / GROUP / LANE).glob("*/*.json")):
        body = json.loads(path.read_bytes())
        is_changed = body["header"]["prev"] != tip
        body["header"]["prev"] = tip
        for made in (o for s in body.get("slices", ()) for o in s.get("objects", ())):
            if made["upload"]["key"] == str(key):
                made["upload"]["parts"][0]["etag"], made["crc32"] = etag, zlib.crc32(content)
                is_changed = True
                vouch(landed.root, made["upload"]["upload_id"], Part(etag, len(content)))
        if is_changed:
            path.write_bytes(json.dumps(body).encode())
        tip = ledger.digest(path.read_bytes())


def vouch(root: Path, upload: str, part: Part) -> None:
    """Rewrite what a folder keeps about an upload."""
    for path in (root / ".landfall-staging" / "owners").glob("*/*.json"):
        owner = json.loads(path.read_bytes())
        if owner["upload_id"] == upload:
            path.write_text(json.dumps({**owner, "etag": multipart_etag([part])}))


def test_an_anchor_that_holds_is_counted(
    two_commits: Landed, capsys: pytest.CaptureFixture[str]
) -> None:
    state = GroupStore.of(Path(two_commits.file)).lane.read()
    anchor = str(LedgerAnchor(LedgerPosition(state.epoch, state.seq), state.tip))

    code, text = fsck(two_commits, capsys, "--deep", "--anchor", anchor)

    assert (code, broken(text), "1 anchor\n" in text) == (ExitCode.OK, [], True)
    assert WITHOUT_ANCHOR not in text


def test_a_rewritten_history_is_found_by_an_anchor_only(
    two_commits: Landed, capsys: pytest.CaptureFixture[str]
) -> None:
    state = GroupStore.of(Path(two_commits.file)).lane.read()
    anchor = str(LedgerAnchor(LedgerPosition(state.epoch, state.seq), state.tip))

    rewrite(two_commits, b'"o":1}', b'"o":9}')

    code, text = fsck(two_commits, capsys, "--deep")
    assert (code, broken(text)) == (ExitCode.OK, [])
    assert WITHOUT_ANCHOR in text.replace("\n", " ")
    code, text = fsck(two_commits, capsys, "--anchor", anchor)
    assert (code, broken(text)) == (ExitCode.FAULT, ["I1"])
    assert f"expected hash {anchor.partition(':')[2][:12]}, which the anchor names" in text


def test_a_ledger_that_ends_before_its_anchor_is_broken(
    two_commits: Landed, capsys: pytest.CaptureFixture[str]
) -> None:
    code, text = fsck(two_commits, capsys, "--anchor", f"1/99:{'ab' * 32}")

    assert (code, broken(text)) == (ExitCode.FAULT, ["I1"])
    assert "slot 99: expected hash abababababab, which the anchor names, got no such slot" in text


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


def lose(made: Landed) -> LandedObject:
    """Commit a second object, and block its topic partition because it is missing."""
    lost = made.sample.land(TP, 10, 20)
    made.sample.commit(lost, complete=False)
    entry = ledger.Blocked(TP, Reason.OBJECT_LOST, "gone", lost.piece.offsets)
    missing = ledger.Missing(3, (lost.objects[0].upload.key,))
    made.sample.append(lambda h: ledger.Block(header=h, entries=(entry,), missing=(missing,)))
    made.sample.store.abort(lost.objects[0].upload.key, lost.objects[0].upload.upload_id)
    return lost.objects[0]


def test_a_missing_object_need_not_be_visible_until_it_is_repaired(
    landed: Make, capsys: pytest.CaptureFixture[str]
) -> None:
    made = landed("Json")
    lost = lose(made)
    made.sample.applied().open()

    assert broken(fsck(made, capsys)[1]) == []
    again = made.sample.upload(lost.upload.key, range(10, 20))
    made.sample.append(lambda h: ledger.Repair(header=h, commit=3, objects=(again,)))
    assert broken(fsck(made, capsys)[1]) == []
    made.sample.applied()
    assert broken(fsck(made, capsys)[1]) == ["I6"]
    made.sample.store.complete(again.upload)
    assert broken(fsck(made, capsys)[1]) == []


def test_a_lost_object_must_not_appear(landed: Make, capsys: pytest.CaptureFixture[str]) -> None:
    made = landed("Json")
    lost = lose(made)
    made.sample.append(lambda h: ledger.Lost(header=h, commit=3, objects=(lost,)))
    made.sample.applied()

    assert broken(fsck(made, capsys)[1]) == []
    made.sample.store.complete(made.sample.upload(lost.upload.key, range(10, 20)).upload)
    assert broken(fsck(made, capsys)[1]) == ["I3"]


def test_what_was_missing_of_a_dropped_topic_partition_is_expected_no_more(
    landed: Make, capsys: pytest.CaptureFixture[str]
) -> None:
    made = landed("Json")
    lose(made)
    made.sample.append(lambda h: ledger.Drop(header=h, topic_partitions=(TP,), reason="gone"))
    made.sample.applied()

    code, text = fsck(made, capsys)

    assert (code, broken(text)) == (ExitCode.OK, [])


def replayed(made: Landed, rows: int) -> tuple[ExitCode, list[str]]:
    """Commit two dead letters, and replay them as if there were ``rows``."""
    sample, key = made.sample, object_names.dead_letter_key(GROUP, "clicks", 1, 0, 10)
    good = sample.land(TP, 10, 20)
    data = sample.upload(good.objects[0].upload.key, range(10, 18))
    letters = sample.upload(key, range(18, 20), ObjectKind.DEAD_LETTERS)
    sample.commit(structs.replace(good, objects=(data, letters), landed=8, dead_lettered=2))
    sample.open(generation=2)
    name = object_names.ObjectName("clicks", "dt=2026-11-21", 2, 0, 10, ".json").key
    again = sample.upload(name, range(18, 18 + rows))
    slice_ = ReplayedSlice(key, good.piece, rows, (again,), rows, 0, 0)
    decision = ledger.Decision("replay-dead-letters", "kim", "decoder mended", "t")
    token = again.upload.token
    sample.append(
        lambda h: ledger.Replay(header=h, token=token, slices=(slice_,), decision=decision)
    )
    sample.store.complete(again.upload)
    sample.applied()
    return fsck_of(made)


def fsck_of(made: Landed) -> tuple[ExitCode, list[str]]:
    report = examine(GroupStore.of(Path(made.file)), deep=False)
    return (
        ExitCode.FAULT if report.findings else ExitCode.OK,
        [finding.invariant.name for finding in report.findings],
    )


def test_a_replay_is_compared_with_the_dead_letters_that_it_read(landed: Make) -> None:
    assert replayed(landed("Json"), rows=2) == (ExitCode.OK, [])


def test_a_replay_of_other_rows_than_were_dead_lettered_is_a_fault(landed: Make) -> None:
    assert replayed(landed("Json"), rows=1) == (ExitCode.FAULT, ["I8"])


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
    for name in ("_SUCCESS", "._SUCCESS.crc", "notes.txt"):
        two_commits.sample.store.overwrite(f"clicks/dt=2026-11-21/{name}", b"")

    code, text = fsck(two_commits, capsys)

    assert code == ExitCode.OK
    assert "2 objects are markers, 1 object does not belong to Landfall" in text


def test_a_rolled_ledger_is_checked_through_its_segments(
    two_commits: Landed, capsys: pytest.CaptureFixture[str]
) -> None:
    two_commits.sample.open().add(TopicPartition("late", 0)).roll()

    code, text = fsck(two_commits, capsys, "--deep")

    assert (code, broken(text)) == (ExitCode.OK, [])
    assert f"{two_commits.sample.state.seq + 1} slots" in text


def test_a_damaged_segment_is_named(
    two_commits: Landed, capsys: pytest.CaptureFixture[str]
) -> None:
    two_commits.sample.open().add(TopicPartition("late", 0)).roll()
    segment = two_commits.root / two_commits.sample.state.segments[0].key
    segment.write_bytes(b"x" + segment.read_bytes()[1:])

    code, text = fsck(two_commits, capsys)

    assert (code, broken(text)) == (ExitCode.FAULT, ["I1"])
    assert "segment" in text
