"""The language of ``Filter``'s option ``where``: conditions on fields, written as in Python.

::

    country in ("DE", "AT") and not matches(device, "^debug-") and amount >= 10
    meta.user is not null or kind == "system"

=====================================  ============================================================
``a == 1`` ``a != "x"``                equal, not equal
``a < 1`` ``<=`` ``>`` ``>=``          order: of numbers, of text by code points, of times
``1 <= a < 10``                        both
``a in ("x", "y")`` ``a not in (…)``   one of the values
``a is null`` ``a is not null``        absent or null; ``None`` means the same
``matches(a, "^x")``                   an RE2 pattern is found in the text
``a``                                  the boolean field is true
``and`` ``or`` ``not`` ``( )``         as everywhere
``field("user-id")``                   a name that is no identifier; ``field("m", "user-id")``
=====================================  ============================================================

Python's own parser reads the text, which is never run; every node that is not in the table is
refused. Pure.
"""

import ast
from collections.abc import Mapping
from dataclasses import dataclass
from math import isfinite
from typing import TypeAlias

from landfall.pipeline.decoders import Path

Constant: TypeAlias = str | int | float | bool


@dataclass(frozen=True, slots=True)
class OneOf:
    """The field has one of these values, which are all of one kind."""

    path: Path
    values: tuple[Constant, ...]


@dataclass(frozen=True, slots=True)
class Ordered:
    """The field stands in this order (``<``, ``<=``, ``>`` or ``>=``) to the value."""

    path: Path
    operator: str
    value: str | int | float


@dataclass(frozen=True, slots=True)
class Matches:
    """The RE2 pattern is found in the field."""

    path: Path
    pattern: str


@dataclass(frozen=True, slots=True)
class IsNull:
    """The field is absent or null."""

    path: Path


@dataclass(frozen=True, slots=True)
class Not:
    """The condition does not hold."""

    condition: "Condition"


@dataclass(frozen=True, slots=True)
class All:
    """Every condition holds."""

    conditions: tuple["Condition", ...]


@dataclass(frozen=True, slots=True)
class Some:
    """At least one condition holds."""

    conditions: tuple["Condition", ...]


Test: TypeAlias = OneOf | Ordered | Matches | IsNull
Condition: TypeAlias = Test | Not | All | Some

_ORDERS: Mapping[type[ast.cmpop], str] = {ast.Lt: "<", ast.LtE: "<=", ast.Gt: ">", ast.GtE: ">="}
_MIRRORED = {"<": ">", "<=": ">=", ">": "<", ">=": "<="}
_WORDS = {"null": None, "true": True, "false": False}
_MAX_LENGTH = 10_000
_MAX_DEPTH = 100


def parse(text: str) -> Condition:
    """Return the condition in the text.

    Raises:
        ValueError: it is not in the language; the message has what is wrong and where.
    """
    if len(text) > _MAX_LENGTH:
        raise ValueError(f"longer than {_MAX_LENGTH} characters")
    # Folded or literal YAML text may have line breaks, which end an expression in Python.
    line = " ".join(text.split("\n")).strip()
    try:
        condition = _condition(ast.parse(line, mode="eval").body)
    except SyntaxError as error:
        at = line[max(0, (error.offset or 1) - 1) :][:20]
        raise ValueError(f"cannot read it at {at!r}: {error.msg}; write ==, and, or, not") from None
    except (RecursionError, MemoryError):
        raise ValueError("too deeply nested") from None
    if _depth(condition) > _MAX_DEPTH:
        raise ValueError("too deeply nested")
    return condition


def _depth(condition: Condition) -> int:
    match condition:
        case Not():
            return 1 + _depth(condition.condition)
        case All() | Some():
            return 1 + max(map(_depth, condition.conditions))
        case _:
            return 1


def paths(condition: Condition) -> tuple[Path, ...]:
    """Return the paths of all fields that the condition reads, each once."""
    match condition:
        case Not():
            return paths(condition.condition)
        case All() | Some():
            inner = (path for operand in condition.conditions for path in paths(operand))
            return tuple(dict.fromkeys(inner))
        case _:
            return (condition.path,)


def _condition(node: ast.expr) -> Condition:
    match node:
        case ast.BoolOp(ast.And(), values):
            return All(tuple(map(_condition, values)))
        case ast.BoolOp(ast.Or(), values):
            return Some(tuple(map(_condition, values)))
        case ast.UnaryOp(ast.Not(), operand):
            return Not(_condition(operand))
        case ast.Compare():
            return _comparisons(node)
        case ast.Call(ast.Name("matches"), [field, pattern], []):
            return _matches(_path(field), _constant(pattern))
        case ast.Name() | ast.Attribute() | ast.Call():
            return OneOf(_path(node), (True,))
        case _:
            raise _unknown(node)


