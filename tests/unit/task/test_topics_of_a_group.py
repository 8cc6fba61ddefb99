"""Slices of different topics of one group in one task: each by its own entry of ``spec.topics``."""

import gzip
from typing import Any

import pytest

from landfall import registry
from landfall.errors import NotTried, Reason, SchemasAway, Stalled
from landfall.ledger.offsets import OffsetRange, Slice, TopicPartition
from landfall.ledger.task_results import FailedSlice, LandedSlice, ObjectKind
from landfall.store.memory import MemoryStore
from landfall.task import Batch
from landfall.task.landing import land
from tests.support.driver.slice_landing import FakeReader, click, content, group
from tests.support.kafka.schema_registry import schema_registry

CLICKS, PAGES, LOGS = (TopicPartition(name, 0) for name in ("clicks", "pages", "logs"))
TOPICS: list[dict[str, Any]] = [
    {
        "pattern": "pages",
        "decode": {
            "format": "Csv",
            "options": {"columns": ["user", "ts", "page"]},
            "timestamp": {"field": "ts"},
        },
        "transforms": [{"use": "Filter", "options": {"where": 'page != "/health"'}}],
        "route": {"pattern": "page={field:page}"},
        "output": {"codec": "None", "rotate": {"maxRecords": 1}},
    },
    {
        "pattern": "logs",
        "decode": {"format": "examples.plugins.logfmt:Logfmt", "timestamp": {"field": "at"}},
        "route": {"pattern": "all"},
        "output": {"format": "Text", "codec": "None"},
    },
]
LOG = {
    CLICKS: [click(5)],
    PAGES: [(7, b"ann,0,/a"), (8, b"ann,0,/health"), (9, b"bob,0,/a"), (10, b"broken")],
    LOGS: [(3, b"at=0 level=info")],
}


def landed_all(**spec: Any) -> tuple[MemoryStore, list[LandedSlice | FailedSlice]]:
    store = MemoryStore()
    slices = [Slice(tp, OffsetRange(0, 20)) for tp in LOG]
    made = group(topics=TOPICS, **spec)
    return store, list(land(Batch(made, "token"), slices, FakeReader(LOG), store))


def test_each_topic_is_decoded_routed_and_written_by_its_own_entry() -> None:
    store, results = landed_all()

    assert all(isinstance(result, LandedSlice) for result in results)
    found: dict[str, bytes] = {}
    for result in results:
        found |= content(result, store)
    data = {key: body for key, body in found.items() if not key.startswith("_landfall/")}
    clicks = f"clicks/dt=2025-11-21/hr=00/4_0_{0:020d}.json.gz"
    assert gzip.decompress(data.pop(clicks)) == click(5)[1] + b"\n"
    assert data == {
        f"pages/page=%2Fa/4_0_{0:020d}.json": b'{"user":"ann","ts":"0","page":"/a"}\n',
        f"pages/page=%2Fa/4_0_{9:020d}.json": b'{"user":"bob","ts":"0","page":"/a"}\n',
        f"logs/all/4_0_{0:020d}.txt": b"at=0 level=info\n",
    }


def test_the_counters_of_each_topic_add_up() -> None:
    _, results = landed_all()

    pages = results[1]
    assert isinstance(pages, LandedSlice)
    assert (pages.landed, pages.filtered, pages.dead_lettered, pages.invisible) == (2, 1, 1, 16)
    (letters,) = (o for o in pages.objects if o.kind is ObjectKind.DEAD_LETTERS)
    assert (letters.first_offset, letters.rows) == (10, 1)


def test_a_registry_that_is_away_holds_up_the_topics_of_its_entry_only() -> None:
    """The others may need no registry, or another one."""
    away, also = (TopicPartition("orders", partition) for partition in (0, 1))
    log = {away: [(1, b"\0\0\0\0\7x")], also: [(1, b"\0\0\0\0\7x")], CLICKS: [click(5)]}
    with schema_registry() as registry:
        registry.status = 503
        avro = {"format": "Avro", "registry": {"urls": [registry.url]}}
        made = group(topics=[{"pattern": "orders", "decode": avro}])
        slices = [Slice(tp, OffsetRange(0, 20)) for tp in log]

        results = land(Batch(made, "token"), slices, FakeReader(log), MemoryStore())

    errors = [r.error if isinstance(r, FailedSlice) else None for r in results]
    assert [type(error) for error in errors] == [SchemasAway, NotTried, type(None)]
    assert len(registry.asked) == 1


def test_stages_that_cannot_be_built_fail_the_slices_of_their_topics_only() -> None:
    broken = [{"pattern": "logs", "decode": {"format": "nowhere:Name"}}]
    slices = [Slice(tp, OffsetRange(0, 20)) for tp in (CLICKS, LOGS)]

    clicks, logs = land(
        Batch(group(topics=broken), "token"), slices, FakeReader(LOG), MemoryStore()
    )

    assert isinstance(clicks, LandedSlice)
    assert isinstance(logs, FailedSlice)
    assert isinstance(logs.error, Stalled)
    assert logs.error.reason is Reason.SPEC_INVALID
    assert str(logs.error).startswith("spec.topics[0].decode.format: cannot import decoder")


@pytest.mark.parametrize(
    ("entry", "message"),
    [
        (
            {"decode": {"format": "nowhere:Name"}},
            "spec.topics[1].decode.format: cannot import decoder 'nowhere:Name': No module",
        ),
        (
            {"transforms": [{"use": "Filter", "options": {"where": "a =="}}]},
            "spec.topics[1].transforms[0].options.where: ",
        ),
        ({"output": {"codec": "Snappy"}}, "spec.topics[1].output.codec: must be Gzip, Zstd"),
        ({"decode": {"format": "Raw"}}, "spec.topics[1].decode: Raw payloads have no fields"),
    ],
)
def test_a_driver_refuses_an_entry_that_cannot_be_built(
    entry: dict[str, Any], message: str
) -> None:
    with pytest.raises(Stalled) as caught:
        registry.check_spec(group(topics=[{"pattern": "a"}, {"pattern": "b"} | entry]))

    assert str(caught.value).startswith(message)


def test_a_registry_of_the_group_is_for_the_topics_that_have_schemas() -> None:
    avro = {"pattern": "orders", "decode": {"format": "Avro"}}
    decode = {"format": "Json", "registry": {"urls": ["http://registry:8081"]}}

    registry.check_spec(group(decode=decode, topics=[avro]))


def test_the_groups_own_stages_need_not_fit_if_no_topic_has_them() -> None:
    raw = {"format": "Raw", "timestamp": {"field": "ts"}}
    with pytest.raises(Stalled, match=r"spec\.decode: Raw payloads have no fields"):
        registry.check_spec(group(decode=raw, topics=[{"pattern": "b", **_json()}]))

    registry.check_spec(group(decode=raw, topics=[{"pattern": ".*", **_json()}]))


def _json() -> dict[str, Any]:
    return {"decode": {"format": "Json"}}
