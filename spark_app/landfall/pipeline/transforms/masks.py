"""Evaluates conditions on rows, a column at a time.

A test on an absent or null value is false, so ``not`` of it is true: no row is ever left out only
because a value is missing, unless the condition asks for it. A value of another kind than the one
it is compared with (text with a number) is neither: the row is wrong, and ``Filter`` rejects it. A
typed column of another kind is an error of the group's spec.

Numbers are compared exactly, integers with fractions, too. Columns are compared by Arrow; values
that no Arrow type holds exactly are compared by Python, one by one, with the same result.
"""

import operator
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from math import ceil, floor
from types import NoneType
from typing import Any, TypeAlias

import numpy as np
import numpy.typing as npt
import pyarrow as pa
import pyarrow.compute as pc

from landfall.pipeline.decoders import Path
from landfall.pipeline.records import FieldValues
from landfall.pipeline.transforms.expression import (
    All,
    Condition,
    IsNull,
    Matches,
    Not,
    OneOf,
    Ordered,
    Some,
    Test,
    kind_of,
)

Mask: TypeAlias = npt.NDArray[np.bool_]
"""One boolean per row."""

_ORDERS: Mapping[str, Callable[[Any, Any], bool]] = {
    "<": operator.lt,
    "<=": operator.le,
    ">": operator.gt,
    ">=": operator.ge,
}
_ARROW_ORDERS: Mapping[str, Callable[[pa.Array, pa.Scalar], pa.BooleanArray]] = {
    "<": pc.less,
    "<=": pc.less_equal,
    ">": pc.greater,
    ">=": pc.greater_equal,
}
_KINDS: Mapping[type, str] = {
    str: "text",
    bool: "a boolean",
    int: "a number",
    float: "a number",
}
_INT64 = range(-(2**63), 2**63)


@dataclass(frozen=True)
class Typed:
    """A typed column, which has the same type in every batch."""

    array: pa.Array


Values: TypeAlias = FieldValues | Typed


@dataclass(frozen=True)
class Tested:
    """For which rows a condition holds, and which rows it cannot be asked about.

    Attributes:
        holds: shape (rows,); meaningless for wrong rows.
        wrong: what is wrong, by row.
    """

    holds: Mask
    wrong: Mapping[int, str]


def evaluate(condition: Condition, values_of: Callable[[Path], Values], rows: int) -> Tested:
    """Return for which rows the condition holds.

    Raises:
        ValueError: a typed column cannot be compared with the value next to it.
    """
    match condition:
        case Not():
            inner = evaluate(condition.condition, values_of, rows)
            return Tested(~inner.holds, inner.wrong)
        case All() | Some():
            parts = [evaluate(operand, values_of, rows) for operand in condition.conditions]
            join = np.logical_and if isinstance(condition, All) else np.logical_or
            wrong: dict[int, str] = {}
            for part in reversed(parts):
                wrong |= part.wrong
            return Tested(join.reduce([part.holds for part in parts]), wrong)
        case _:
            return _tested(condition, values_of(condition.path))


def _tested(test: Test, values: Values) -> Tested:
    match values:
        case Typed():
            return _of_column(test, values.array)
        case list():
            return _of_list(test, values)
        case _:
            return _of_field(test, pa.array(values))


def _of_field(test: Test, array: pa.Array) -> Tested:
    """A payload field: of another kind than expected, its rows are wrong."""
    found = "text" if pa.types.is_string(array.type) else "a number"
    if isinstance(test, IsNull) or found == _expected(test):
        return Tested(_arrow_mask(test, array), {})
    present = np.flatnonzero(pc.is_valid(array))
    return Tested(_none(len(array)), dict.fromkeys(present.tolist(), _mismatch(test, found)))


def _of_column(test: Test, array: pa.Array) -> Tested:
    """A typed column: of another kind than expected, the spec is wrong."""
    if pa.types.is_dictionary(array.type):
        array = array.dictionary_decode()
    found = _kind_of_type(array.type)
    if not isinstance(test, IsNull) and found != _expected(test):
        if found != "a time" or _expected(test) != "text" or isinstance(test, Matches):
            raise ValueError(_mismatch(test, f"{found} ({array.type})"))
        return Tested(_time_mask(test, array), {})
    return Tested(_arrow_mask(test, array), {})


def _kind_of_type(type_: pa.DataType) -> str:
    types = pa.types
    if types.is_string(type_) or types.is_large_string(type_):
        return "text"
    if types.is_boolean(type_):
        return "a boolean"
    if types.is_integer(type_) or types.is_floating(type_) or types.is_decimal(type_):
        return "a number"
    return "a time" if types.is_timestamp(type_) or types.is_date(type_) else "no single value"


def _expected(test: OneOf | Ordered | Matches) -> str:
    match test:
        case OneOf():
            return kind_of(test.values[0])
        case Ordered():
            return kind_of(test.value)
        case Matches():
            return "text"


def _mismatch(test: Test, found: str) -> str:
    assert not isinstance(test, IsNull)
    return f"{'.'.join(test.path)} is {found}, compared with {_expected(test)}"


# ------------------------------------------------------------------------------- columns, by Arrow


def _arrow_mask(test: Test, array: pa.Array) -> Mask:
    """The rows of a column of the expected kind."""
    match test:
        case IsNull():
            return _as_mask(array.is_null())
        case Matches():
            return _as_mask(pc.match_substring_regex(array, test.pattern))
        case OneOf() | Ordered() if _expected(test) == "a number":
            return _number_mask(test, array)
        case OneOf():
            return _as_mask(pc.is_in(array, value_set=pa.array(test.values, array.type)))
        case Ordered():
            return _as_mask(_ARROW_ORDERS[test.operator](array, pa.scalar(test.value, array.type)))


