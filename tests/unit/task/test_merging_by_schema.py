"""Objects whose rows have schemas of their own are merged with those of the same schema only."""

import io
import json
from typing import Any

import fastavro
import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq
import pytest

from landfall.api.spec import Keep
from landfall.formats import Block
from landfall.ledger.offsets import TopicPartition
from landfall.pipeline.decoders.avro.complete import digest
from landfall.pipeline.decoders.row_schemas import RowSchema
from landfall.pipeline.records import of_columns
from landfall.task.merging import Merged
from tests.support.ledger.merging import TOPIC, MergedFolder
from tests.support.payloads.avro import encoded

V1 = {"type": "record", "name": "Click", "fields": [{"name": "id", "type": "long"}]}
V2 = {**V1, "fields": [*V1["fields"], {"name": "by", "type": "string"}]}  # type: ignore[misc]


def schema_of(declared: dict[str, Any]) -> RowSchema:
    text = json.dumps(declared)
    return RowSchema(digest(text), "Click", text)


def land(objects: MergedFolder, start: int, declared: dict[str, Any], *ids: int) -> None:
    """Land clicks as one object, in blocks of two."""
    rows = [{"id": each, "by": f"user {each}"} for each in ids]
    payloads = [encoded(declared, row) for row in rows]
    offsets = np.arange(start, start + len(ids))
    records = of_columns(
        TopicPartition(TOPIC, 0),
        offsets,
        pa.array(payloads, pa.binary()),
        timestamps=1_763_700_000_000 + offsets,
    )
    names = [field["name"] for field in declared["fields"]]
    columns = pa.RecordBatch.from_pylist([{name: row[name] for name in names} for row in rows])
    blocks = [
        Block(
            records.take(np.arange(at, min(at + 2, len(ids)))),
            columns.slice(at, 2),
            schema_of(declared),
        )
        for at in range(0, len(ids), 2)
    ]
    objects.add(0, start, offsets.tolist(), blocks)


def folder(format_: str, **output: object) -> MergedFolder:
    objects = MergedFolder.of(format_, **output)
    land(objects, 0, V1, 1, 2, 3)
    land(objects, 3, V2, 4, 5)
    land(objects, 5, V1, 1, 6, 2)
    land(objects, 8, V2, 7, 4)
    return objects


KINDS = [
    *(("Avro", {"codec": codec}) for codec in ("Deflate", "Zstd", "Snappy", "None")),
    ("Avro", {"options": {"envelope": False}}),
    ("Parquet", {"columns": "FromSchema"}),
    ("Orc", {"columns": "FromSchema"}),
]


def merged(objects: MergedFolder) -> list[Merged]:
    results = [each for each in objects.results() if isinstance(each, Merged)]
    for each in results:
        objects.store.complete(each.new.landed.upload)
    return results


def ids(objects: MergedFolder, each: Merged) -> list[int]:
    return [json.loads(row.value or b"")["id"] for row in objects.rows(each.new.landed)]


@pytest.mark.parametrize(("format_", "output"), KINDS)
def test_each_schema_has_an_object(format_: str, output: dict[str, object]) -> None:
    objects = folder(format_, **output)

    one, two = merged(objects)

    assert ids(objects, one) == [1, 2, 3, 1, 6, 2]
    assert ids(objects, two) == [4, 5, 7, 4]
    assert [len(one.retire), len(two.retire)] == [2, 2]
    assert one.new.landed.upload.key != two.new.landed.upload.key


@pytest.mark.parametrize(("format_", "output"), KINDS)
@pytest.mark.parametrize(
    ("keep", "kept"),
    [(Keep.FIRST, [[1, 2, 3, 6], [4, 5, 7]]), (Keep.LAST, [[3, 1, 6, 2], [5, 7, 4]])],
)
def test_duplicates_are_left_out_in_each(
    format_: str, output: dict[str, object], keep: Keep, kept: list[list[int]]
) -> None:
    objects = folder(format_, **output).deduped("id", keep)

    found = merged(objects)

    assert [ids(objects, each) for each in found] == kept
    assert [each.duplicates for each in found] == [2, 1]


@pytest.mark.parametrize(("format_", "output"), KINDS)
def test_rows_are_sorted_in_each(format_: str, output: dict[str, object]) -> None:
    objects = folder(format_, **output).sorted("id")

    found = merged(objects)

    assert [ids(objects, each) for each in found] == [[1, 1, 2, 2, 3, 6], [4, 4, 5, 7]]
    assert {each.new.sorted for each in found} == {True}


def test_fastavro_reads_sorted_files() -> None:
    objects = folder("Avro").sorted("id")
    one, _ = merged(objects)

    rows = list(fastavro.reader(io.BytesIO(objects.body(one.new.landed))))

    assert [row["_offset"] for row in rows] == [0, 5, 1, 7, 2, 6]  # type: ignore[index,call-overload]


@pytest.mark.parametrize("format_", ["Avro", "Parquet"])
def test_a_schema_with_one_object_stays(format_: str) -> None:
    objects = MergedFolder.of(format_, columns="FromSchema" if format_ == "Parquet" else "Declared")
    land(objects, 0, V1, 1)
    land(objects, 3, V2, 4)

    assert objects.results() == []


def test_fastavro_reads_merged_files() -> None:
    objects = folder("Avro")
    one, _ = merged(objects)

    rows = list(fastavro.reader(io.BytesIO(objects.body(one.new.landed))))

    assert [(row["id"], row["_offset"]) for row in rows] == [  # type: ignore[index,call-overload]
        (1, 0),
        (2, 1),
        (3, 2),
        (1, 5),
        (6, 6),
        (2, 7),
    ]


def test_the_footer_names_the_schema() -> None:
    objects = folder("Parquet", columns="FromSchema")
    one, _ = merged(objects)

    footer = pq.ParquetFile(io.BytesIO(objects.body(one.new.landed))).metadata

    assert footer.metadata[b"landfall-schema-digest"].decode() == schema_of(V1).digest
    assert footer.num_row_groups == 1
