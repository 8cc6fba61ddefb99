"""What a group lands from another's objects is what it would have landed from Kafka."""

from itertools import pairwise
from typing import Any

import numpy as np
import pyarrow as pa
from hypothesis import given, settings
from hypothesis import strategies as st

from landfall.landed.merging import chunks, merged
from landfall.landed.rows import ROWS
from landfall.ledger.offsets import OffsetRange, Slice
from landfall.ledger.task_results import LandedSlice
from landfall.source import messages
from landfall.store.memory import MemoryStore
from landfall.task import Batch
from landfall.task.landing import land
from tests.support.driver.slice_landing import TP, FakeReader, click, content, group
from tests.support.examples import share
from tests.support.ledger.landed_group import PARQUET, SEQUENCE_FILES, Backup

LAST = 60
PAYLOADS = st.one_of(st.just(b"no JSON"), st.integers(0, 4))
LOGS = st.dictionaries(st.integers(0, LAST - 1), PAYLOADS, max_size=LAST).map(
    lambda rows: sorted(
        (o, p if isinstance(p, bytes) else click(o, hour=p)[1]) for o, p in rows.items()
    )
)
CUTS = st.sets(st.integers(1, LAST - 1), max_size=5)
FORMATS = st.sampled_from(
    [SEQUENCE_FILES, PARQUET, {"format": "Parquet", "options": {"sortBy": ["value"]}}]
)


@settings(max_examples=share(40), deadline=None)
@given(LOGS, CUTS, FORMATS, CUTS)
def test_the_objects_are_those_that_kafka_would_have_given(
    log: list[tuple[int, bytes]], commits: set[int], output: dict[str, Any], slices: set[int]
) -> None:
    backup = Backup({TP: log}, output).land(*sorted({0, LAST, *commits})).settle()
    batch = Batch(group(), "token")

    for start, end in pairwise(sorted({0, LAST, *slices})):
        slice_ = Slice(TP, OffsetRange(start, end))
        stores = MemoryStore(), MemoryStore()
        (expected,) = land(batch, [slice_], FakeReader({TP: log}), stores[0])
        (found,) = land(batch, [slice_], backup.reader, stores[1])

        assert isinstance(found, LandedSlice), found
        assert isinstance(expected, LandedSlice), expected
        assert found.errors == expected.errors
        objects = content(found, stores[1]), content(expected, stores[0])
        if output is SEQUENCE_FILES:  # which have no headers, as dead letters do
            objects = tuple({k: b for k, b in o.items() if "dead" not in k} for o in objects)
        assert objects[0] == objects[1]


ROWS_OF_A_CHUNK, BYTES_OF_A_CHUNK = 5, 40


@given(st.lists(st.integers(0, 50), max_size=40), st.data())
def test_chunks_are_cut_as_kafkas_reader_cuts_them(sizes: list[int], data: st.DataObject) -> None:
    offsets = np.arange(len(sizes))
    fetched = messages.PythonFetched([None] * len(sizes))  # type: ignore[list-item]  # only their number counts
    whole = messages.Messages(fetched, offsets, np.array(sizes, np.int64))
    rows = pa.table(
        {
            "offset": offsets,
            "timestamp": offsets,
            "key": pa.nulls(len(sizes), pa.binary()),
            "value": pa.array([bytes(size) for size in sizes], pa.binary()),
            "headers": pa.nulls(len(sizes), ROWS.field("headers").type),
        },
        schema=ROWS,
    )
    cuts = sorted(data.draw(st.sets(st.integers(0, len(sizes)))) | {0, len(sizes)})

    found = chunks((rows[a:b] for a, b in pairwise(cuts)), ROWS_OF_A_CHUNK, BYTES_OF_A_CHUNK)

    expected = messages.chunks([whole], ROWS_OF_A_CHUNK, BYTES_OF_A_CHUNK)
    assert [len(each) for each in found] == [len(each) for each in expected]


@given(st.lists(st.sets(st.integers(0, 100), min_size=1), max_size=6), st.integers(1, 7))
def test_objects_are_merged_in_the_order_of_offsets(groups: list[set[int]], size: int) -> None:
    seen, objects = set[int](), list[list[int]]()
    for each in groups:
        if own := sorted(each - seen):
            objects.append(own)
            seen |= each

    found = merged(
        sorted(((own[0], lambda own=own: iter(_batches(own, size))) for own in objects), key=_first)
    )

    assert [o for table in found for o in table["offset"].to_pylist()] == sorted(seen)


def _first(source: tuple[int, Any]) -> int:
    return source[0]


def _batches(offsets: list[int], size: int) -> list[pa.RecordBatch]:
    whole = pa.RecordBatch.from_arrays(
        [
            pa.array(offsets, pa.int64()),
            pa.array(offsets, pa.int64()),
            pa.nulls(len(offsets), pa.binary()),
            pa.nulls(len(offsets), pa.binary()),
            pa.nulls(len(offsets), ROWS.field("headers").type),
        ],
        schema=ROWS,
    )
    return [whole[at : at + size] for at in range(0, len(offsets), size)]
