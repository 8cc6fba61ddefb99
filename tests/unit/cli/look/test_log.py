"""``landfall log`` lists the records of a ledger, who asked for them and why."""

import json
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest
from msgspec.structs import replace

from landfall import ledger
from landfall.api.contract import ExitCode
from landfall.cli import main
from landfall.cli.look import KINDS
from landfall.cli.look.log_entries import ReplaceOutcome, kind_of, log_entry
from landfall.errors import Reason
from landfall.ledger import Decision, Header, Purpose
from landfall.ledger.names.object_names import snapshot_key
from landfall.ledger.offsets import OffsetRange, Slice, TopicPartition
from landfall.ledger.task_results import LandedObject, ObjectKind, ReplayedSlice
from landfall.objects import Upload
from tests.support.ledger.sample_ledger import GROUP, LANE
from tests.support.ledger.sample_replacing import Merge, Undo
from tests.unit.cli.conftest import TP, Landed

Captured = pytest.CaptureFixture[str]
VIEWS = TopicPartition("views", 2)
HEADER = Header(9, "", 1, "w1", "2026-11-21T05:00:00+00:00", 8)
SKIP = Decision("skip", "kim", "poison, see INC-12", "2026-11-21T05:59:00+00:00")


class Scene:
    """A ledger with COMMITs of two topics, and what is appended to it."""

    def __init__(self, landed: Landed) -> None:
        self.landed, self.sample = landed, landed.sample
        self.sample.add(VIEWS, start=5).commit(self.sample.land(VIEWS, 5, 25))

    def skip(self, time: str, decision: Decision | None = SKIP) -> None:
        offsets = OffsetRange(end := self.sample.state.checkpoint[TP], end + 3)

        def hole(header: Header) -> ledger.Record:
            at = replace(header, time=time)
            return ledger.Hole(
                header=at, piece=Slice(TP, offsets), reason="asked for", decision=decision
            )

        self.sample.append(hole)

    def merge(self) -> Merge:
        self.sample.commit(second := self.sample.land(TP, 10, 20)).shown()
        objects = ((2, self.landed.first.objects[0]), (5, second.objects[0]))
        return Merge.of(self.sample, objects).record().complete().keep_copies()

    def undo(self, merge: Merge, **fields: Any) -> Merge:
        self.sample.shown()
        return Undo(merge).record(decision=SKIP, **fields)


@pytest.fixture
def scene(landed: Callable[[str], Landed]) -> Scene:
    return Scene(landed("Json"))


def shown(scene: Scene, capsys: Captured, *argv: str) -> list[str]:
    assert main(["log", scene.landed.file, *argv]) == ExitCode.OK
    return capsys.readouterr().out.splitlines()


def entries(scene: Scene, capsys: Captured, *argv: str) -> list[dict[str, Any]]:
    return [json.loads(line) for line in shown(scene, capsys, *argv, "--json")]


def test_records_are_listed_with_the_last_one_first(scene: Scene, capsys: Captured) -> None:
    scene.skip("2026-11-21T07:00:01+02:00")

    assert shown(scene, capsys) == [
        (
            "       5  2026-11-21T05:00:01Z  HOLE      skips clicks/0[10, 13): asked for "
            "(3 offsets)  [skip by kim, 2026-11-21T05:59:00+00:00: poison, see INC-12]"
        ),
        (
            "       4  2026-11-21T05:00:00Z  COMMIT    lands: views/2[5, 25) (1 range, "
            "20 records, 1 object, 1 output partition)"
        ),
        "       3  2026-11-21T05:00:00Z  ADD       enter: views/2 at 5 (1 topic partition)",
        (
            "       2  2026-11-21T05:00:00Z  COMMIT    lands: clicks/0[0, 10) (1 range, "
            "10 records, 1 object, 1 output partition)"
        ),
        "       1  2026-11-21T05:00:00Z  ADD       enter: clicks/0 at 0 (1 topic partition)",
        (
            "       0  t                     OPEN      a driver takes the lane: epoch 1, "
            "generation 1, software 0"
        ),
    ]


