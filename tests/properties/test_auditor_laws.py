"""Writer and auditor share no code and agree on output partitions and on the rows of objects."""

import io
import json
from collections.abc import Sequence
from datetime import date, datetime
from typing import Any

from hypothesis import given
from hypothesis import strategies as st

from landfall import registry
from landfall.api.spec import GroupSpec, MissingTimestamp, TimeUnit
from landfall.formats import Block
from landfall.ledger.offsets import TopicPartition
from landfall_audit.objects import rows
from landfall_audit.payloads import BadPayload, text_documents
from tests.fuzz import texts
from tests.fuzz.compared import BadError
from tests.support.audit.audited_spec import for_auditor
from tests.support.audit.auditor_fakes import Message, of_messages
from tests.support.audit.routes import assert_routed_alike, routed_by_auditor

CLICKS = TopicPartition("clicks", 3)


def spec(**fields: Any) -> GroupSpec:
    output = {"url": "file:///out", "format": "Json", **fields.pop("output", {})}
    source = {"kafka": {"bootstrapServers": "localhost:1", "topics": ["clicks"]}}
    return GroupSpec.model_validate({"source": source, "output": output, **fields})


# --------------------------------------------------------------------------------- objects

PAYLOADS = st.one_of(
    st.none(), st.binary(max_size=300), st.text("a|\r\n\t", max_size=6).map(str.encode)
)
MESSAGES = st.lists(
    st.builds(
        lambda payload, key, timestamp, headers: Message(0, payload, key, timestamp, headers),
        PAYLOADS,
        PAYLOADS,
        st.integers(-1, 2**62),
        st.lists(st.tuples(st.text(max_size=3), PAYLOADS), max_size=2),
    ),
    max_size=20,
)
OUTPUTS = st.one_of(
    st.builds(
        lambda codec, delimiter: {
            "format": "Text",
            "codec": codec,
            "options": {"delimiter": delimiter},
        },
        st.sampled_from(["Gzip", "Zstd", "None"]),
        st.sampled_from(["\\n", "\\r\\n", "||", "\\0", "\\x01", "é"]),
    ),
    st.builds(
        lambda kind, mode: {
            "format": "SequenceFile",
            **kind,
            "options": {"keyMode": mode, **kind.get("options", {})},
        },
        st.sampled_from(
            [
                {},
                {"codec": "Gzip"},
                {"codec": "None", "options": {"compression": "None"}},
                {"options": {"compression": "Record"}},
            ]
        ),
        st.sampled_from(["Legacy", "MessagePack"]),
    ),
    st.just({"format": "Parquet"}),
)


@given(output=OUTPUTS, messages=MESSAGES, cut=st.integers(1, 20))
def test_the_auditor_reads_what_the_writer_wrote(
    output: Any, messages: list[Message], cut: int
) -> None:
    group = spec(output=output)
    format_ = registry.output_format(group.output)
    messages = [
        Message(7 * i, m.payload, m.record_key, m.timestamp_ms, m.header_pairs)
        for i, m in enumerate(messages)
    ]
    refused = set(format_.refuse(of_messages(CLICKS, messages)).rows.tolist())
    messages = [m for i, m in enumerate(messages) if i not in refused]
    encoder = format_.encoder()
    batches = [of_messages(CLICKS, messages[i : i + cut]) for i in range(0, len(messages), cut)]
    body = b"".join((*(encoder.encode(Block(batch)) for batch in batches), encoder.finish()))

    reader = rows.rows_of(for_auditor(group))
    found = rows.read(reader, io.BufferedReader(io.BytesIO(body)))  # type: ignore[arg-type]  # bytes are read from it

    assert reader.hash_of is not None
    assert found.damage == ""
    assert found.hashes.tolist() == [reader.hash_of(m) for m in messages]
    if found.offsets is not None:
        assert found.offsets.tolist() == [m.position for m in messages]


