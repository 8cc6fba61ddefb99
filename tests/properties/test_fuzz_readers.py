"""Damaged ledgers, snapshots, specs and objects are refused with a message, never with a crash."""

import io
import json
from collections.abc import Callable
from copy import deepcopy
from functools import reduce
from typing import Any, BinaryIO

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from landfall import ledger
from landfall.api.group_file import expand
from landfall.api.spec import GroupSpec, Output, parse_group
from landfall.checks import Finding
from landfall.checks.chain import Chain
from landfall.errors import Reason, Stalled
from landfall.formats import Block, Format
from landfall.lane import Lane
from landfall.ledger import State
from landfall.ledger.offsets import TopicPartition
from landfall.ledger.snapshot import decode_state, encode_state
from landfall.pipeline.records import filled
from landfall.registry import check_spec, output_format
from landfall.store.memory import MemoryStore
from landfall_audit.objects import rows as auditor_rows
from tests.support.audit.audited_spec import for_auditor
from tests.support.examples import share
from tests.support.ledger.sample_ledger import GROUP, LANE, SampleLedger, bodies, slot_keys

TP = TopicPartition("clicks", 0)
ANYTHING = st.recursive(
    st.one_of(
        st.none(),
        st.booleans(),
        st.integers(),
        st.floats(),
        st.text(max_size=10),
        st.sampled_from(
            [
                "1h",
                "5Mi",
                "{topic}",
                "dt={date}",
                "(",
                "(?P<x>a+)+$",
                "s3://",
                "../..",
                "2**63",
                "UTC",
                "\ud800",
                "Nul\x00",
            ]
        ),
    ),
    lambda inner: st.one_of(
        st.lists(inner, max_size=3), st.dictionaries(st.text(max_size=8), inner, max_size=3)
    ),
    max_leaves=6,
)


def refusal(do: Callable[[], object], *kinds: type[Exception]) -> Exception | None:
    """Return the error that it raised, if any."""
    try:
        do()
    except kinds as refused:
        return refused
    return None


def changed(document: Any, path: list[int], value: object) -> Any:
    """Return the document with another value at the place that these numbers lead to."""
    found = deepcopy(document)
    at = found
    for step in path:
        keys = list(at) if isinstance(at, dict) else range(len(at))
        if not keys:
            break
        key = keys[step % len(keys)]
        if isinstance(at[key], dict | list) and at[key] and step % 3:
            at = at[key]
        else:
            at[key] = value
            break
    return found


PLACES = st.lists(st.integers(0, 10**6), min_size=4, max_size=10)

# ----------------------------------------------------------------------------------------- the spec

FULL: dict[str, Any] = {
    "apiVersion": "landfall.dev/v1alpha1",
    "kind": "ConsumerGroup",
    "metadata": {"name": "fuzz", "namespace": "here"},
    "spec": {
        "generation": 3,
        "source": {
            "kafka": {
                "bootstrapServers": "kafka:9092",
                "topicPattern": "app.*",
                "exclude": "x",
                "startingOffsets": {"offsets": {"app": {"0": 42}}},
                "properties": {"security.protocol": "SSL"},
                "propertiesSecretRef": {"name": "auth"},
                "discoveryInterval": "30s",
            }
        },
        "decode": {
            "format": "Json",
            "timestamp": {
                "field": "meta.ts",
                "unit": "Custom",
                "format": "%Y",
                "timezone": "Asia/Gaza",
            },
            "columns": [{"name": "c", "type": "Date", "field": "x.y", "nullable": False}],
            "options": {},
        },
        "transforms": [{"use": "mine.here:Step", "options": {"a": 1}}],
        "route": {"pattern": "dt={date}/{field:c}", "timezone": "UTC"},
        "output": {
            "url": "s3://logs/parsed",
            "format": "Parquet",
            "codec": "Zstd",
            "options": {"rowGroupBytes": "8Mi"},
            "s3": {
                "endpoint": "http://s3:9000",
                "partBytes": "5Mi",
                "sse": {"type": "aws:kms", "kmsKeyId": "k"},
            },
        },
        "uploadPolicy": {
            "maxBytes": "256Mi",
            "maxAge": "5m",
            "overrides": [{"topics": "a.*", "maxAge": "1m"}],
        },
        "badRecords": {"policy": "DeadLetter", "maxRatio": "0.001"},
        "autoscaling": {"minReplicas": 1, "maxReplicas": 20, "targetLag": "2m"},
        "upgrade": {"strategy": "HandOver", "drainTimeout": "10m", "rollback": {"window": "2h"}},
        "tuning": {"pollInterval": "1s", "sparkConf": {"a": "b"}},
    },
}


@settings(max_examples=share(250))
@given(path=PLACES, value=ANYTHING)
def test_a_spec_is_good_or_refused_with_a_message(path: list[int], value: object) -> None:
    document = changed(FULL, path, value)

    refused = refusal(lambda: check_spec(parse_group(expand(document, {}))), Stalled)

    assert refused is None or (str(refused) and refused.args)
    assert getattr(refused, "reason", Reason.SPEC_INVALID) is Reason.SPEC_INVALID


