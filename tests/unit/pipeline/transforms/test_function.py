"""Steps that are functions of the user's, on Arrow batches."""

from collections.abc import Mapping
from itertools import pairwise
from typing import Any

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc
import pytest
from hypothesis import given
from hypothesis import strategies as st

from landfall.pipeline.decoders import Decoded
from tests.support.driver.transformed import Group, payloads, spec_error

HERE = "tests.unit.pipeline.transforms.test_function"


def half(batch: pa.RecordBatch, column: str = "n") -> pa.RecordBatch:
    """Leave out odd numbers, reject those above 10, halve the others, and add a column."""
    batch = batch.filter(pc.equal(pc.bit_wise_and(batch.column(column), 1), 0))
    numbers = batch.column(column)
    error = pc.if_else(pc.greater(numbers, 10), "too large", pa.scalar(None, pa.string()))
    batch = batch.append_column("half", pc.divide(numbers, 2)).append_column("_error", error)
    return batch.drop_columns(["other"]) if "other" in batch.schema.names else batch


def upper(batch: pa.RecordBatch) -> pa.RecordBatch:
    return with_values(batch, [None if v is None else v.upper() for v in values(batch)])


def broken_json(batch: pa.RecordBatch) -> pa.RecordBatch:
    return with_values(batch, [v and v[:-1] if b"cut" in v else v for v in values(batch)])


def values(batch: pa.RecordBatch) -> list[Any]:
    found: list[Any] = batch.column("value").to_pylist()
    return found


def with_values(batch: pa.RecordBatch, payloads: list[Any]) -> pa.RecordBatch:
    return pa.RecordBatch.from_arrays(
        [pa.array(payloads, pa.binary()), batch.column("_row")], ["value", "_row"]
    )


def pick(batch: pa.RecordBatch, rows: str) -> pa.RecordBatch:
    """Take these rows of a full batch; the batch of no rows stays."""
    return batch.take(pa.array([int(row) for row in rows.split()])) if len(batch) else batch


def no_row(batch: pa.RecordBatch) -> pa.RecordBatch:
    return batch.drop_columns(["_row"])


def untyped(batch: pa.RecordBatch) -> pa.RecordBatch:
    return batch.append_column("x", pa.array([None] * len(batch)))


def moody(batch: pa.RecordBatch) -> pa.RecordBatch:
    kind = pa.string() if len(batch) else pa.int64()
    return batch.append_column("x", pa.nulls(len(batch), kind))


def a_table(batch: pa.RecordBatch) -> Any:
    return pa.table(batch)


def fails(batch: pa.RecordBatch) -> pa.RecordBatch:
    raise RuntimeError(f"no {len(batch)}")


def columns(decoded: Decoded) -> Any:
    assert decoded.columns is not None
    return decoded.columns.to_pylist()


def step(name: str, **options: object) -> Mapping[str, object]:
    return {"use": f"{HERE}:{name}", "options": options}


NUMBERS = {"n": "Int64", "other": "String"}


def test_rows_continue_are_left_out_or_rejected() -> None:
    group = Group([step("half", column="n")], NUMBERS)

    decoded = group.apply({"n": 4}, {"n": 3}, {"n": 12}, {"n": 2})

    assert columns(decoded) == [{"n": 4, "half": 2}, {"n": 2, "half": 1}]
    assert decoded.filtered == 1
    assert (decoded.bad.rows.tolist(), decoded.bad.errors) == ([2], ["half: too large"])
    assert decoded.records.offsets.tolist() == [100, 103]


def test_later_steps_and_the_route_see_what_it_returned() -> None:
    group = Group(
        [step("half"), {"use": "Filter", "options": {"where": "half >= 2"}}],
        NUMBERS,
        {"route__pattern": "{field:half}"},
    )

    outputs = group.partition({"n": 4}, {"n": 2}, {"n": 8}).outputs

    assert [partition for partition, _ in outputs] == ["2", "4"]


def test_the_event_time_stays_that_of_the_payload() -> None:
    columns = {"n": "Int64", "other": "String", "at": "Timestamp"}
    spec = {
        "decode__timestamp": {"field": "at", "unit": "Seconds"},
        "route__pattern": "dt={date}/{field:n}",
    }

    outputs = Group([step("half")], columns, spec).partition({"n": 4, "at": 86_400}).outputs

    assert [partition for partition, _ in outputs] == ["dt=1970-01-02/4"]