def test_json_has_an_object_per_record(scene: Scene, capsys: Captured) -> None:
    scene.skip("2026-11-21T05:00:01+00:00")

    hole, commit = entries(scene, capsys, "-n", "2")

    assert hole == {
        "slot": 5,
        "time": "2026-11-21T05:00:01+00:00",
        "kind": "HOLE",
        "epoch": 1,
        "writer": "w1",
        "topics": ["clicks"],
        "summary": "skips clicks/0[10, 13): asked for",
        "counts": {"offsets": 3},
        "decision": {
            "verb": "skip",
            "who": "kim",
            "why": "poison, see INC-12",
            "requested": "2026-11-21T05:59:00+00:00",
        },
        "replace": None,
    }
    assert (commit["slot"], commit["decision"]) == (4, None)
    assert shown(scene, capsys, "-n", "2", "-o", "json") == shown(scene, capsys, "-n2", "--json")


def test_records_are_chosen(scene: Scene, capsys: Captured) -> None:
    scene.skip("2026-11-21T06:00:00+00:00")
    scene.skip("2026-11-21T07:00:00+00:00", None)

    def slots(*argv: str) -> list[int]:
        return [entry["slot"] for entry in entries(scene, capsys, *argv)]

    assert slots("--kind", "commit", "--kind", "Add") == [4, 3, 2, 1]
    assert slots("--topic", "views") == [4, 3]
    assert slots("--topic", "views", "--topic", "clicks") == [6, 5, 4, 3, 2, 1]
    assert slots("--decisions") == [5]
    assert slots("--since", "2026-11-21T06:00") == [6, 5]
    assert slots("--since", "2026-11-21T06:00", "--until", "2026-11-21T08:00+01:00") == [5]
    assert slots("--until", "2026-11-21T06:00Z") == [4, 3, 2, 1]
    assert slots("--reverse", "--kind", "hole") == [5, 6]
    assert slots("--reverse", "-n", "3") == [4, 5, 6]
    assert slots("-n", "0") == []
    assert slots("--kind", "replace") == []


def test_a_slot_of_an_earlier_time_does_not_end_the_search(scene: Scene, capsys: Captured) -> None:
    scene.skip("2026-11-21T06:00:00+00:00")
    scene.skip("1970-01-01T00:00:00+00:00")

    found = entries(scene, capsys, "--since", "2026-11-21T06:00")

    assert [entry["slot"] for entry in found] == [5]


@pytest.mark.parametrize("order", [[], ["--reverse"]])
def test_a_replace_says_whether_it_was_undone(
    order: list[str], scene: Scene, capsys: Captured
) -> None:
    merge = scene.merge()
    undo = scene.undo(merge, unmerges=merge.slot)

    lines = shown(scene, capsys, "--kind", "replace", *order)

    folder = "clicks/dt=2026-11-21"
    counts = "(2 replaced objects, 20 replaced records, 1 object, 20 records, 1 output partition, "
    assert sorted(line[32:] for line in lines) == [
        (
            f"REPLACE   merges objects: {folder}; undone in slot {undo.slot} ({folder}) {counts}"
            "1 range)"
        ),
        (
            f"REPLACE   restores objects: {folder}; undoes slot {merge.slot}; not applied yet "
            "(1 replaced object, 20 replaced records, 2 objects, 20 records, 1 output partition, "
            "1 range)  [skip by kim, 2026-11-21T05:59:00+00:00: poison, see INC-12]"
        ),
    ]


def test_what_earlier_software_undid_is_read_from_the_list(scene: Scene, capsys: Captured) -> None:
    merge = scene.merge()
    undo = scene.undo(merge)

    last, first = entries(scene, capsys, "--kind", "replace")

    assert first["replace"]["outcome"]["undone"] == [
        {"slot": undo.slot, "folders": ["clicks/dt=2026-11-21"]}
    ]
    assert last["replace"]["outcome"] == {
        "applied": False,
        "undoes": merge.slot,
        "superseded_by": None,
        "undone": [],
    }


def test_an_undoing_that_was_superseded_undoes_nothing(scene: Scene, capsys: Captured) -> None:
    merge = scene.merge()
    undo = scene.undo(merge, unmerges=merge.slot)
    scene.sample.append(
        lambda h: replace(
            undo.replace(h, undo.stored(), purpose=Purpose.UNDO),
            instead=undo.slot,
            read_through=undo.slot,
        )
    )

    last, superseded, first = entries(scene, capsys, "--kind", "replace")

    assert last["replace"]["outcome"]["undoes"] is None
    assert f"instead of slot {undo.slot}" in last["summary"]
    assert superseded["replace"]["outcome"]["superseded_by"] == last["slot"]
    assert "superseded by slot" in superseded["summary"]
    assert first["replace"]["outcome"]["undone"] == []


