"""For any records and spec a slice lands, its counters add up, and the auditor finds no fault."""

import io
import json
from collections.abc import Iterator, Sequence
from dataclasses import asdict
from typing import Any

import numpy as np
from hypothesis import given, settings
from hypothesis import strategies as st

from landfall.api.spec import ConsumerGroup, parse_group
from landfall.ledger.names import object_names
from landfall.ledger.offsets import OffsetRange, Slice, TopicPartition
from landfall.ledger.task_results import LandedSlice, ObjectKind
from landfall.pipeline.records import Records
from landfall.registry import check_spec
from landfall.store.memory import MemoryStore
from landfall.task import Batch
from landfall.task.landing import land
from landfall_audit import PartitionResult
from landfall_audit.checks.judge import (
    DEAD_LETTERS,
    UNKNOWN,
    ObjectRows,
    RangeRules,
    ReferenceRecords,
    judge,
)
from landfall_audit.objects import rows
from landfall_audit.payloads import SourceRecord, Undecided
from landfall_audit.route_evaluator import RouteEvaluator, RouteNotSupported
from tests.support.audit.audited_spec import for_auditor
from tests.support.audit.auditor_fakes import Message, of_messages
from tests.support.examples import share
from tests.support.stores.every_store import content

GROUP = "fuzz"

# ------------------------------------------------------------------------------------------ records

TRICKS = [
    *(
        "../../etc", "..", ".", "%2F..%2f", "/", "a/b", "\\", "a\nb", "\x00", "", " ", "~",
        "_landfall", "x" * 5000,
    ),
    *(
        "\u2024\u2024",
        "\uff0e\uff0e\uff0f",
        "\u202e",
        "\ud800",
        "\ufeff",
        "é" * 130,
        "=",
        "dt=2026-01-01",
        "__HIVE_DEFAULT_PARTITION__",
    ),
]  # fmt: skip
TEXTS = st.one_of(
    st.sampled_from(TRICKS), st.text(max_size=12), st.text(st.characters(), max_size=6)
)
NUMBERS = st.one_of(
    st.integers(),
    st.floats(),
    st.sampled_from(
        [
            0,
            -1,
            10**12,
            10**15,
            10**18,
            2**63,
            -(2**63) - 1,
            10**400,
            -62_135_596_800,
            253_402_300_800,
            1e308,
        ]
    ),
)
TIMES = st.one_of(
    NUMBERS,
    st.sampled_from(
        ["0001-01-01T00:00:00", "9999-12-31T23:59:59.999Z", "0000-00-00", "now", "1e5", "٣"]
    ),
)
VALUES = st.recursive(
    st.one_of(st.none(), st.booleans(), TEXTS, TIMES),
    lambda inner: st.one_of(st.lists(inner, max_size=3), st.dictionaries(TEXTS, inner, max_size=3)),
    max_leaves=5,
)
DOCUMENTS = st.fixed_dictionaries(
    {},
    optional={
        "ts": VALUES,
        "meta": st.one_of(VALUES, st.fixed_dictionaries({"c": VALUES})),
        "c": VALUES,
        "x": VALUES,
    },
)


def dumped(document: object, *, indent: int | None) -> bytes:
    return json.dumps(document, indent=indent).encode()


