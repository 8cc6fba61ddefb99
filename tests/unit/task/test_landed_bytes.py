"""Landing a slice again gives the same bytes, in parts and objects of bounded size."""

from itertools import pairwise

import numpy as np
import orjson
import pytest

from landfall.ledger.names.object_names import parse_key
from landfall.ledger.offsets import OffsetRange, Slice
from landfall.ledger.task_results import LandedSlice, ObjectKind
from landfall.store.memory import MemoryStore
from tests.support.driver.slice_landing import HOUR, MIDNIGHT, TP, content, land_rows


def noisy_rows(count: int, hours: int) -> list[tuple[int, bytes]]:
    """Return rows that do not compress, over some hours, with gaps and some bad rows."""
    noise = np.random.default_rng(7)
    return [
        (
            o,
            b'{"ts":%d,"x":"%s"}'
            % (MIDNIGHT + int(noise.integers(hours)) * HOUR, noise.bytes(150).hex().encode()),
        )
        if o % 97
        else (o, b"bad")
        for o in range(100, 100 + count)
        if o % 13
    ]


@pytest.mark.parametrize(
    "output", [{"format": "Json"}, {"format": "SequenceFile"}, {"format": "Parquet"}]
)
def test_the_same_range_gives_the_same_bytes_however_it_was_chunked(output: dict[str, str]) -> None:
    """Where blocks end depends on the rows of the output partition, not on the reader's chunks."""
    rows, slice_ = noisy_rows(6000, 3), Slice(TP, OffsetRange(100, 6100))
    spec = {"output": {"url": "s3://b", **output}}

    bodies = []
    for chunk in (10_000, 1000, 333):
        store = MemoryStore()
        bodies.append(content(land_rows(rows, store, chunk, slice_, **spec), store))

    assert bodies[0] == bodies[1] == bodies[2]
    assert len(bodies[0]) == 4


@pytest.mark.slow
def test_parts_have_the_configured_size() -> None:
    store = MemoryStore()
    rows, slice_ = noisy_rows(60_000, 1), Slice(TP, OffsetRange(100, 60_100))
    output = {"url": "s3://b", "format": "Json", "codec": "None", "s3": {"partBytes": "5Mi"}}

    result = land_rows(rows, store, 10_000, slice_, output=output)

    assert isinstance(result, LandedSlice)
    data = next(o for o in result.objects if o.kind is ObjectKind.DATA)
    *full, last = [part.size for part in data.upload.parts]
    assert full == [5 * 2**20] * 3
    assert 0 < last <= 5 * 2**20
    lines = content(result, store)[data.upload.key].splitlines()
    assert [orjson.loads(line)["ts"] for line in lines] == [MIDNIGHT] * data.rows


def over_budget(chunk: int) -> tuple[LandedSlice, dict[str, bytes]]:
    """Land 60 MB of noise in 1,000 output partitions, in a task with 64 MiB of memory."""
    noise = np.random.default_rng(7).bytes(400)
    text = noise.hex().encode()
    rows = [
        (o, b'{"ts":0,"who":"%d","x":"%s%d"}' % (o * 7919 % 1000, text[o % 400 :], o))
        for o in range(100, 120_100)
    ]
    store = MemoryStore(least_part_bytes=5 * 2**20)
    spec = {
        "route": {"pattern": "who={field:who}"},
        "output": {"url": "s3://b", "format": "Json", "codec": "None"},
        "tuning": {"taskMemory": "64Mi"},
    }
    result = land_rows(rows, store, chunk, Slice(TP, OffsetRange(100, 120_100)), **spec)
    assert isinstance(result, LandedSlice)
    return result, content(result, store)


@pytest.mark.slow
def test_a_task_over_its_budget_begins_new_objects_and_writes_every_row_once() -> None:
    result, bodies = over_budget(10_000)

    names = sorted(
        (parse_key(key) for key in bodies), key=lambda name: (name.output_partition, name.start)
    )
    assert len({name.output_partition for name in names}) == 1000
    assert len(names) > 1000
    by_key = {landed.upload.key: landed for landed in result.objects}
    assert all(name.start <= by_key[name.key].first_offset for name in names)
    for one, after in pairwise(names):
        assert (
            one.output_partition != after.output_partition
            or by_key[one.key].last_offset < after.start
        )
    assert result.landed == sum(body.count(b"\n") for body in bodies.values()) == 120_000
    assert bodies == over_budget(10_000)[1]
