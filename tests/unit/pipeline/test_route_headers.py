"""Routes by headers and by destinations."""

import numpy as np
import pyarrow as pa
import pytest

from landfall.api.spec import Route
from landfall.ledger.offsets import TopicPartition
from landfall.ledger.task_results import LandedSlice
from landfall.pipeline.records import HEADERS, Records, of_columns
from landfall.pipeline.route import DEFAULT_PARTITION, Routed, Router
from landfall.store.memory import MemoryStore
from landfall.task import Batch
from landfall.task.landing import land
from tests.support.driver.slice_landing import SLICE, TP, FakeReader, group

Pairs = list[tuple[str, bytes | None]] | None


def records(*headers: Pairs) -> Records:
    return of_columns(
        TopicPartition("app.web", 7),
        np.arange(len(headers)),
        pa.nulls(len(headers), pa.binary()),
        headers=pa.array(headers, HEADERS),
    )


def routed(*headers: Pairs, pattern: str = "{header:h}") -> Routed:
    return Router.of(Route(pattern=pattern), None).route(records(*headers), {})


def partitions(found: Routed) -> list[str | None]:
    return [found.partitions[code] if code >= 0 else None for code in found.codes.tolist()]


def test_a_header_is_text_and_the_last_one_counts() -> None:
    found = routed(
        [("h", b"a")], [("h", b"a"), ("i", b"b"), ("h", b"c")], [("h", "\u00e9/".encode())]
    )

    assert partitions(found) == ["a", "c", "\u00e9%2F"]


@pytest.mark.parametrize("headers", [[], [("other", b"x")], [("h", None)], [("h", b"")]])
def test_without_a_value_it_is_the_default_partition(headers: Pairs) -> None:
    assert partitions(routed(headers, [("h", b"x")])) == [DEFAULT_PARTITION, "x"]


def test_what_is_no_text_is_a_bad_record() -> None:
    found = routed([("h", b"\xff")], [("h", b"a")], None, [("i", b"\xff")])

    assert partitions(found) == [None, "a", None, DEFAULT_PARTITION]
    assert found.bad.errors == [
        "route: header 'h' is not UTF-8",
        "route: a header's name is not UTF-8",
    ]


def test_headers_are_no_fields_of_the_payload() -> None:
    router = Router.of(Route(pattern="{header:h}/{field:a}"), None)

    assert router.fields == (("a",),)


def test_of_selected_rows_the_headers_are_theirs() -> None:
    found = records([("h", b"a")], [], [("h", b"c")]).take(np.array([1, 2]))

    assert partitions(Router.of(Route(pattern="{header:h}"), None).route(found, {})) == [
        DEFAULT_PARTITION,
        "c",
    ]


def test_records_choose_their_destination() -> None:
    rows = [
        (100, b'{"ts":0,"app":"shop"}'),
        (101, b'{"ts":0,"app":"a/../b"}'),
        (102, b'{"ts":0}'),
        (103, b'{"ts":0,"app":"shop"}'),
    ]
    route = {"pattern": "dt={date}", "topicPath": "db={field:app}/{topic}"}
    batch = Batch(group(route=route), "token")

    (result,) = land(batch, [SLICE], FakeReader({TP: rows}), MemoryStore())

    assert isinstance(result, LandedSlice)
    name = f"clicks/dt=1970-01-01/4_3_{100:020d}.json.gz"
    assert {o.upload.key: o.rows for o in result.objects} == {
        f"db=shop/{name}": 2,
        f"db=a%2F..%2Fb/{name}": 1,
        f"db={DEFAULT_PARTITION}/{name}": 1,
    }
