"""Payloads that are made to break a worker, large ones too: see ``tests.fuzz.hostile``.

``tests/properties/test_fuzz_decoders.py`` plays random ones.
"""

from typing import Any

import pytest

from landfall.pipeline.decoders import csv
from landfall.pipeline.decoders.avro import nested
from landfall.pipeline.decoders.thrift import protocols
from tests.fuzz import hostile
from tests.fuzz.hostile import FORMATS, OUTPUTS, Case, check, profile

LARGE = 20_000


@pytest.mark.parametrize("format_", FORMATS)
def test_what_a_payload_claims_costs_nothing(format_: str) -> None:
    for payload in profile(format_, LARGE).hostile.values():
        for output in OUTPUTS:
            check(Case(format_, output, (payload,)))


@pytest.mark.parametrize("format_", FORMATS)
def test_one_chunk_with_all_of_them_loses_no_row(format_: str) -> None:
    of = profile(format_, 300)

    check(Case(format_, "Parquet", (*of.hostile.values(), None, b"")))


def _fails(_: object) -> None:
    raise RecursionError("a bug")


def fails(format_: str, repeated: int, *names: str) -> bool:
    """Whether a check fails with a guard broken."""
    hostile._partitioner.cache_clear()
    of = profile(format_, repeated).hostile
    try:
        for name in names or of:
            check(Case(format_, "Json", (of[name],)))
    except AssertionError:
        return True
    return False


@pytest.mark.parametrize(
    ("format_", "broken", "name", "made"),
    [
        ("Thrift", protocols, "MAX_DEPTH", 10**9),
        ("Avro", nested, "MAX_LEVELS", 10**9),
        ("Csv", csv, "without_line_break", _fails),
    ],
)
def test_a_broken_guard_is_found(
    format_: str, broken: Any, name: str, made: Any, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(broken, name, made)

    assert fails(format_, 3_000)


@pytest.fixture(autouse=True)
def _decoders_of_this_test() -> Any:
    yield
    hostile._partitioner.cache_clear()
