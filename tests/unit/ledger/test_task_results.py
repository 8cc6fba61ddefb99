"""The counters of a landed slice must add up to its offsets."""

import json
import pickle
from typing import Any

import msgspec
import pytest
from msgspec import UNSET

from landfall.ledger import Commit, Header, Repair, decode, encode
from landfall.ledger.offsets import OffsetRange, Slice, TopicPartition
from landfall.ledger.task_results import LandedObject, LandedSlice, ObjectKind, PartRows
from landfall.objects import Part, Upload

HEADER = Header(2, "", 1, "w", "t")
SLICE = Slice(TopicPartition("clicks", 3), OffsetRange(40, 50))


def an_object(kind: ObjectKind, rows: int) -> LandedObject:
    upload = Upload(f"clicks/{kind}", "id", (Part("etag", 100),), "token")
    return LandedObject(upload, kind, rows=rows, first_offset=40, last_offset=49, crc32=1)


def landed(**counts: Any) -> LandedSlice:
    zero = {"landed": 0, "filtered": 0, "dead_lettered": 0, "invisible": 0}
    return LandedSlice(SLICE, **{"objects": (), "input_bytes": 0, **zero, **counts})


def test_every_offset_is_accounted_for() -> None:
    objects = (
        an_object(ObjectKind.DATA, 4),
        an_object(ObjectKind.DATA, 2),
        an_object(ObjectKind.DEAD_LETTERS, 1),
    )

    assert landed(objects=objects, landed=6, filtered=1, dead_lettered=1, invisible=2).landed == 6


@pytest.mark.parametrize("invisible", [9, 11])
def test_an_offset_too_few_or_too_many_is_refused(invisible: int) -> None:
    with pytest.raises(
        ValueError, match=rf"clicks/3\[40, 50\): 10 offsets, but .* invisible {invisible}"
    ):
        landed(invisible=invisible)


def test_objects_that_hold_other_than_the_landed_rows_are_refused() -> None:
    with pytest.raises(ValueError, match=r"landed 10 \(9 in objects\)"):
        landed(objects=(an_object(ObjectKind.DATA, 9),), landed=10)


def test_dead_letters_are_not_landed_rows() -> None:
    with pytest.raises(ValueError, match=r"landed 10 \(0 in objects\)"):
        landed(objects=(an_object(ObjectKind.DEAD_LETTERS, 10),), landed=10)


def test_results_that_differ_in_what_was_measured_are_the_same() -> None:
    once, again = landed(invisible=10, cpu_seconds=1.0), landed(invisible=10, seconds=2.0)

    assert once == again
    assert not once != again  # noqa: SIM202  # another operator
    assert {once, again} == {once}
    assert once != landed(filtered=10)


def test_a_result_survives_the_way_from_a_task_to_the_driver() -> None:
    result = landed(
        objects=(an_object(ObjectKind.DATA, 9),), landed=9, filtered=1, errors=("bad",), seconds=2.0
    )

    found = pickle.loads(pickle.dumps(result))

    assert (found, found.seconds, found.read_from) == (result, 2.0, UNSET)


@pytest.mark.parametrize("schemas", [("x",), ("b" * 64, "a" * 64), ("a" * 64, "a" * 64)])
def test_schemas_are_sorted_hashes(schemas: tuple[str, ...]) -> None:
    with pytest.raises(ValueError, match="not sorted SHA-256s"):
        landed(invisible=10, schemas=schemas)
    with pytest.raises(ValueError, match="not sorted SHA-256s"):
        Repair(header=HEADER, commit=1, objects=(), schemas=schemas)


def test_a_slice_of_older_software_names_no_schemas() -> None:
    commit = Commit(header=HEADER, token="t", slices=(landed(invisible=10),))
    older = json.loads(encode(commit))
    assert older["slices"][0].pop("schemas") == []

    assert decode(2, json.dumps(older).encode()) == commit


def test_a_slice_of_newer_software_is_read() -> None:
    """Software that is rolled back must read what its successor wrote."""
    commit = Commit(header=HEADER, token="t", slices=(landed(invisible=10),))
    newer = json.loads(encode(commit))
    newer["slices"][0]["unheard of"] = 1

    assert decode(2, json.dumps(newer).encode()) == commit


def test_a_repair_without_schemas_is_written_as_before() -> None:
    body = encode(Repair(header=HEADER, commit=1, objects=()))

    assert "schemas" not in json.loads(body)
    assert decode(2, body) == Repair(header=HEADER, commit=1, objects=())


FEW = {
    "objects": (an_object(ObjectKind.DATA, 6), an_object(ObjectKind.DEAD_LETTERS, 1)),
    "landed": 6,
    "filtered": 1,
    "dead_lettered": 1,
    "invisible": 2,
}


@pytest.mark.parametrize(
    ("parts", "why"),
    [
        ((PartRows(0, 6, 1, 1), PartRows(1, 1, 0, 0)), r"\(6, 1, 1\), but \(7, 1, 1\) by part"),
        ((), r"\(6, 1, 1\), but \(0, 0, 0\) by part"),
        ((PartRows(1, 6, 1, 0), PartRows(0, 0, 0, 1)), "not in order, each once"),
        ((PartRows(0, 6, 0, 1), PartRows(0, 0, 1, 0)), "not in order, each once"),
        ((PartRows(0, 6, 1, 1), PartRows(1, 0, 0, 0)), "a part without records"),
        ((PartRows(0, 7, 1, 1), PartRows(1, -1, 0, 0)), "a part without records"),
    ],
)
def test_counters_of_parts_add_up_to_those_of_the_slice(
    parts: tuple[PartRows, ...], why: str
) -> None:
    with pytest.raises(ValueError, match=why):
        landed(**FEW, parts=parts)


def test_counters_of_parts_are_written_and_read_and_a_former_release_reads_the_rest() -> None:
    counted = landed(**FEW, parts=(PartRows(0, 4, 1, 0), PartRows(3, 2, 0, 1)))
    commit = Commit(header=HEADER, token="token", slices=(counted,))

    body = encode(commit)

    assert b'"parts":[[0,4,1,0],[3,2,0,1]]' in body
    assert decode(2, body) == commit
    known = [f for f in msgspec.structs.fields(LandedSlice) if f.name != "parts"]
    former = msgspec.defstruct(
        "Former", [(f.name, f.type, *(() if f.required else (f.default,))) for f in known]
    )
    read = msgspec.json.decode(json.dumps(json.loads(body)["slices"][0]), type=former)
    assert (read.landed, read.dead_lettered) == (6, 1)


def test_a_former_release_counts_no_parts() -> None:
    body = encode(Commit(header=HEADER, token="token", slices=(landed(**FEW),)))

    read = decode(2, body)

    assert b'"parts":[[' not in body
    assert isinstance(read, Commit)
    assert read.slices[0].parts is UNSET
