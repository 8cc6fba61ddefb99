"""What ``landfall try`` shows is what a task does."""

from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from landfall.task.partitioning import Partitioner
from landfall.task.trial import Fate, Trial, trials
from tests.support.driver.slice_landing import TP, group, records_of
from tests.support.payloads.avro import encoded
from tests.support.payloads.own_schemas import V1, fixed

COLUMNS = [{"name": "n", "type": "Float64"}, {"name": "mail", "type": "String"}]
SPECS: list[dict[str, Any]] = [
    {"transforms": [{"use": "Filter", "options": {"drop": "n == 1"}}]},
    {
        "transforms": [
            {"use": "Filter", "options": {"where": "n > 1"}},
            {"use": "Mask", "options": {"fields": ["mail"], "kind": "Mail"}},
            {"use": "Cast", "options": {"mail": "String"}},
        ],
        "route": {"pattern": "dt={date}/{field:mail}"},
    },
    {
        "decode": {"format": "Json", "timestamp": {"field": "ts"}, "columns": COLUMNS},
        "transforms": [{"use": "Mask", "options": {"fields": ["mail"], "kind": "Mail"}}],
        "route": {"pattern": "{field:mail}"},
    },
    {
        "decode": {"format": "Json"},
        "output": {"url": "s3://bucket/root", "format": "Text", "options": {"delimiter": "1"}},
    },
]
PAYLOADS = st.one_of(
    st.none(),
    st.binary(max_size=3),
    st.builds(
        lambda ts, n, mail: b'{"ts":%b,"n":%b,"mail":%b}' % (ts, n, mail),
        st.sampled_from([b"0", b'"x"', b"1763697600000"]),
        st.sampled_from([b"1", b"2", b"1e999", b'"x"', b"null"]),
        st.sampled_from([b'"ann@x"', b'"b"', b"{}", b"null", b"1"]),
    ),
)


@given(spec=st.sampled_from(SPECS), payloads=st.lists(PAYLOADS, min_size=1, max_size=8))
def test_every_record_has_the_fate_that_a_task_gives_it(
    spec: dict[str, Any], payloads: list[bytes | None]
) -> None:
    made = group(**spec).spec
    partitioner, offsets = Partitioner.of(made), list(range(100, 100 + len(payloads)))
    chunk = partitioner.partition(records_of(TP, offsets, payloads))

    tried = trials(partitioner, made, records_of(TP, offsets, payloads))

    landed = {(100 + t.row, t.detail): t.seen[-1].payload for t in tried if t.fate is Fate.LANDS}
    assert landed == {
        (offset, partition): value
        for partition, rows in chunk.outputs
        for offset, value in zip(
            rows.column("offset").to_pylist(), rows.column("value").to_pylist(), strict=True
        )
    }
    assert [(t.row, t.stage, t.detail) for t in tried if t.fate is Fate.DEAD_LETTER] == [
        (bad.row, bad.stage, bad.error) for bad in chunk.bad
    ]
    assert sum(t.fate is Fate.LEFT_OUT for t in tried) == chunk.filtered


def tried(spec: dict[str, Any], *payloads: bytes | None) -> list[Trial]:
    made = group(**spec).spec
    records = records_of(TP, list(range(len(payloads))), payloads)
    return trials(Partitioner.of(made), made, records)


def test_each_stage_shows_what_it_made_of_the_record() -> None:
    (trial,) = tried(SPECS[1], b'{"ts":0,"n":2,"mail":"ann@x"}')

    assert [(seen.stage, seen.payload) for seen in trial.seen] == [
        ("decode", b'{"ts":0,"n":2,"mail":"ann@x"}'),
        ("transforms[0] Filter", b'{"ts":0,"n":2,"mail":"ann@x"}'),
        ("transforms[1] Mask", b'{"ts":0,"n":2,"mail":"***@x"}'),
        ("transforms[2] Cast", b'{"ts":0,"n":2,"mail":"***@x"}'),
    ]
    assert trial.seen[0].fields["n"] == 2
    assert trial.detail == "dt=1970-01-01/%2A%2A%2A%40x"


def test_typed_columns_are_shown_and_the_payload_that_is_made_of_them() -> None:
    (trial,) = tried(SPECS[2], b'{"ts":0,"n":2,"mail":"ann@x"}')

    assert [(seen.stage, seen.columns) for seen in trial.seen] == [
        ("decode", {"n": 2.0, "mail": "ann@x"}),
        ("transforms[0] Mask", {"n": 2.0, "mail": "***@x"}),
        ("payload", {"n": 2.0, "mail": "***@x"}),
    ]
    assert trial.seen[-1].payload == b'{"n":2.0,"mail":"***@x"}'


@pytest.mark.parametrize(
    ("payload", "fate", "stage"),
    [
        (b"no JSON", Fate.DEAD_LETTER, "decode"),
        (b'{"ts":0,"n":1}', Fate.LEFT_OUT, "transforms[0] Filter"),
        (b'{"ts":"x","n":2}', Fate.DEAD_LETTER, "route"),
        (b'{"ts":0,"n":2}', Fate.LANDS, ""),
    ],
)
def test_the_stage_that_ends_a_record_is_named(payload: bytes, fate: Fate, stage: str) -> None:
    (trial,) = tried(SPECS[1], payload)

    assert (trial.fate, trial.stage) == (fate, stage)


def test_columns_of_the_payloads_own_schema_are_shown() -> None:
    spec = {**fixed(V1), "route": {"pattern": "{schema:name}"}}

    good, bad = tried(spec, encoded(V1, {"id": 7, "who": "ann", "tags": ["a"]}), b"x")

    assert good.detail == "shop.Order"
    assert good.seen[0].columns == {"id": 7, "who": "ann", "tags": ["a"]}
    assert good.seen[0].fields == {"schema:name": "shop.Order"}
    assert bad.fate is Fate.DEAD_LETTER