def test_without_columns_it_changes_json_payloads() -> None:
    group = Group([step("upper")], spec={"route__pattern": "{field:A}"})

    decoded = group.apply({"a": "x"}, None)
    outputs = group.partition({"a": "x"}).outputs

    assert payloads(decoded) == [b'{"A": "X"}', None]
    assert [partition for partition, _ in outputs] == ["X"]


def test_a_payload_that_is_no_object_any_more_is_rejected() -> None:
    chunk = Group([step("broken_json")]).partition({"a": 1}, {"a": "cut"}, {"a": 2})

    assert [(bad.row, bad.stage) for bad in chunk.bad] == [(1, "transform")]
    assert chunk.bad[0].error.startswith("not a JSON object: ")
    assert sum(len(rows) for _, rows in chunk.outputs) == 2


@pytest.mark.parametrize("rows", ["1 0", "0 0", "0 2 1"])
def test_rows_that_are_moved_or_repeated_fail_the_slice(rows: str) -> None:
    group = Group([step("pick", rows=rows)], NUMBERS)

    with pytest.raises(TypeError, match="pick moved, repeated or made rows"):
        group.apply({"n": 1}, {"n": 2}, {"n": 3})


def test_another_schema_than_for_no_rows_fails_the_slice() -> None:
    with pytest.raises(TypeError, match="moody returned other columns than for no rows"):
        Group([step("moody")], NUMBERS).apply({"n": 1})


@pytest.mark.parametrize(
    ("name", "options", "message"),
    [
        ("half", {"colum": "n"}, "options: got an unexpected keyword argument 'colum'"),
        ("half", {"column": "m"}, ": half fails for no rows: KeyError"),
        ("fails", {}, ": fails fails for no rows: RuntimeError: no 0"),
        ("no_row", {}, ": no_row fails for no rows: TypeError: no_row returned the columns n, oth"),
        ("untyped", {}, ": untyped: column x has no type; give pa.array a type"),
        (
            "a_table",
            {},
            ": a_table fails for no rows: TypeError: a_table returned Table and no Rec",
        ),
    ],
)
def test_a_function_that_cannot_work_is_refused(
    name: str, options: Mapping[str, object], message: str
) -> None:
    error = spec_error(f"{HERE}:{name}", options, NUMBERS)

    assert error.startswith("spec.transforms[0]")
    assert message in error


def test_without_columns_it_must_return_payloads_alone() -> None:
    error = spec_error(f"{HERE}:moody", {})

    assert "moody must return the column value, of the type binary, alone" in error


def test_the_example_adds_a_column() -> None:
    group = Group(
        [{"use": "examples.plugins.domains:mail_domain", "options": {"field": "mail"}}],
        {"mail": "String"},
    )

    decoded = group.apply({"mail": "ann@example.com"}, {"mail": "nobody"}, {})

    assert columns(decoded) == [{"mail": "ann@example.com", "domain": "example.com"}]
    assert decoded.bad.errors == ["mail_domain: no mail address"]
    assert decoded.filtered == 1


@given(numbers=st.lists(st.integers(0, 20), max_size=30), cuts=st.sets(st.integers(0, 30)))
def test_the_result_does_not_depend_on_how_rows_are_cut_into_batches(
    numbers: list[int], cuts: set[int]
) -> None:
    group = Group([step("half")], NUMBERS)
    bounds = sorted({0, len(numbers), *(cut for cut in cuts if cut < len(numbers))})
    given_numbers = [{"n": n} for n in numbers]

    whole = group.apply(*given_numbers)
    parts = [group.apply(*given_numbers[a:b]) for a, b in pairwise(bounds)] or [whole]

    assert columns(whole) == [row for part in parts for row in columns(part)]
    assert whole.filtered == sum(part.filtered for part in parts)
    kept = np.array([n % 2 == 0 and n <= 10 for n in numbers], np.bool_)
    assert columns(whole) == [
        {"n": n, "half": n // 2} for n, k in zip(numbers, kept, strict=True) if k
    ]
