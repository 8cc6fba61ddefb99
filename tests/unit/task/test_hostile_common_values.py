"""Hostile payloads of the decoders that ``decode.values: Common`` changes: none stops its slice."""

import pytest

from landfall.ledger.task_results import LandedSlice
from landfall.store.memory import MemoryStore
from tests.fuzz import hostile
from tests.support.driver.slice_landing import land_rows


@pytest.mark.parametrize("format_", ["Avro", "Protobuf", "MessagePack", "Thrift"])
@pytest.mark.parametrize("repeated", [500, 50_000])
@pytest.mark.parametrize("has_columns", [False, True])
def test_each_payload_is_a_record_or_a_dead_letter(
    format_: str, repeated: int, has_columns: bool
) -> None:
    of, decode = hostile.profile(format_, repeated), hostile.spec(format_)
    payloads = [each for bad in of.hostile.values() for each in (bad, of.sound[0])]
    decode |= {"values": "Common", "columns": decode["columns"] if has_columns else ()}

    result = land_rows(
        [(150 + number, payload) for number, payload in enumerate(payloads)],
        MemoryStore(),
        decode=decode,
        output={"url": "s3://b", "format": "Json"},
        route={"pattern": "{field:a}"},
        badRecords={"maxRatio": "1"},
    )

    assert isinstance(result, LandedSlice), result
    assert sum(each.rows for each in result.objects) == len(payloads)