def _time_mask(test: OneOf | Ordered, array: pa.Array) -> Mask:
    texts = [str(value) for value in (test.values if isinstance(test, OneOf) else (test.value,))]
    try:
        times = pa.array(texts, pa.string()).cast(array.type)
    except pa.ArrowInvalid as error:
        raise ValueError(f"{'.'.join(test.path)}: {error}") from error
    if isinstance(test, OneOf):
        return _as_mask(pc.is_in(array, value_set=times))
    return _as_mask(_ARROW_ORDERS[test.operator](array, times[0]))


def _number_mask(test: OneOf | Ordered, array: pa.Array) -> Mask:
    type_ = array.type
    if pa.types.is_integer(type_) and type_ != pa.uint64():
        integers = array.cast(pa.int64())
        return _integers_in(test, integers) if isinstance(test, OneOf) else _ordered(test, integers)
    values = test.values if isinstance(test, OneOf) else (test.value,)
    # Comparing an integer with an int yields what is true, not what is true of its double.
    exact = all(_as_double(value) == value for value in values)
    if not pa.types.is_floating(type_) or not exact:
        return np.array([_python_holds(test, value) for value in array.to_pylist()], np.bool_)
    doubles = array.cast(pa.float64())
    if isinstance(test, OneOf):
        # One comparison for each value: is_in finds NaN in a set that holds NaN.
        each = [_as_mask(pc.equal(doubles, float(value))) for value in values]
        holds: Mask = np.logical_or.reduce(each)
        return holds
    return _as_mask(_ARROW_ORDERS[test.operator](doubles, float(values[0])))


def _as_double(value: object) -> float | None:
    assert isinstance(value, int | float)
    try:
        return float(value)
    except OverflowError:
        return None


def _integers_in(test: OneOf, array: pa.Int64Array) -> Mask:
    numbers = [value for value in test.values if not isinstance(value, str)]
    whole = [int(number) for number in numbers if number == int(number)]
    return _as_mask(
        pc.is_in(array, value_set=pa.array([n for n in whole if n in _INT64], pa.int64()))
    )


def _ordered(test: Ordered, array: pa.Int64Array) -> Mask:
    assert not isinstance(test.value, str)
    # x < 2.5 is x < 3, and x > 2.5 is x > 2.
    bound = ceil(test.value) if test.operator in {"<", ">="} else floor(test.value)
    if bound in _INT64:
        return _as_mask(_ARROW_ORDERS[test.operator](array, pa.scalar(bound, pa.int64())))
    everywhere = _ORDERS[test.operator](0, bound)
    return _as_mask(array.is_valid()) if everywhere else _none(len(array))


def _as_mask(array: pa.BooleanArray) -> Mask:
    present = pc.fill_null(array, fill_value=False) if array.null_count else array
    mask: Mask = present.to_numpy(zero_copy_only=False)
    return mask


# ------------------------------------------------------------------------- lists of Python's values


def _of_list(test: Test, values: Sequence[object]) -> Tested:
    types = set(map(type, values))
    if len(types - {NoneType}) <= 1:
        return _of_one_type(test, values, next(iter(types - {NoneType}), str))
    holds, wrong = _none(len(values)), dict[int, str]()
    for type_ in types - {NoneType}:
        rows = [row for row, value in enumerate(values) if type(value) is type_]
        part = _of_one_type(test, [values[row] for row in rows], type_)
        holds[rows] = part.holds
        wrong |= {rows[row]: error for row, error in part.wrong.items()}
    if isinstance(test, IsNull):
        holds = np.array([value is None for value in values], np.bool_)
    return Tested(holds, wrong)


def _of_one_type(test: Test, values: Sequence[object], type_: type) -> Tested:
    """Test values of one type, or None."""
    if isinstance(test, IsNull):
        return Tested(np.array([value is None for value in values], np.bool_), {})
    found = _KINDS.get(type_, "no single value")
    if found != _expected(test):
        present = (row for row, value in enumerate(values) if value is not None)
        return Tested(_none(len(values)), dict.fromkeys(present, _mismatch(test, found)))
    arrow = {str: pa.string(), int: pa.int64(), float: pa.float64(), bool: pa.bool_()}[type_]
    try:
        return Tested(_arrow_mask(test, pa.array(values, arrow)), {})
    except (OverflowError, UnicodeEncodeError, pa.ArrowInvalid):
        # An integer beyond int64, or half of a surrogate pair, which has no UTF-8.
        return _one_by_one(test, values)


def _one_by_one(test: Test, values: Sequence[object]) -> Tested:
    holds, wrong = _none(len(values)), dict[int, str]()
    for row, value in enumerate(values):
        try:
            holds[row] = _python_holds(test, value)
        except UnicodeEncodeError:
            assert not isinstance(test, IsNull)
            wrong[row] = f"{'.'.join(test.path)} is not Unicode"
    return Tested(holds, wrong)


def _python_holds(test: Test, value: object) -> bool:
    if value is None:
        return isinstance(test, IsNull)
    match test:
        case IsNull():
            return False
        case OneOf():
            return value in test.values
        case Ordered():
            return _ORDERS[test.operator](value, test.value)
        case Matches():
            return bool(_as_mask(pc.match_substring_regex(pa.array([value]), test.pattern))[0])


def _none(rows: int) -> Mask:
    return np.zeros(rows, np.bool_)