OF_TEXT = {
    "Csv": text_documents.csv,
    "Delimited": text_documents.delimited,
    "Regex": text_documents.regex,
}


@given(case=texts.CASES)
def test_the_auditor_reads_text_as_the_reference_does(case: texts.Case) -> None:
    """The reference of ``make fuzz``, which goes character by character."""
    document, names = OF_TEXT[case.format](case.options)
    assert tuple(names) == case.names

    for payload in case.payloads:
        if payload is None:
            continue
        try:
            found = list(document(payload).values())
        except BadPayload:
            found = None
        try:
            values = texts.values_of(case, payload)
        except BadError:
            values = None
        assert found == values, (case, payload)


# ----------------------------------------------------------------------- output partitions

ZONES = ["UTC", "America/St_Johns", "Europe/Berlin", "Pacific/Apia", "Australia/Lord_Howe"]
ISO = st.builds(
    lambda moment, zone: moment.isoformat() + zone,
    st.datetimes(datetime(2, 1, 1), datetime(9998, 12, 31)),  # noqa: DTZ001
    st.sampled_from(["", "Z", "+02:00", "-03:30", "z"]),
)
XML_TIMES = st.builds(
    lambda day, hour, zone: f"{day}{hour}{zone}",
    st.dates(date(2, 1, 1), date(9998, 12, 31)),
    st.sampled_from(["", "T24:00", "t24:00:00", " 24:00:00.000", "t23:59:59", "T24:01"]),
    st.sampled_from(["", "Z", "z", "+05:30", "-11:00"]),
)
OTHER_TIMES = st.builds(
    lambda moment, day, clock, zone, name: moment.strftime(day) + clock + zone + name,
    st.datetimes(datetime(1000, 1, 1), datetime(9998, 12, 31)),  # noqa: DTZ001
    st.sampled_from(["%Y-%m-%d", "%Y-%j", "%Y%m%d", "%Y-366", "%Y-000", "0000-%m-%d", "%G-W%V-%u"]),
    st.sampled_from(
        ["", "T12:00:00", " 23:59:60", "T23:59:60.5", "T235960", "T23:5960", "T00:59:60", "T24:00"]
    ),
    st.sampled_from(["", "Z", "+01:00", "-00:00"]),
    st.sampled_from(
        ["", " UTC", "utc", " GMT", "[Europe/Berlin]", "[utc]", "[]", "[+01:00]", "UTC]"]
    ),
)
SYSLOG_TIMES = st.one_of(
    st.datetimes(datetime(2000, 1, 1), datetime(2000, 12, 31)).map(  # noqa: DTZ001
        lambda moment: f"{moment:%b %d %H:%M:%S}"
    ),
    st.sampled_from(["Feb 29 12:00:00", "Dec 31 23:59:59", "Jan 01 00:00:00", "Nov 31 00:00:00"]),
    st.none(),
)
SECONDS = st.integers(-62_135_596_800, 253_402_300_799)
TIMES = st.one_of(
    SECONDS,
    SECONDS.map(lambda s: s * 1000 + 17),
    st.integers(),
    st.floats(allow_nan=False, allow_infinity=False),
    st.floats(-1e12, 1e12),
    ISO,
    XML_TIMES,
    OTHER_TIMES,
    st.builds(str, SECONDS),
    st.from_regex(r"[+-]?[0-9]{1,20}(\.[0-9]{0,5})?", fullmatch=True),
    st.text(max_size=5),
    st.booleans(),
    st.none(),
    st.lists(st.integers(), max_size=1),
)
VALUES = st.one_of(
    st.text(max_size=20),
    st.sampled_from(
        ["..", "../..", "a/b", "%2F", "\n", "\x00", "", "a" * 300, "é" * 121, "ﾀ", "\u2024\u2024"]
    ),
    st.integers(),
    st.floats(allow_nan=False, allow_infinity=False),
    st.booleans(),
    st.none(),
    st.just({"x": 1}),
)
PATTERNS = [
    "dt={date}",
    "dt={date}/hr={hour}/min={minute}",
    "{topic}/%Y-%j/%G-W%V-%u",
    "{time:%F/%H.%M.%S}/{field:c}",
    "c={field:c}/d={field:n.d}",
    "h={header:h}/{header:i}",
    "{kafka_partition}/{time:%b}/q={minute:15}/{minute:20}",
    "all",
]
HEADERS = st.lists(
    st.tuples(st.sampled_from(["h", "i", "other"]), st.none() | st.binary(max_size=3)), max_size=3
)
DOCUMENTS = st.lists(
    st.fixed_dictionaries(
        {},
        optional={
            "t": TIMES,
            "c": VALUES,
            "n": st.one_of(st.integers(), st.fixed_dictionaries({"d": VALUES})),
        },
    ),
    min_size=1,
    max_size=8,
)