ODD_JSON = [
    *(
        b"",
        b" ",
        b"{",
        b"{}",
        b"[]",
        b"null",
        b"1",
        b'"x"',
        b"nan",
        b'{"ts": NaN}',
        b'{"ts": 1e999}',
        b"{}{}",
        b"{} x",
        b"\xef\xbb\xbf{}",
    ),
    *(
        b'{"ts": 1, "ts": 2}',
        b'{"c": "\\ud800"}',
        b'{"c": "\xff"}',
        b'{"c": "\xed\xa0\x80"}',
        b'{"ts":' + b"[" * 3000 + b"]" * 3000 + b"}",
    ),
    *(
        b'{"x":' * 2000 + b"1" + b"}" * 2000,
        b'{"ts": -0}',
        b'{"ts": 01}',
        b'{"c": "a\nb"}',
        b"{'ts': 1}",
        b'{"ts": 1}\n',
        b"\r\n{}\r",
    ),
    *(
        "{}".encode("utf-16"),
        b"\x00",
        b"a,b,c",
        b'"a","b',
        b",,,,,,,,",
        b"a|b\nc|d",
        b'1767225600000,"x,y",z',
    ),
]
SOUND = st.builds(
    lambda ts, c: dumped({"ts": ts, "meta": {"c": ts // 1000}, "c": c}, indent=None),
    st.integers(1_767_225_600_000, 1_767_225_600_000 + 10**9),
    TEXTS,
)
PAYLOADS = st.one_of(
    SOUND,
    SOUND,
    st.none(),
    st.builds(dumped, DOCUMENTS, indent=st.sampled_from([None, 1])),
    st.sampled_from(ODD_JSON),
    st.binary(max_size=40),
    TEXTS.map(lambda text: text.encode("utf-8", "surrogatepass")),
)
STAMPS = st.one_of(
    st.integers(1_767_225_600_000, 1_767_225_600_000 + 10**9),
    st.sampled_from(
        [
            -1,
            -2,
            0,
            1,
            2**62,
            -(2**62),
            253_402_300_799_999,
            253_402_300_800_000,
            -62_135_596_800_000,
        ]
    ),
)
HEADERS = st.lists(
    st.tuples(st.text(max_size=3), st.one_of(st.none(), st.binary(max_size=3))), max_size=3
)
MESSAGES = st.lists(
    st.tuples(
        st.integers(1, 4), PAYLOADS, st.one_of(st.none(), st.binary(max_size=5)), STAMPS, HEADERS
    ),
    max_size=12,
)


def messages(drawn: Sequence[Any]) -> list[Message]:
    """Return messages at offsets with gaps between them."""
    offsets = np.cumsum([step for step, *_ in drawn]) - 1
    return [Message(int(offset), *rest) for offset, (_, *rest) in zip(offsets, drawn, strict=True)]


# -------------------------------------------------------------------------------------------- specs

TOPICS = st.sampled_from(
    ["clicks", "A-z_0.9", "-", "_", "...", "a" * 249, "0", "CON", "_landfall_", "a..b"]
)
DECODES = st.sampled_from(
    [
        {"format": "Raw"},
        {"format": "Json"},
        {"format": "Json", "timestamp": {"field": "ts"}},
        {"format": "Json", "timestamp": {"field": "meta.c", "unit": "Seconds", "missing": "Epoch"}},
        {
            "format": "Json",
            "timestamp": {"field": "ts", "unit": "Iso8601", "missing": "KafkaTimestamp"},
        },
        {
            "format": "Json",
            "timestamp": {"field": "ts", "unit": "Custom", "format": "%Y", "timezone": "Asia/Gaza"},
        },
        {
            "format": "Json",
            "columns": [{"name": "c", "type": "String"}, {"name": "ts", "type": "Timestamp"}],
        },
        {
            "format": "Json",
            "columns": [
                {"name": "x", "type": "Json"},
                {"name": "c", "type": "Date", "nullable": False},
            ],
        },
        {
            "format": "Delimited",
            "options": {"columns": ["ts", "c", "x"]},
            "timestamp": {"field": "ts"},
        },
        {"format": "Delimited", "options": {"columns": ["c"], "quote": '"', "separator": "|"}},
        {
            "format": "Regex",
            "options": {"pattern": "(?P<ts>[0-9]+)?(?P<c>.*)"},
            "timestamp": {"field": "ts"},
        },
    ]
)
OUTPUTS = st.sampled_from(
    [
        {"format": "Json"},
        {"format": "Json", "codec": "Zstd", "options": {"tombstones": "Null"}},
        {"format": "Text", "codec": "None"},
        {"format": "Text", "options": {"tombstones": "Empty", "delimiter": "||"}},
        {"format": "SequenceFile"},
        {"format": "SequenceFile", "options": {"keyMode": "MessagePack", "compression": "Record"}},
        {"format": "SequenceFile", "options": {"tombstones": "DeadLetter"}, "codec": "Gzip"},
        {"format": "Parquet"},
        {"format": "Parquet", "codec": "Snappy", "options": {"envelope": False}},
    ]
)
ROUTES = st.sampled_from(
    [
        {"pattern": "dt={date}"},
        {"pattern": "{time:%G/%V/%u}/{topic}/{hour}:{minute}", "timezone": "Asia/Kathmandu"},
        {"pattern": "c={field:c}"},
        {"pattern": "{field:c}/{field:c}/%Y"},
        {"pattern": "x"},
        {"pattern": "{field:meta.c}/dt={date}", "timezone": "America/St_Johns"},
    ]
)


def group(decode: Any, route: Any, output: Any, steps: Any = ()) -> ConsumerGroup | None:
    """Return the group, or None if the driver would refuse this combination before it reads."""
    found = parse_group(
        {
            "apiVersion": "landfall.dev/v1alpha1",
            "kind": "ConsumerGroup",
            "metadata": {"name": GROUP},
            "spec": {
                "source": {"kafka": {"bootstrapServers": "nowhere:9092", "topicPattern": ".*"}},
                "decode": decode,
                "transforms": list(steps),
                "route": route,
                "output": {"url": "file:///-", **output},
                "badRecords": {"maxRatio": "1"},
            },
        }
    )
    try:
        check_spec(found)
    except Exception:  # noqa: BLE001  # test_fuzz_readers.py checks the errors of specs
        return None
    return found


class Scripted:
    """A reader that returns these messages in chunks."""

    def __init__(self, tp: TopicPartition, found: Sequence[Message], cut: int) -> None:
        self._tp, self._found, self._cut = tp, found, cut

    def read(self, _: Slice) -> Iterator[Records]:
        for start in range(0, len(self._found), self._cut):
            yield of_messages(self._tp, self._found[start : start + self._cut])


@settings(max_examples=share(300))
@given(
    drawn=MESSAGES,
    topic=TOPICS,
    decode=DECODES,
    route=ROUTES,
    output=OUTPUTS,
    cut=st.integers(1, 12),
)
def test_every_record_is_landed_or_dead_lettered(
    drawn: Any, topic: str, decode: Any, route: Any, output: Any, cut: int
) -> None:
    made = group(decode, route, output)
    if made is not None:
        check_landing(made, TopicPartition(topic, 0), messages(drawn), cut)


def check_landing(made: ConsumerGroup, tp: TopicPartition, found: list[Message], cut: int) -> None:
    """Land these messages as one slice, and assert that each is accounted for, and audited."""
    store = MemoryStore()
    end = found[-1].position + 3 if found else 5

    (landed,) = land(
        Batch(made, "token"), [Slice(tp, OffsetRange(0, end))], Scripted(tp, found, cut), store
    )

    assert isinstance(landed, LandedSlice), landed.error
    assert landed.landed + landed.filtered + landed.dead_lettered == len(found)
    assert landed.invisible == end - len(found)
    for o in landed.objects:
        store.complete(o.upload)
        origin = object_names.origin(GROUP, o.upload.key)
        assert (origin.topic, origin.partition) == (tp.topic, 0)
        assert not {"", ".", ".."} & set(o.upload.key.split("/"))
    assert _audited(made, tp, found, landed, store) == {}


def _audited(
    made: ConsumerGroup,
    tp: TopicPartition,
    found: Sequence[Message],
    landed: LandedSlice,
    store: MemoryStore,
) -> dict[str, object]:
    """Return what the auditor finds wrong."""
    way, codes = rows.rows_of(for_auditor(made.spec)), dict[str, int]()
    objects, letters = [], set[int]()
    for o in landed.objects:
        is_letter = o.kind is ObjectKind.DEAD_LETTERS
        stream = io.BufferedReader(io.BytesIO(content(store, o.upload.key)))  # type: ignore[arg-type]  # BytesIO suffices
        read = rows.read(rows.ENVELOPE if is_letter else way, stream)
        assert (read.damage, len(read.hashes)) == ("", o.rows)
        if is_letter and read.offsets is not None:
            letters |= set(read.offsets.tolist())
        place = (
            DEAD_LETTERS
            if is_letter
            else codes.setdefault(o.upload.key.partition("/")[2].rpartition("/")[0], len(codes))
        )
        order = read.order
        objects.append(
            ObjectRows(
                place,
                read.offsets,
                read.hashes,
                schema=order.schema,
                is_sorted=order.is_sorted,
                is_opaque=bool(order.why_opaque),
            )
        )
    logged = _logged(made, tp, list(found), letters, codes)
    account = PartitionResult()
    judge(logged, objects, RangeRules(way.hash_of is not None, landed.filtered), account)
    return {
        name: value
        for name, value in asdict(account).items()
        if value and name not in {"expected", "found", "unchecked"}
    }


def _logged(
    made: ConsumerGroup,
    tp: TopicPartition,
    found: Sequence[Message],
    letters: set[int],
    codes: dict[str, int],
) -> ReferenceRecords:
    way = rows.rows_of(for_auditor(made.spec))
    try:
        places: RouteEvaluator | None = RouteEvaluator.of(for_auditor(made.spec))
    except RouteNotSupported:
        places = None
    hashes, at, undecided = [], [], []
    for m in found:
        place = (
            places.output_partition(
                (tp.topic, tp.partition), SourceRecord(m.payload, None, (), None), m.timestamp_ms
            )
            if places and m.position not in letters
            else None
        )
        at.append(UNKNOWN if place is None else codes.setdefault(place, len(codes)))
        row_hash, is_undecided = 0, False
        try:
            if m.position in letters:
                row_hash = rows.whole_hash(m)
            elif way.hash_of is not None:
                row_hash = way.hash_of(m)
        except Undecided:
            is_undecided = True
        hashes.append(row_hash)
        undecided.append(is_undecided)
    return ReferenceRecords(
        np.array([m.position for m in found], np.int64),
        np.array(hashes, np.int64),
        np.array(at, np.int64),
        undecided=np.array(undecided, np.bool_),
    )