def _matches(path: Path, pattern: Constant | None) -> Matches:
    if not isinstance(pattern, str):
        raise ValueError(  # noqa: TRY004  # of the group's spec, not of an argument
            f"matches takes a pattern as text, got {pattern!r}"
        )
    return Matches(path, pattern)


def _comparisons(node: ast.Compare) -> Condition:
    sides = [node.left, *node.comparators]
    made = tuple(
        _comparison(left, operator, right)
        for left, operator, right in zip(sides[:-1], node.ops, sides[1:], strict=True)
    )
    return made[0] if len(made) == 1 else All(made)


def _comparison(left: ast.expr, operator: ast.cmpop, right: ast.expr) -> Condition:
    match operator:
        case ast.In():
            return _one_of(_path(left), _constants(right))
        case ast.NotIn():
            return Not(_one_of(_path(left), _constants(right)))
        case ast.Is() | ast.IsNot():
            if _constant(right) is not None:
                raise ValueError(f"is takes null, got {ast.unparse(right)}")
            null = IsNull(_path(left))
            return null if isinstance(operator, ast.Is) else Not(null)
    is_mirrored = _names_a_field(right) and not _names_a_field(left)
    path, value = (
        (_path(right), _constant(left)) if is_mirrored else (_path(left), _constant(right))
    )
    if value is None:
        raise ValueError("write is null instead of comparing with null")
    if isinstance(operator, ast.Eq | ast.NotEq):
        test = _one_of(path, (value,))
        return test if isinstance(operator, ast.Eq) else Not(test)
    if isinstance(value, bool):
        raise ValueError("true and false have no order")  # noqa: TRY004  # of the group's spec
    order = _ORDERS[type(operator)]
    return Ordered(path, _MIRRORED[order] if is_mirrored else order, value)


def _one_of(path: Path, values: tuple[Constant | None, ...]) -> OneOf:
    present = tuple(value for value in values if value is not None)
    if len(present) < len(values) or not values:
        raise ValueError("a list holds values, not null; write is null next to it")
    if len({kind_of(value) for value in present}) > 1:
        raise ValueError(f"values of different kinds in one list: {present!r:.80}")
    return OneOf(path, present)


def kind_of(value: Constant) -> str:
    """Return the kind of a value: ``text``, ``a number`` or ``a boolean``."""
    match value:
        case bool():
            return "a boolean"
        case str():
            return "text"
        case _:
            return "a number"


def _names_a_field(node: ast.expr) -> bool:
    if isinstance(node, ast.Name):
        return node.id not in _WORDS
    return isinstance(node, ast.Attribute | ast.Call)


def _path(node: ast.expr) -> Path:
    match node:
        case ast.Name(name) if name not in _WORDS:
            return (name,)
        case ast.Attribute(inner, name):
            return (*_path(inner), name)
        case ast.Call(ast.Name("field"), [*steps], []) if steps:
            constants = tuple(map(_constant, steps))
            if all(isinstance(step, str) and step for step in constants):
                return tuple(map(str, constants))
    raise ValueError(
        f"expected a field, got {ast.unparse(node)}; a name that is no identifier is written "
        'field("user-id")'
    )


def _constants(node: ast.expr) -> tuple[Constant | None, ...]:
    if isinstance(node, ast.Tuple | ast.List | ast.Set):
        return tuple(map(_constant, node.elts))
    return (_constant(node),)


def _constant(node: ast.expr) -> Constant | None:
    match node:
        case ast.Constant(value) if value is None or isinstance(value, str | int | float):
            if isinstance(value, float) and not isfinite(value):
                raise ValueError(f"number out of range: {ast.unparse(node)}")
            return value
        case ast.UnaryOp(ast.USub(), ast.Constant(value)) if type(value) in {int, float}:
            number = _constant(node.operand)
            assert isinstance(number, int | float)
            return -number
        case ast.Name(name) if name in _WORDS:
            return _WORDS[name]
    raise ValueError(f"expected text, a number, true, false or null, got {ast.unparse(node)}")


def _unknown(node: ast.expr) -> ValueError:
    return ValueError(f"not a condition: {ast.unparse(node)}")
