"""Rows that are only chosen make the same blocks, parts and objects as copies of them."""

from dataclasses import dataclass, field, replace

import numpy as np
import pyarrow as pa
from hypothesis import given
from hypothesis import strategies as st

from landfall.formats import Block
from landfall.ledger.offsets import TopicPartition
from landfall.ledger.task_results import ObjectKind
from landfall.pipeline.records import HEADERS, of_columns
from landfall.store.memory import MemoryStore
from landfall.task.outputs import ObjectWriter, Outputs, OutputSizes
from landfall.task.rows import ChosenRows, RowLayout
from landfall.task.uploading import ObjectUpload, Uploader

TP = TopicPartition("clicks", 0)
EVERYTHING = RowLayout(timestamps=True, keys=True, headers=True)


@dataclass
class Recorder:
    """Writes every column as text, and remembers where blocks begin."""

    held_bytes: int = 100
    blocks: list[int] = field(default_factory=list)

    def encode(self, block: Block) -> bytes:
        records = block.records
        self.blocks.append(int(records.offsets[0]))
        columns = (
            records.offsets.tolist(),
            records.timestamps.tolist(),
            records.keys.to_pylist(),
            records.values.to_pylist(),
            records.headers.to_pylist(),
        )
        return b"".join(b"%r\n" % (row,) for row in zip(*columns, strict=True))

    def finish(self) -> bytes:
        return b"end"


@st.composite
def chunks(draw: st.DrawFn) -> list[tuple[pa.RecordBatch, dict[str, list[int]]]]:
    """Chunks of one topic partition, and the rows of each that go to an output partition."""
    found, offset = [], draw(st.integers(0, 5))
    for _ in range(draw(st.integers(1, 5))):
        sizes = draw(st.lists(st.integers(-1, 60), min_size=1, max_size=30))
        values = [None if size < 0 else b"%0*d" % (size, size) for size in sizes]
        keys = [None if size % 3 else b"k%d" % size for size in sizes]
        header_of = list(zip(keys, sizes, strict=True))
        count = len(sizes)
        records = of_columns(
            TP,
            np.arange(offset, offset + count),
            pa.array(values, pa.binary()),
            timestamps=np.arange(count),
            keys=pa.array(keys, pa.binary()),
            headers=pa.array([[("h", key)] * (size % 4) for key, size in header_of], HEADERS),
        )
        goes_to = draw(st.lists(st.sampled_from("aab"), min_size=count, max_size=count))
        outputs = {
            name: rows
            for name in "ab"
            if (rows := [n for n, to in enumerate(goes_to) if to == name])
        }
        found.append((EVERYTHING.rows(records, None), outputs))
        offset += count
    return found


@given(
    chunks(),
    st.integers(1, 400),
    st.none() | st.integers(1, 25),
    st.none() | st.integers(1, 2_000),
    st.sampled_from([10**9, 4_000, 9_000]),
)
def test_chosen_rows_land_as_copies_of_them(
    found: list[tuple[pa.RecordBatch, dict[str, list[int]]]],
    block_bytes: int,
    object_rows: int | None,
    object_bytes: int | None,
    budget: int,
) -> None:
    sizes = OutputSizes(block_bytes, 500, 50, object_bytes, object_rows)

    def land(chosen: bool) -> object:
        store, blocks = MemoryStore(), []

        def open_(partition: str, start: int) -> ObjectWriter:
            encoder = Recorder()
            blocks.append((partition, start, encoder.blocks))
            upload = ObjectUpload(uploader, f"{partition}_{start}", "token")
            return ObjectWriter(TP, ObjectKind.DATA, EVERYTHING, encoder, upload, sizes)

        with Uploader(store, 10**6) as uploader:
            outputs = Outputs(budget, 0, open_)
            for batch, of_outputs in found:
                for name, rows in of_outputs.items():
                    positions = np.array(rows, np.int64)
                    outputs.add(
                        name,
                        ChosenRows(batch, positions)
                        if chosen
                        else ChosenRows(batch.take(pa.array(positions))),
                    )
                outputs.free_memory()
            landed = [sealed.landed() for sealed in outputs.seal()]
        for each in landed:
            store.complete(each.upload)
        parts = [len(each.upload.parts) for each in landed]
        keys = [each.upload.key for each in landed]
        return (
            blocks,
            parts,
            [(key, store.read(key)) for key in keys],
            [(each.rows, each.first_offset, each.last_offset, each.crc32) for each in landed],
        )

    assert land(chosen=True) == land(chosen=False)


@given(chunks(), st.data())
def test_divided_rows_have_the_offsets_and_weights_of_their_own(
    given_chunks: list[tuple[pa.RecordBatch, dict[str, list[int]]]], data: st.DataObject
) -> None:
    batch, _ = given_chunks[0]
    order = np.array(data.draw(st.permutations(range(len(batch)))), np.int64)
    inner = data.draw(st.lists(st.integers(0, len(batch)), max_size=5).map(sorted))
    bounds = [0, *inner, len(batch)]

    for part, start, end in zip(
        ChosenRows(batch, order).divided(bounds), bounds[:-1], bounds[1:], strict=True
    ):
        alone = ChosenRows(batch, order[start:end])
        assert part.offsets.tolist() == alone.offsets.tolist()
        assert part.weights.tolist() == alone.weights.tolist()
        assert part.taken().equals(alone.taken())


@given(chunks(), st.booleans(), st.booleans(), st.data())
def test_rows_weigh_what_is_written_of_them(
    given_chunks: list[tuple[pa.RecordBatch, dict[str, list[int]]]],
    keys: bool,
    headers: bool,
    data: st.DataObject,
) -> None:
    batch, _ = given_chunks[0]
    start = data.draw(st.integers(0, len(batch) - 1))
    part = batch.slice(start)
    records = of_columns(
        TP,
        part.column("offset").to_numpy(),
        part.column("value"),
        timestamps=part.column("timestamp").to_numpy(),
        keys=part.column("key"),
        headers=part.column("headers"),
    )

    def weights(layout: RowLayout) -> list[int]:
        return np.diff(ChosenRows(layout.rows(records, None)).weights, prepend=0).tolist()

    payloads = [len(value or b"") for value in part.column("value").to_pylist()]
    of_keys = [len(key or b"") * keys for key in part.column("key").to_pylist()]
    of_headers = [
        sum(len(h["key"]) + len(h["value"] or b"") for h in row) * headers
        for row in part.column("headers").to_pylist()
    ]
    whole = [16 + sum(sizes) for sizes in zip(payloads, of_keys, of_headers, strict=True)]
    layout = RowLayout(timestamps=True, keys=keys, headers=headers)
    assert weights(layout) == whole
    assert weights(replace(layout, weighs_all=False)) == [16 + size for size in payloads]