def test_an_undoing_that_was_undone_undoes_nothing(scene: Scene, capsys: Captured) -> None:
    merge = scene.merge()
    undo = scene.undo(merge, unmerges=merge.slot).complete().keep_copies()
    again = scene.undo(undo, unmerges=undo.slot)

    found = entries(scene, capsys, "--kind", "replace")

    undone = [each["replace"]["outcome"]["undone"] for each in found]
    assert undone == [[], [{"slot": again.slot, "folders": ["clicks/dt=2026-11-21"]}], []]


def test_a_rolled_ledger_is_listed_as_before(scene: Scene, capsys: Captured) -> None:
    scene.skip("2026-11-21T06:00:00+00:00")
    scene.sample.applied().open(2).add(TopicPartition("late", 0))
    before = shown(scene, capsys)

    scene.sample.roll()

    assert "slots 0 to " in shown(scene, capsys)[0]
    assert shown(scene, capsys)[1:] == before
    assert shown(scene, capsys, "--reverse")[:-1] == before[::-1]


def test_control_characters_are_shown(scene: Scene, capsys: Captured) -> None:
    scene.skip("2026-11-21T06:00:00+00:00", replace(SKIP, why="a\x1b[31mb\nc"))

    (line,) = shown(scene, capsys, "-n", "1")

    assert line.endswith("a\\x1b[31mb\\nc]")


def test_every_kind_is_known() -> None:
    tags = {str(each.__struct_config__.tag) for each in ledger.Record.__args__}

    assert {*KINDS} == tags
    assert len(KINDS) == len(tags)


def test_records_without_a_range_are_in_words(scene: Scene, capsys: Captured) -> None:
    sample = scene.sample
    blocked = ledger.Blocked(TP, Reason.BAD_RECORDS, "too many", OffsetRange(10, 20))
    sample.append(lambda h: ledger.Block(header=h, entries=(blocked,)))
    allowed = (ledger.Permission(TP),)
    sample.append(lambda h: ledger.Unblock(header=h, entries=allowed, decision=SKIP))
    sample.append(lambda h: ledger.Drop(header=h, topic_partitions=(VIEWS,), reason="is gone"))
    sample.shown()
    sample.snapshot()

    found = [(entry["kind"], entry["summary"]) for entry in entries(scene, capsys, "-n", "5")]

    assert found[0] == ("SNAPSHOT", f"the state is stored in {snapshot_key(GROUP, LANE, 9)}")
    assert found[1:] == [
        ("APPLIED", "everything up to slot 7 is visible"),
        ("DROP", "leave: views/2: is gone"),
        ("UNBLOCK", "unblocks clicks/0"),
        ("BLOCK", "blocks clicks/0 (BadRecordsOverLimit: too many)"),
    ]
    assert [entry["slot"] for entry in entries(scene, capsys, "--topic", "views")] == [7, 4, 3]


FEED = TopicPartition("hits", 0)
PARTS = ledger.PartList("k", "0" * 64, 7, 10, 2, 900)
AT = 1763683200000
LANDED = LandedObject(
    Upload("clicks/dt=2026-11-21/1_0_00000000000000000000.json", "u", (), "t"),
    ObjectKind.DATA,
    *(3, 0, 2, 1),
)
LETTERS = "_landfall/shop/dead-letters/clicks/1_0_00000000000000000000.parquet"
REPLAYED = ReplayedSlice(LETTERS, Slice(TP, OffsetRange(0, 3)), 4, (LANDED,), 3, 1, 0)


