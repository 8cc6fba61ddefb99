"""Every decoder in every format with every codec: what others wrote is what others read.

What there is comes from the registry, so that a new decoder or format cannot be forgotten.
"""

import math
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from typing import Any

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from landfall.api.spec import Codec
from landfall.errors import Stalled
from landfall.registry import DECODERS, FORMATS, pipeline
from tests.support.driver.slice_landing import group
from tests.support.examples import share
from tests.support.payloads.own_schemas import is_data, landed
from tests.support.payloads.ways import COLUMNS, FILES, NAMES, WAYS, Event, File, Way

PAYLOADS, DECLARED, OWN = "payloads", "declared columns", "columns of the schema"
MODES = (PAYLOADS, DECLARED, OWN)

NO_COLUMNS = {"JsonSchema": "a JSON Schema has no columns of its own; declare decode.columns"}
"""What is said of decoders with schemas that have none."""

EVENTS: Sequence[Event] = [
    {"id": 1, "who": "ann", "amount": 0.5, "ok": True},
    {"id": -(2**63), "who": "é 漢 🙂", "amount": -1e300, "ok": False},
    {"id": 2**63 - 1, "who": "'; --", "amount": 5e-324, "ok": True},
    {"id": 0, "who": "null", "amount": 0.1 + 0.2, "ok": False},
    {"id": 10, "who": "x" * 3000, "amount": 1.0, "ok": True},
]


@dataclass(frozen=True)
class Case:
    """A decoder, a format, and which columns there are."""

    decoder: str
    way: Way
    format: str
    mode: str

    def __str__(self) -> str:
        protocol = self.way.options.get("protocol", "")
        return f"{self.decoder}{protocol} as {self.format} with {self.mode}"

    @property
    def file(self) -> File:
        return FILES[self.format]

    @property
    def refusal(self) -> str:  # noqa: PLR0911  # a table
        """Why a driver refuses this, as part of its message; empty if it does not."""
        way, is_columnar = self.way, self.file.is_columnar
        match self.format, self.mode:
            case "Avro", mode if mode == DECLARED:
                return "leave decode.columns out"
            case _, mode if mode == OWN and not is_columnar:
                return "FromSchema is for formats that write columns, not for"
            case _, mode if mode == OWN and not way.has_own:
                return NO_COLUMNS.get(self.decoder, "FromSchema needs payloads with a schema")
            case "Avro", _ if not way.has_own:
                return NO_COLUMNS.get(self.decoder, "Avro needs payloads with a schema, which")
            case "Avro", _ if not way.is_copied:
                return "the format copies payloads of the decoder Avro, not of"
            case _, mode if mode == DECLARED and not way.has_columns:
                return "have no typed columns"
            case "Json", _ if way.as_json is None:
                return "have no JSON"
        return ""

    def spec(self, codec: Codec) -> dict[str, Any]:
        columns = COLUMNS if self.mode == DECLARED else []
        return {
            "decode": {"format": self.decoder, "options": self.way.options, "columns": columns},
            "route": {"pattern": "all"},
            "output": {
                "url": "s3://bucket/root",
                "format": self.format,
                "columns": "FromSchema" if self.mode == OWN else "Declared",
                "codec": codec,
                "options": self.file.options,
            },
        }

    def expected(self, offset: int, event: Event) -> dict[str, Any]:
        """The row of an event, as a reader must find it."""
        at = {"_offset": offset} if self.file.has_offsets else {}
        if self.format == "Json":
            assert self.way.as_json is not None
            return dict(self.way.as_json(event))  # type: ignore[call-overload]  # a dictionary
        is_typed = self.file.is_columnar and self.mode != PAYLOADS
        if is_typed or self.format == "Avro":
            return {**event, **at}
        return {**at, "value": self.way.encode(event)}


def cases() -> Iterator[Case]:
    for decoder in DECODERS:
        for way in WAYS[decoder]:
            yield from (Case(decoder, way, format_, mode) for format_ in FORMATS for mode in MODES)


ALL = list(cases())
LANDED = [case for case in ALL if not case.refusal]


def check(case: Case, codec: Codec, events: Sequence[Event], chunk: int = 1000) -> None:
    """Land the events, and compare what another reader finds with them, types included."""
    rows = [(100 + i, case.way.encode(event)) for i, event in enumerate(events)]

    made, objects = landed(rows, case.spec(codec), chunk)

    assert (made.landed, made.errors) == (len(events), ())
    (body,) = [body for key, body in objects.items() if is_data(key)]
    expected = [case.expected(100 + i, event) for i, event in enumerate(events)]
    assert _typed(case.file.read(body, codec)) == _typed(expected)


def _typed(rows: Sequence[Any]) -> list[dict[str, tuple[str, object]]]:
    return [{k: (type(v).__name__, v) for k, v in sorted(row.items())} for row in rows]


def test_no_decoder_format_or_codec_is_left_out() -> None:
    assert set(WAYS) == set(DECODERS)
    assert set(FILES) == set(FORMATS)
    assert {codec for file in FILES.values() for codec in file.codecs} == set(Codec)
    assert {(case.decoder, case.format) for case in LANDED} >= {
        (decoder, format_)
        for decoder in DECODERS
        for format_ in ("Text", "SequenceFile", "Parquet", "Orc")
    }
    assert {case.decoder for case in LANDED if case.mode == OWN} == {"Avro", "Protobuf", "Thrift"}


@pytest.mark.parametrize("case", LANDED, ids=str)
def test_what_is_written_is_read_with_every_codec(case: Case) -> None:
    for codec in case.file.codecs:
        check(case, codec, EVENTS, chunk=2)


@pytest.mark.parametrize("format_", FORMATS)
def test_a_codec_that_a_format_has_not_is_refused(format_: str) -> None:
    case = next(case for case in LANDED if case.format == format_)
    for codec in set(Codec) - set(FILES[format_].codecs):
        with pytest.raises(Stalled, match=f"codec: must be .*, got '{codec}'"):
            pipeline(group(**case.spec(codec)).spec)


@pytest.mark.parametrize("case", [case for case in ALL if case.refusal], ids=str)
def test_what_does_not_fit_together_is_refused(case: Case) -> None:
    with pytest.raises(Stalled) as refused:
        pipeline(group(**case.spec(case.file.codecs[0])).spec)

    assert case.refusal in str(refused.value)


TEXTS = st.text(
    st.characters(codec="utf-8", exclude_categories=["Cc", "Cs"], exclude_characters='|,"'),
    max_size=20,
)
AMOUNTS = st.floats(allow_nan=False, allow_infinity=False).filter(
    lambda number: math.copysign(1, number) > 0 or number != 0
)
DRAWN = st.fixed_dictionaries(
    dict(zip(NAMES, (st.integers(-(2**63), 2**63 - 1), TEXTS, AMOUNTS, st.booleans()), strict=True))
)


@settings(max_examples=share(150))
@given(
    case=st.sampled_from(LANDED),
    place=st.integers(0, 3),
    events=st.lists(DRAWN, min_size=1, max_size=8),
    chunk=st.integers(1, 8),
)
def test_any_event_is_what_it_was(case: Case, place: int, events: list[Event], chunk: int) -> None:
    codecs = case.file.codecs
    check(case, codecs[place % len(codecs)], events, chunk)