@given(ANYTHING)
def test_any_document_is_a_group_or_refused_with_a_message(document: object) -> None:
    with pytest.raises(Stalled):
        parse_group(document)


# --------------------------------------------------------------------------------------- the ledger


def chain() -> list[bytes]:
    """Return one record of each kind that a lane writes."""
    book = SampleLedger().open().add(TP)
    book.commit(book.land(TP, 0, 10)).applied().open(generation=2)
    book.commit(book.land(TP, 10, 30)).applied()
    return bodies(book.store)


CHAIN = chain()
KEYS = slot_keys(CHAIN)


@settings(max_examples=share(300))
@given(
    slot=st.integers(0, len(CHAIN) - 1),
    path=PLACES,
    value=ANYTHING,
    noise=st.one_of(st.none(), st.binary(max_size=30)),
)
def test_a_slot_is_folded_or_refused_with_a_message(
    slot: int, path: list[int], value: object, noise: bytes | None
) -> None:
    """A lane's reader and the check of fsck accept the same records; otherwise one has a gap."""
    body = (
        noise
        if noise is not None
        else json.dumps(changed(json.loads(CHAIN[slot]), path, value)).encode()
    )
    store = MemoryStore()
    for seq, sound in enumerate(CHAIN[: slot + 1]):
        store.create(KEYS[seq], body if seq == slot else sound)

    refused = refusal(Lane(store, GROUP, LANE).read, Stalled)
    checked = Chain(GROUP)
    *_, found = [checked.append(each) for each in (*CHAIN[:slot], body)]

    assert getattr(refused, "reason", Reason.LEDGER_BROKEN) is Reason.LEDGER_BROKEN
    if refused:
        assert isinstance(found, Finding)
    elif not isinstance(found, Finding):
        assert checked.state == Lane(store, GROUP, LANE).read()


SNAPSHOT = encode_state(reduce(ledger.fold, CHAIN, State()))


@given(
    hint=st.one_of(st.binary(max_size=30), ANYTHING.map(lambda v: json.dumps({"seq": v}).encode()))
)
def test_a_damaged_hint_does_not_change_what_is_read(hint: bytes) -> None:
    store = MemoryStore()
    for key, body in zip(KEYS, CHAIN, strict=True):
        store.create(key, body)
    sound = Lane(store, GROUP, LANE).read()
    store.overwrite(f"_landfall/{GROUP}/{LANE}-head.json", hint)

    assert Lane(store, GROUP, LANE).read() == sound


@given(path=PLACES, value=ANYTHING, noise=st.one_of(st.none(), st.binary(max_size=30)))
def test_a_snapshot_is_read_or_refused_with_a_message(
    path: list[int], value: object, noise: bytes | None
) -> None:
    body = (
        noise
        if noise is not None
        else json.dumps(changed(json.loads(SNAPSHOT), path, value)).encode()
    )

    refused = refusal(lambda: decode_state(body), Stalled, ValueError)

    assert refused is None or str(refused)


# ------------------------------------------------------------------------------------------ objects

OUTPUTS: dict[str, dict[str, Any]] = {
    "json": {"format": "Json"},
    "zstd": {"format": "Text", "codec": "Zstd"},
    "sequence": {"format": "SequenceFile"},
    "records": {
        "format": "SequenceFile",
        "options": {"compression": "Record", "keyMode": "MessagePack"},
    },
    "plain": {"format": "SequenceFile", "codec": "None", "options": {"compression": "None"}},
    "parquet": {"format": "Parquet"},
}


def written(name: str) -> tuple[Format, bytes]:
    format_ = output_format(Output.model_validate({"url": "file:///-", **OUTPUTS[name]}))
    encoder = format_.encoder()
    rows = filled(TP, list(range(50)), [b'{"n": %d}' % n for n in range(50)])
    return format_, encoder.encode(Block(rows)) + encoder.finish()


def stream_of(body: bytes) -> BinaryIO:
    """Return a stream that, like a file, allocates everything a read asks for at once."""
    return io.BufferedReader(io.BytesIO(body))  # type: ignore[arg-type]  # BytesIO suffices


WRITTEN = {name: written(name) for name in OUTPUTS}


@settings(max_examples=share(300))
@given(
    name=st.sampled_from(sorted(OUTPUTS)),
    at=st.floats(0, 1, exclude_max=True),
    noise=st.binary(max_size=8),
    cut=st.booleans(),
)
def test_a_damaged_object_is_detected_and_never_gives_more_rows(
    name: str, at: float, noise: bytes, cut: bool
) -> None:
    format_, sound = WRITTEN[name]
    place = int(at * len(sound))
    body = sound[:place] + noise + (b"" if cut else sound[place + len(noise) :])

    found: list[object] = []

    damage = refusal(lambda: found.extend(format_.rows(stream_of(body))), ValueError)

    output = {"url": "file:///-", **OUTPUTS[name]}
    spec = GroupSpec.model_validate(
        {"source": FULL["spec"]["source"], "decode": {"format": "Json"}, "output": output}
    )
    read = auditor_rows.read(auditor_rows.rows_of(for_auditor(spec)), stream_of(body))

    assert damage is None or str(damage)
    assert len(found) <= 100
    assert len(read.hashes) <= 100