@pytest.mark.parametrize(
    ("record", "topics", "summary", "counts"),
    [
        (
            ledger.Repair(header=HEADER, commit=4, objects=(LANDED,)),
            ("clicks",),
            f"new uploads of slot 4: {LANDED.upload.key}",
            {"objects": 1, "records": 3},
        ),
        (
            ledger.Lost(header=HEADER, commit=4, objects=(LANDED,), decision=SKIP),
            ("clicks",),
            f"gives up lost objects of slot 4: {LANDED.upload.key}",
            {"objects": 1, "records": 3},
        ),
        (
            ledger.Replay(header=HEADER, token="t", slices=(REPLAYED,), decision=SKIP),
            ("clicks",),
            "lands dead letters again: clicks/0[0, 3)",
            {
                "dead_letter_objects": 1,
                "records": 3,
                "dead_letters": 0,
                "filtered": 1,
                "objects": 1,
                "output_partitions": 1,
            },
        ),
        (
            ledger.Finalize(
                header=HEADER, delay=0, looked=0, entries=(ledger.Horizon("clicks", AT),)
            ),
            ("clicks",),
            "complete: clicks up to 2025-11-21T00:00:00Z",
            {"topics": 1},
        ),
        (
            ledger.Run(
                header=HEADER,
                until=2**62,
                began="t",
                topics=(ledger.ClosedTopic("clicks", ()),),
                left=("views",),
            ),
            ("clicks", "views"),
            f"the range until {2**62} ms is landed; not landed: views",
            {"topics": 1},
        ),
        (
            ledger.Discover(header=HEADER, topic_partition=FEED, listed=PARTS),
            ("hits",),
            "hits: parts 7 to 9 of files are found",
            {
                "parts": 3,
                "files": 2,
                "bytes": 900,
                "numbered_again": 0,
                "replaced": 0,
                "ignored": 0,
            },
        ),
        (
            ledger.Discover(header=HEADER, topic_partition=FEED, ignored=(7,), decision=SKIP),
            ("hits",),
            "hits: no new parts of files",
            {"numbered_again": 0, "replaced": 0, "ignored": 1},
        ),
        (
            ledger.Lease(header=HEADER, topic_partition=FEED, numbers=(7, 8), holder="w", until=AT),
            ("hits",),
            "hits: parts are leased to w until 2025-11-21T00:00:00Z",
            {"parts": 2},
        ),
        (
            ledger.Extend(header=HEADER, topic_partition=FEED, lease=5, until=AT),
            ("hits",),
            "hits: lease 5 is extended until 2025-11-21T00:00:00Z",
            {},
        ),
        (
            ledger.LeaseOutcome(
                header=HEADER, topic_partition=FEED, lease=5, at=AT, failed=(7,), why="not JSON"
            ),
            ("hits",),
            "hits: parts of lease 5 are back: not JSON",
            {"done": 0, "failed": 1, "returned": 0, "expired": 0},
        ),
        (
            ledger.Retired(header=HEADER, slots=(4, 6)),
            (),
            "the old objects of the REPLACE in slot 4, 6 are deleted",
            {"replaces": 2},
        ),
        (
            ledger.Yield(header=HEADER, reason="drain"),
            (),
            "the driver gives the lane up: drain",
            {},
        ),
    ],
    ids=lambda value: kind_of(value) if hasattr(value, "header") else "",
)
def test_other_records_are_in_words_and_numbers(
    record: ledger.Record, topics: tuple[str, ...], summary: str, counts: dict[str, int]
) -> None:
    entry = log_entry(GROUP, record, ReplaceOutcome())

    assert (entry.topics, entry.summary, entry.counts) == (topics, summary, counts)
    assert entry.decision == getattr(record, "decision", None)


def test_many_names_are_counted() -> None:
    entries = tuple(ledger.Entry(TopicPartition("clicks", n), "id", 0) for n in range(1004))

    entry = log_entry(GROUP, ledger.Add(header=HEADER, entries=entries), ReplaceOutcome())

    assert entry.summary == "enter: clicks/0 at 0, clicks/1 at 0, clicks/10 at 0 and 1,001 more"


def test_without_a_ledger_or_topic_there_is_nothing_to_list(
    scene: Scene, capsys: Captured, tmp_path: Path
) -> None:
    assert main(["log", scene.landed.file, "--topic", "click"]) == ExitCode.NOTHING
    assert "no topic click; did you mean clicks?" in capsys.readouterr().err

    empty = tmp_path / "empty.yaml"
    text = Path(scene.landed.file).read_text("utf-8")
    empty.write_text(text.replace(str(scene.landed.root), str(tmp_path / "other")))
    assert main(["log", str(empty)]) == ExitCode.NOTHING
    assert "there is no ledger of the group" in capsys.readouterr().err


@pytest.mark.parametrize("argv", [["--kind", "commits"], ["-n", "-1"], ["--since", "yesterday"]])
def test_what_is_no_choice_is_refused(argv: list[str], scene: Scene) -> None:
    with pytest.raises(SystemExit) as ended:
        main(["log", scene.landed.file, *argv])

    assert ended.value.code == ExitCode.USAGE
