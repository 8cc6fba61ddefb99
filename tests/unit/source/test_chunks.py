"""Where a chunk ends: by all bytes of its records, or by payloads where the first rules apply."""

from collections.abc import Sequence

import numpy as np
import pyarrow as pa
import pytest
from confluent_kafka import Message

from landfall.landed import merging
from landfall.landed.rows import ROWS
from landfall.ledger.task_results import LandingRules
from landfall.pipeline.records import HEADERS
from landfall.source import messages
from landfall.source.messages import Messages, PythonFetched

Headers = list[tuple[str, bytes | None]]


def fetched(count: int, payload: int, key: int | None, headers: Headers) -> Messages:
    found = [
        Message(
            topic="t",
            partition=0,
            offset=offset,
            value=b"x" * payload,
            key=None if key is None else b"k" * key,
            headers=headers or None,
        )
        for offset in range(count)
    ]
    return Messages.of(PythonFetched.of(found))


def landed(count: int, payload: int, key: int | None, headers: Headers) -> pa.Table:
    columns = {
        "offset": np.arange(count),
        "timestamp": np.arange(count),
        "key": pa.array([None if key is None else b"k" * key] * count, pa.binary()),
        "value": pa.array([b"x" * payload] * count, pa.binary()),
        "headers": pa.array([headers] * count, HEADERS),
    }
    return pa.table(columns, schema=ROWS)


def lengths(chunks: Sequence[object]) -> list[int]:
    return [len(chunk) for chunk in chunks]  # type: ignore[arg-type]  # messages or tables


@pytest.mark.parametrize(
    ("payload", "key", "headers", "all_bytes", "payloads"),
    [
        (100, None, [], [10, 10, 5], [10, 10, 5]),
        (10, 90, [], [10, 10, 5], [25]),
        (10, 0, [("h\u00e9", b"x" * 87)], [10, 10, 5], [25]),
        (10, None, [("none", None), ("none", b""), ("h", b"x" * 81)], [10, 10, 5], [25]),
        (0, 500, [("h", b"x" * 499)], [1] * 25, [25]),
    ],
)
def test_keys_and_headers_count(
    payload: int, key: int | None, headers: Headers, all_bytes: list[int], payloads: list[int]
) -> None:
    for rules, expected in (
        (LandingRules.ALL_BYTES, all_bytes),
        (LandingRules.PAYLOADS, payloads),
    ):
        of_kafka = messages.chunks([fetched(25, payload, key, headers)], 1_000, 1_000, rules)
        of_objects = merging.chunks([landed(25, payload, key, headers)], 1_000, 1_000, rules)

        assert lengths([*of_kafka]) == expected
        assert lengths([*of_objects]) == expected


def test_headers_are_read_once_of_each_message() -> None:
    some = fetched(3, 1, None, [("h", b"1")])

    assert [*some[1:].found.headers(), *some[:1].found.headers()] == 3 * [[("h", b"1")]]
    assert (some + some).found.headers() == 6 * [[("h", b"1")]]
