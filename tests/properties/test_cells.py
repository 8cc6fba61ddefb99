"""A chunk that is decoded in parts lands as one that is decoded at once."""

import json
from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass
from typing import NamedTuple

import msgspec
import numpy as np
import pyarrow as pa
import pytest
from hypothesis import given
from hypothesis import strategies as st

from landfall.ledger.offsets import OffsetRange, Slice
from landfall.ledger.task_results import LandedSlice, LandingRules
from landfall.native import HotPath
from landfall.pipeline.records import Records, of_columns
from landfall.store.memory import MemoryStore
from landfall.task import Batch, landing
from landfall.task.landing import land
from tests.support.driver.hot_paths import BOTH, running
from tests.support.driver.slice_landing import MIDNIGHT, TP, content, group

COLUMNS = [
    {"name": "n", "type": "Int64"},
    {"name": "text", "type": "String"},
    {"name": "day", "type": "Date"},
    {"name": "flag", "type": "Boolean", "nullable": False},
]
Row = Mapping[str, object]


def as_csv(row: Row) -> bytes:
    return ",".join(str(row.get(column["name"], "")) for column in COLUMNS).encode()


WAYS: dict[str, tuple[dict[str, object], Callable[[Row], bytes]]] = {
    "Json": ({"format": "Json"}, lambda row: json.dumps(row).encode()),
    "MessagePack": ({"format": "MessagePack"}, msgspec.msgpack.encode),
    "Csv": (
        {"format": "Csv", "options": {"columns": [str(column["name"]) for column in COLUMNS]}},
        as_csv,
    ),
}
ROWS = st.lists(
    st.none()
    | st.fixed_dictionaries(
        {},
        optional={
            "n": st.integers(-(2**63), 2**63 - 1) | st.just("no number"),
            "text": st.text("ab\u00e9", max_size=5),
            "day": st.sampled_from(["2026-11-21", "0000-06-01", "no date"]),
            "flag": st.booleans() | st.just("true"),
        },
    ),
    min_size=1,
    max_size=40,
)


@dataclass
class OneChunk:
    """Reads all rows as one chunk, of a leader epoch."""

    payloads: list[bytes | None]

    def read(self, slice_: Slice) -> Iterator[Records]:
        rows = len(self.payloads)
        chunk = of_columns(
            slice_.topic_partition,
            np.arange(rows),
            pa.array(self.payloads, pa.binary()),
            timestamps=MIDNIGHT + np.arange(rows) * 1_000_000,
        )
        yield Records(TP, chunk.offsets, chunk.values, chunk.columns, leader_epoch=5)


class Landed(NamedTuple):
    """What is the same on each attempt: uploads are begun by threads, so their ids differ."""

    objects: list[tuple[str, int, int, int]]
    content: dict[str, bytes]
    counts: tuple[object, ...]
    position: tuple[int, ...]


@pytest.mark.parametrize("path", BOTH)
@pytest.mark.parametrize("way", WAYS)
@given(ROWS, st.integers(1, 60), st.sampled_from(["Parquet", "Orc", "Json"]))
def test_parts_of_a_chunk_land_as_the_whole_of_it(
    path: HotPath, way: str, rows: list[Row | None], cells: int, output: str
) -> None:
    decode, encoded = WAYS[way]
    payloads = [None if row is None else encoded(row) for row in rows]
    spec = group(
        decode={**decode, "columns": COLUMNS},
        route={"pattern": "dt={date}"},
        output={"url": "s3://bucket/root", "format": output},
    )

    def landed(max_cells: int, rules: LandingRules) -> Landed:
        store = MemoryStore()
        with pytest.MonkeyPatch.context() as patch, running(path):
            patch.setattr(landing, "MAX_CELLS", max_cells)
            whole = Slice(TP, OffsetRange(0, len(rows)))
            batch = Batch(spec, "token", rules=rules)
            (result,) = land(batch, [whole], OneChunk(payloads), store)
        assert isinstance(result, LandedSlice), result
        objects = [(o.upload.key, o.rows, o.first_offset, o.last_offset) for o in result.objects]
        # Uploads are begun by several threads, so their ids differ.
        return Landed(
            objects,
            content(result, store),
            (result.landed, result.filtered, result.dead_lettered, result.errors),
            (result.input_bytes, result.latest_ms, result.leader_epoch, result.epoch_offset),
        )

    expected = landed(2**20, LandingRules.ALL_BYTES)

    assert landed(cells, LandingRules.ALL_BYTES) == expected
    assert landed(cells, LandingRules.PAYLOADS) == expected
    assert expected.position[-2:] == (5, len(rows) - 1)