def messages(
    documents: Sequence[Any],
    stamps: Sequence[int],
    headers: Sequence[Sequence[tuple[str, bytes | None]]] = ((),) * 8,
) -> list[Message]:
    return [
        Message(i, json.dumps(document).encode(), timestamp_ms=stamp, header_pairs=pairs)
        for i, (document, stamp, pairs) in enumerate(zip(documents, stamps, headers, strict=False))
    ]


@given(
    documents=DOCUMENTS,
    stamps=st.lists(st.integers(-1, 2**44), min_size=8, max_size=8),
    pattern=st.sampled_from(PATTERNS),
    topic_path=st.sampled_from([None, "x={field:c}/y-{header:h}=/{topic}"]),
    headers=st.lists(HEADERS, min_size=8, max_size=8),
    zone=st.sampled_from(ZONES),
    unit=st.sampled_from([None, *(unit for unit in TimeUnit if unit is not TimeUnit.CUSTOM)]),
    missing=st.sampled_from(MissingTimestamp),
)
def test_the_auditor_routes_records_as_the_writer_does(
    documents: list[dict[str, Any]],
    stamps: list[int],
    pattern: str,
    topic_path: str | None,
    headers: list[list[tuple[str, bytes | None]]],
    zone: str,
    unit: TimeUnit | None,
    missing: MissingTimestamp,
) -> None:
    timestamp = (
        {"timestamp": {"field": "t", "unit": unit, "timezone": zone, "missing": missing}}
        if unit
        else {}
    )
    group = spec(
        decode={"format": "Json", **timestamp},
        route={"pattern": pattern, "timezone": zone, "topicPath": topic_path},
    )

    assert_routed_alike(group, messages(documents, stamps, headers))


@given(
    texts=st.lists(SYSLOG_TIMES, min_size=1, max_size=8),
    stamps=st.lists(
        st.integers(-1, 2**42) | st.sampled_from([1_798_761_600_000, 1_709_208_000_000]),
        min_size=8,
        max_size=8,
    ),
    zone=st.sampled_from(ZONES),
)
def test_the_auditor_takes_the_same_year_where_a_date_has_none(
    texts: list[str | None], stamps: list[int], zone: str
) -> None:
    timestamp = {"field": "t", "unit": "Custom", "format": "%b %d %H:%M:%S", "timezone": zone}
    group = spec(
        decode={"format": "Json", "timestamp": timestamp}, route={"pattern": "{date}T{hour}.%M"}
    )

    assert_routed_alike(group, messages([{"t": text} for text in texts], stamps))


def test_the_auditor_parses_custom_timestamps() -> None:
    timestamp = {
        "field": "t",
        "unit": "Custom",
        "format": "%d/%b/%Y %H:%M",
        "timezone": "Europe/Berlin",
    }
    group = spec(
        decode={"format": "Json", "timestamp": timestamp}, route={"pattern": "dt={date}/hr={hour}"}
    )

    path = routed_by_auditor(group, Message(0, b'{"t": "01/Jan/2026 00:30"}'))

    assert path == "dt=2025-12-31/hr=23"
