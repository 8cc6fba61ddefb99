"""For any bytes decoders of binary formats do not raise, and treat each row independently.

The libraries of the formats are the truth: a row is decoded exactly if they read it.
"""

import base64
import math
from datetime import UTC, datetime

import msgpack
import orjson
from hypothesis import assume, given
from hypothesis import strategies as st

from landfall.ledger.offsets import TopicPartition
from landfall.pipeline.decoders import Decoded, Decoder, Wanted
from landfall.pipeline.decoders.messagepack import MessagePackDecoder
from landfall.pipeline.decoders.typed_columns import schema_of
from landfall.pipeline.records import filled
from tests.support.payloads.damage import damaged
from tests.support.payloads.declared import columns_of_every_type
from tests.support.payloads.decoded import as_list, results


def decode(decoder: Decoder, values: list[bytes | None]) -> Decoded:
    return decoder.decode(filled(TopicPartition("t", 0), range(len(values)), values))


# -------------------------------------------------------------------------------------- MessagePack

NAMES = st.sampled_from(["a", "b", "m", "é"])
SCALARS = st.one_of(
    st.none(),
    st.booleans(),
    st.integers(-5, 5),
    st.integers(-(2**63), 2**64 - 1),
    st.floats(),
    st.text(max_size=8),
    st.binary(max_size=8),
    st.datetimes(timezones=st.just(UTC)),
)
MAPS = st.dictionaries(
    NAMES,
    st.recursive(
        SCALARS,
        lambda inner: st.one_of(st.dictionaries(NAMES, inner), st.lists(inner, max_size=3)),
        max_leaves=6,
    ),
)
SCHEMA = schema_of(columns_of_every_type("abm"))
FIELDS = (("a",), ("m", "a"), ("b",))
MESSAGEPACK: list[Decoder] = [
    MessagePackDecoder.of({}, Wanted()),
    MessagePackDecoder.of({}, Wanted(FIELDS)),
    MessagePackDecoder.of({}, Wanted((*FIELDS, ("\n",)))),
    MessagePackDecoder.of({}, Wanted((*FIELDS, ("m",)), SCHEMA)),
    MessagePackDecoder.of({}, Wanted(FIELDS, json=True)),
]


def pack(value: object) -> bytes:
    packed: bytes = msgpack.packb(value, datetime=True)
    return packed


@given(st.sampled_from(MESSAGEPACK), st.lists(damaged(MAPS.map(pack)), min_size=1, max_size=8))
def test_a_messagepack_row_is_returned_once_and_independently_of_the_others(
    decoder: Decoder, values: list[bytes | None]
) -> None:
    together = decode(decoder, values)

    assert len(together.records) + len(together.bad) == len(values)
    assert results(together) == {
        row: results(decode(decoder, [value]))[0] for row, value in enumerate(values)
    }


class Pairs(list[object]):
    """What a map is read as, so that its keys may be of any type."""


def _is_map(value: bytes | None) -> bool:
    try:
        # Text that nobody reads is not checked, hence the handler of errors.
        found = value and msgpack.unpackb(
            value, strict_map_key=False, unicode_errors="surrogateescape", object_pairs_hook=Pairs
        )
    except (ValueError, msgpack.UnpackException) as error:
        # This parser looks into timestamps, the decoder only into those that it is to read.
        assume("nanoseconds" not in str(error) and "Timestamp" not in str(error))
        return False
    return value is None or isinstance(found, Pairs)


@given(st.lists(damaged(MAPS.map(pack)), min_size=1, max_size=8))
def test_messagepack_is_decoded_if_another_parser_reads_a_map(values: list[bytes | None]) -> None:
    got = decode(MESSAGEPACK[0], values)

    assert got.records.offsets.tolist() == [
        row for row, value in enumerate(values) if _is_map(value)
    ]


def _json_of(value: object) -> object:
    match value:
        case bytes():
            return base64.b64encode(value).decode()
        case datetime():
            return value.isoformat().replace("+00:00", "Z")
        case dict():
            return {key: _json_of(inner) for key, inner in value.items()}
        case list():
            return [_json_of(inner) for inner in value]
        case _:
            return value


def _is_finite(value: object) -> bool:
    match value:
        case float():
            return math.isfinite(value)
        case dict():
            return all(map(_is_finite, value.values()))
        case list():
            return all(map(_is_finite, value))
        case _:
            return True


@given(st.lists(MAPS, min_size=1, max_size=8))
def test_messagepack_as_json_holds_what_was_packed(rows: list[dict[str, object]]) -> None:
    got = decode(MESSAGEPACK[4], [pack(row) for row in rows])

    good = [row for row in rows if _is_finite(row)]
    assert [orjson.loads(value) for value in got.records.values.to_pylist()] == [
        _json_of(row) for row in good
    ]
    assert as_list(got.fields["a",]) == [
        _json_of(row.get("a")) if not isinstance(row.get("a"), dict | list) else row.get("a")
        for row in good
    ]
