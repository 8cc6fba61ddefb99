"""A few cases of each fuzzer of ``tests.fuzz``, always the same ones; ``make fuzz`` runs others."""

import re
from typing import Any

import numpy as np
import pytest

from landfall.pipeline.decoders import csv, json, messagepack
from landfall.pipeline.decoders.avro import blocks, nested, plan, scalars
from landfall.pipeline.decoders.csv import Dialect
from landfall.pipeline.decoders.protobuf import batches, whole
from landfall.pipeline.decoders.protobuf.reading import MessageType, Types
from landfall.pipeline.decoders.thrift import own, protocols
from tests.fuzz import DECODERS
from tests.fuzz.__main__ import differs


@pytest.mark.parametrize("decoder", DECODERS)
@pytest.mark.parametrize("seed", [1, 2])
def test_decoders_agree_with_their_references(
    decoder: str, seed: int, capsys: pytest.CaptureFixture[str]
) -> None:
    cases = 150 if decoder == "protobuf" else 40
    assert not differs(decoder, seed, cases), capsys.readouterr().out


@pytest.mark.rest
@pytest.mark.parametrize(
    ("broken", "name", "made"),
    [
        (batches, "refusal", lambda _: None),
        (whole, "unknown_numbers", lambda column, _: np.zeros(len(column), np.bool_)),
        (MessageType, "_bad_text", lambda _self, _message: None),
        (Types, "_parser_of_entries", lambda _self, _descriptor: None),
    ],
    ids=["admission", "closed enums", "text", "entries of maps"],
)
def test_the_fuzzer_of_protobuf_finds_what_was_wrong(
    broken: Any, name: str, made: Any, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(broken, name, made)

    assert any(differs("protobuf", seed, 100, shrinks=False) for seed in range(1, 30))


@pytest.mark.rest
@pytest.mark.parametrize(
    ("decoder", "broken", "name", "made"),
    [
        ("thrift", protocols, "MAX_DEPTH", 2),
        ("thrift", own, "_scalar", lambda value, _type: value),
        ("messagepack", messagepack, "with_cut_times", lambda payloads: payloads),
        ("messagepack", messagepack, "_MAYBE_NOT_FINITE", re.compile(b"never")),
        ("texts", Dialect, "split", lambda _self, text: text.split(",")),
        ("texts", csv, "without_line_break", lambda column: column),
        ("json", json, "without_half_pairs", lambda body: body),
    ],
)
def test_the_other_fuzzers_find_what_is_wrong(
    decoder: str, broken: Any, name: str, made: Any, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(broken, name, made)

    assert any(differs(decoder, seed, 40, shrinks=False) for seed in range(1, 30))


@pytest.mark.rest
@pytest.mark.parametrize(
    ("broken", "name", "made"),
    [
        (nested, "last_values", lambda maps: maps),
        (scalars, "_UUID", ".*"),
        (scalars, "_DAY", {}),
        (plan, "_source", lambda places, of: places.get(of.name)),
        (blocks, "_numbered", lambda counts: np.zeros(int(counts.sum()), np.int64)),
    ],
    ids=["keys that come twice", "UUIDs", "times of day", "aliases", "items of blocks"],
)
def test_the_fuzzer_of_avro_finds_what_is_wrong(
    broken: Any, name: str, made: Any, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(broken, name, made)

    assert any(differs("avro", seed, 100, shrinks=False) for seed in range(1, 30))
