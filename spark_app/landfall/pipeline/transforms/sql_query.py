"""The queries that ``Sql`` permits: one SELECT over ``records``, each row by itself.

DuckDB parses the text and gives the tree; only what is listed here may be in it. So everything that
a later version of DuckDB adds is refused until it has been reviewed. Functions are allowed by
name, and not by their stability as DuckDB reports it: 2.0 calls ``current_localtime()`` and the
``age`` of a time to now consistent. Names are columns and nothing else, because ``current_date``
and its like are written as if they were.

The condition is taken out of the query and becomes a query of its own, whose result is a column.
As a WHERE it would be reordered while it runs, by how long its parts take, and which part fails
first would differ from one reading to the next.
"""

import json
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from typing import Any, TypeAlias

from landfall.api.words import did_you_mean

Tree: TypeAlias = dict[str, Any]
Function: TypeAlias = Callable[[str], str]
"""Calls a function of DuckDB that takes text and gives text."""

TABLE = "records"
ROW = "landfall_row"
"""The hidden column with the number of the row."""

FUNCTIONS = frozenset(
    """
    + - * / // % ** ^ & | ~ << >> || !~~ ~~ ~~* !~~* ~~~ like_escape not_like_escape ilike_escape
    not_ilike_escape xor abs sign round round_even floor ceil ceiling trunc sqrt cbrt pow power exp
    ln log log2 log10 greatest least isnan isinf isfinite bit_count nullif if
    lower lcase upper ucase length len char_length character_length strlen octet_length substring
    substr substring_grapheme left right trim ltrim rtrim lpad rpad replace translate reverse
    repeat concat concat_ws contains starts_with prefix ends_with suffix strpos instr position
    split_part string_split str_split split string_split_regex regexp_matches regexp_full_match
    regexp_replace regexp_extract regexp_extract_all regexp_split_to_array ascii chr unicode ord
    strip_accents format printf hex to_hex unhex from_hex base64 to_base64 from_base64 encode
    decode md5 sha1 sha256 url_encode url_decode levenshtein jaccard
    date_trunc datetrunc date_part datepart date_diff datediff date_sub datesub date_add year month
    day hour minute second millisecond microsecond quarter week weekday isodow dayofweek dayofmonth
    dayofyear yearweek weekofyear isoyear epoch epoch_ms epoch_us epoch_ns make_date make_time
    make_timestamp make_timestamp_ms strftime strptime try_strptime time_bucket last_day dayname
    monthname to_timestamp timezone to_years to_months to_weeks to_days to_hours to_minutes
    to_seconds to_milliseconds to_microseconds
    -> ->> json_extract json_extract_string json_extract_path json_extract_path_text json_value
    json_valid json_type json_array_length json_keys json_exists json_contains to_json json_object
    json_array json_quote row struct_pack struct_extract struct_insert list_value list_pack
    list_extract list_element array_extract list_contains list_has array_contains list_position
    list_concat list_distinct list_sort list_reverse list_slice array_slice array_length
    array_to_string list_unique map map_keys map_values map_extract map_extract_value element_at
    cardinality map_contains flatten
    """.split()  # noqa: SIM905  # a list of them would fill pages
)
"""The functions that a query may call: each gives the same for the same arguments, in any year."""

_CLASSES = {
    "COLUMN_REF",
    "CONSTANT",
    "FUNCTION",
    "CAST",
    "TYPE",
    "CASE",
    "COMPARISON",
    "CONJUNCTION",
    "OPERATOR",
    "BETWEEN",
}
_REFUSED: Mapping[str, str] = {
    "SUBQUERY": "subqueries",
    "WINDOW": "window functions",
    "LAMBDA": "lambdas",
    "PARAMETER": "parameters",
    "STAR": "* other than as a column of its own, and COLUMNS",
    "POSITIONAL_REFERENCE": "positions such as #1",
    "COLLATE": "collations",
}
_TABLES = {
    "JOIN": "joins (the step Lookup joins by key)",
    "TABLE_FUNCTION": "table functions",
    "EMPTY": "a query without FROM records",
    "SUBQUERY": "subqueries",
    "EXPRESSION_LIST": "VALUES",
}
_CLAUSES = {
    "group_expressions": "GROUP BY",
    "group_sets": "GROUP BY",
    "having": "HAVING",
    "qualify": "QUALIFY",
    "sample": "SAMPLE",
}
_MODIFIERS = {
    "ORDER_MODIFIER": "ORDER BY",
    "LIMIT_MODIFIER": "LIMIT",
    "LIMIT_PERCENT_MODIFIER": "LIMIT",
    "DISTINCT_MODIFIER": "DISTINCT",
}


@dataclass(frozen=True)
class ColumnCast:
    """A cast of a column to one of ``_CAST_TYPES``, whose message differs in the text alone.

    Attributes:
        column: the column.
        probe: the column of the probe that is null where it fails.
    """

    column: str
    probe: int


@dataclass(frozen=True)
class Fallible:
    """An expression that may fail for some rows.

    Attributes:
        text: the query of it alone, and of ``ROW`` after it.
        reads: the columns that it reads.
        casts: where one of these fails, and no other of them, the expression fails with its error:
            everything else in it is a constant, or takes what they give. Empty if there are none.
    """

    text: str
    reads: tuple[str, ...]
    casts: tuple[ColumnCast, ...]


@dataclass(frozen=True)
class Statement:
    """A query for all rows of a table, and one that finds the rows for which it fails.

    Attributes:
        text: the query; its last column is ``ROW``.
        guarded: the query, with null for each expression where it fails, and its probes: columns
            that are null where an expression fails, one for each of ``fallible``, then one for each
            cast inside of these, and ``ROW`` after them.
        fallible: the expressions that may fail.
    """

    text: str
    guarded: str
    fallible: tuple[Fallible, ...]

    def failing(self, expressions: Sequence[int]) -> str:
        """Return a query that fails like ``text`` for rows where only these of ``fallible`` do."""
        return self.fallible[expressions[0]].text if len(expressions) == 1 else self.text


@dataclass(frozen=True)
class Query:
    """A query that was checked, in two parts.

    Attributes:
        select: gives the columns of the result.
        where: gives whether each row is kept; None keeps all.
        passed: the columns that the result has as they were.
    """

    select: Statement
    where: Statement | None
    passed: frozenset[str]


def parse(text: str, columns: Sequence[str], serialize: Function, deserialize: Function) -> Query:
    """Check a query.

    Args:
        text: the query.
        columns: the names of the columns of ``records``.
        serialize: DuckDB's ``json_serialize_sql``.
        deserialize: DuckDB's ``json_deserialize_sql``.

    Raises:
        ValueError: it is not one SELECT of the allowed kind; the message names what is refused.
    """
    document = json.loads(serialize(text))
    if document["error"]:
        raise ValueError(f"{document.get('error_message', 'cannot read it')}")
    if len(document["statements"]) != 1:
        raise ValueError("expected one SELECT")
    (statement,) = document["statements"]
    node = statement["node"]
    _check_shape(node)
    scope = _Scope(frozenset(name.lower() for name in columns), columns, _qualifiers(node))
    for item in node["select_list"]:
        _check_item(item, scope)
    condition, node["where_clause"] = node["where_clause"], None
    if condition is not None:
        _check(condition, scope)
    passed = frozenset(_passed(node["select_list"], columns))
    for item in node["select_list"]:
        if item["class"] == "STAR":
            item["exclude_list"] = [*item["exclude_list"], ROW]
    probes = json.loads(serialize(_PROBES))["statements"][0]["node"]["select_list"]

    def of(items: Sequence[Tree]) -> Statement:
        return _statement(
            items, scope, probes, lambda chosen: deserialize(_selecting(document, chosen))
        )

    where = None if condition is None else of([{**condition, "alias": "kept"}])
    return Query(of(node["select_list"]), where, passed)


def _statement(
    items: Sequence[Tree],
    scope: "_Scope",
    probes: Sequence[Tree],
    selecting: Callable[[Sequence[Tree]], str],
) -> Statement:
    """Return the queries of a list of items; ``selecting`` gives the text of a query of items."""
    parts = [part for item in items for part in _fallible(item)]
    probed, fallible = list(parts), []
    for number, part in enumerate(parts):
        casts = []
        for cast in _first_casts(part):
            columns = _columns_in(cast, scope)
            casts.append((columns, number if cast is part else len(probed)))
            if cast is not part:
                probed.append(cast)
        # A name that may stand for two columns is none to deduce from.
        known = tuple(ColumnCast(*names, index) for names, index in casts if len(names) == 1)
        fallible.append(
            Fallible(
                selecting([part]),
                _columns_in(part, scope),
                known if len(known) == len(casts) else (),
            )
        )
    hashed, cast, case = probes
    guarded = [_guarded(item, lambda part: _probe(part, hashed, cast), case) for item in items]
    found = [_probe(part, hashed, cast) for part in probed]
    return Statement(selecting(items), selecting([*guarded, *found]), tuple(fallible))


def _selecting(document: Tree, items: Sequence[Tree]) -> str:
    """Return the query with these items, and ``ROW`` after them."""
    row = {"class": "COLUMN_REF", "type": "COLUMN_REF", "alias": "", "column_names": [ROW]}
    (statement,) = document["statements"]
    node = {**statement["node"], "select_list": [*items, row]}
    return json.dumps({**document, "statements": [{**statement, "node": node}]})


_PROBES = (
    f"SELECT TRY(hash({ROW})), {ROW} IS NULL OR {ROW} IS NOT NULL OR NULL, "
    f"CASE WHEN {ROW} IS NOT NULL THEN {ROW} END"
)
"""Give null only where an expression fails: ``ROW`` is exchanged for it. The last one evaluates an
expression only where its probe, which is exchanged for the first ``ROW`` in it, is not null.

A hash is never null but where its argument fails. A cast is null where its column is not, if it is
a TRY_CAST: whole vectors are cast, where TRY evaluates row by row.
"""
_CAST_TYPES = frozenset(
    """
    TINYINT SMALLINT INTEGER BIGINT HUGEINT UTINYINT USMALLINT UINTEGER UBIGINT UHUGEINT FLOAT
    DOUBLE BOOLEAN UUID
    """.split()  # noqa: SIM905  # as above
)
"""Types to which DuckDB casts text or fails with one message, in which only the text differs."""


def _is_cast(part: Tree) -> bool:
    if part["class"] != "CAST" or part["try_cast"] or part["child"]["class"] != "COLUMN_REF":
        return False
    to = part["type_expr"]
    is_known = to["class"] == "TYPE" and to["type_name"].upper() in _CAST_TYPES
    return is_known and not (to["catalog"] or to["schema"] or to["children"])


def _first_casts(part: Tree) -> list[Tree]:
    """Return the casts of columns that are evaluated before everything else in an expression.

    Empty if something else may fail first, or if it may not be evaluated at all, as in CASE.
    """
    if _is_cast(part):
        return [part]
    is_lazy = part["class"] not in _STRICT or part.get("try_cast")
    if is_lazy or part.get("function_name", "").lower() in _LAZY_FUNCTIONS:
        return []
    inner = [child for child in _inside(part) if child["class"] not in {"CONSTANT", "TYPE"}]
    if all(map(_is_cast, inner)):
        return inner
    return _first_casts(inner[0]) if len(inner) == 1 else []


_STRICT = frozenset({"FUNCTION", "CAST", "COMPARISON", "BETWEEN"})
"""Expressions that take all of what is in them, for every row, and add a failure after it."""
_LAZY_FUNCTIONS = frozenset({"if", "nullif"})
_INFALLIBLE = frozenset({"COLUMN_REF", "CONSTANT"})


def _probe(part: Tree, hashed: Tree, cast: Tree) -> Tree:
    """Return the probe of an expression, made of those of ``ROW``."""
    unnamed = {**part, "alias": ""}
    if _is_cast(part):
        is_null, is_not_null, null = cast["children"]
        of_column = {**is_null, "children": [part["child"]]}
        of_cast = {**is_not_null, "children": [{**unnamed, "try_cast": True}]}
        return {**cast, "children": [of_column, of_cast, null]}
    (function,) = hashed["children"]
    return {
        **hashed,
        "children": [{**function, "arguments": [{"name": "", "expression": unnamed}]}],
    }


def _guarded(item: Tree, probe: Callable[[Tree], Tree], case: Tree) -> Tree:
    """Return an item of the SELECT list, with null where an expression in it fails."""
    if item["class"] == "STAR":
        replaced = [
            {**replacement, "value": _guarded(replacement["value"], probe, case)}
            for replacement in _dicts(item["replace_list"])
        ]
        return {**item, "replace_list": replaced}
    if item["class"] in _INFALLIBLE:
        return item
    if _is_cast(item):
        return {**item, "try_cast": True}
    (check,) = case["case_checks"]
    condition = {**check["when_expr"], "children": [probe(item)]}
    checks = [{"when_expr": condition, "then_expr": {**item, "alias": ""}}]
    return {**case, "alias": item["alias"], "case_checks": checks}


def _fallible(item: Tree) -> Iterator[Tree]:
    """The expressions in an item of the SELECT list that may fail for some rows."""
    if item["class"] == "STAR":
        for replaced in _dicts(item["replace_list"]):
            yield from _fallible(replaced["value"])
    elif item["class"] not in _INFALLIBLE:
        yield item


def _columns_in(tree: Tree, scope: "_Scope") -> tuple[str, ...]:
    """Return the columns that an expression reads, and perhaps more of them."""
    names = {
        name.lower()
        for part in _parts(tree)
        if part["class"] == "COLUMN_REF"
        for name in part["column_names"][:2]
    }
    return tuple(name for name in scope.columns if name.lower() in names)


@dataclass(frozen=True)
class _Scope:
    """The meaning of names in a query.

    Attributes:
        known: the columns, in lower case.
        columns: the columns as they are written.
        qualifiers: what may stand before a column, in lower case.
    """

    known: frozenset[str]
    columns: Sequence[str]
    qualifiers: frozenset[str]


def _check_shape(node: Tree) -> None:
    if node["type"] != "SELECT_NODE":
        raise _refusal("UNION and its like")
    for modifier in node["modifiers"]:
        raise _refusal(_MODIFIERS.get(modifier["type"], modifier["type"]))
    if node["cte_map"]["map"]:
        raise _refusal("WITH")
    for name, what in _CLAUSES.items():
        if node[name]:
            raise _refusal(what)
    if node["aggregate_handling"] != "STANDARD_HANDLING":
        raise _refusal("GROUP BY")
    _check_table(node["from_table"])


def _check_table(table: Tree) -> None:
    if table["type"] != "BASE_TABLE":
        raise _refusal(_TABLES.get(str(table["type"]), str(table["type"])))
    if (table["table_name"].lower(), table["schema_name"], table["catalog_name"]) != (
        TABLE,
        "",
        "",
    ):
        raise ValueError(f"the only table is {TABLE}, got {table['table_name']!r:.80}")
    if table["sample"] or table["column_name_alias"] or table["at_clause"]:
        raise _refusal("samples, and other names for columns, of the table")


def _qualifiers(node: Tree) -> frozenset[str]:
    return frozenset({TABLE, str(node["from_table"]["alias"]).lower()} - {""})


def _check_item(item: Tree, scope: _Scope) -> None:
    if item["class"] != "STAR" or item["columns"] or item["expr"]:
        _check(item, scope)
        return
    if item["rename_list"] or item["qualified_exclude_list"]:
        raise _refusal("RENAME of *")
    for replaced in _parts(item["replace_list"]):
        _check(replaced, scope)


def _check(tree: Tree, scope: _Scope) -> None:
    """Check an expression and all in it."""
    for part in _parts(tree):
        class_ = part["class"]
        if class_ not in _CLASSES:
            raise _refusal(_REFUSED.get(class_, class_))
        if class_ == "FUNCTION":
            _check_function(part)
        elif class_ == "COLUMN_REF":
            _check_name(part["column_names"], scope)
        elif part["type"] == "OPERATOR_TRY":
            raise _refusal("TRY (TRY_CAST is allowed)")


def _check_function(part: Tree) -> None:
    name = part["function_name"].lower()
    if name not in FUNCTIONS or part["schema"] or part["catalog"]:
        hint = did_you_mean(name, FUNCTIONS)
        raise ValueError(f"the function {name} is not allowed{hint}")
    if part["distinct"] or part["filter"] or part["order_bys"]["orders"] or part["export_state"]:
        raise _refusal("aggregates")


def _check_name(names: Sequence[str], scope: _Scope) -> None:
    first, *rest = (name.lower() for name in names)
    is_qualified = bool(rest) and first in scope.qualifiers and rest[0] in scope.known
    if first not in scope.known and not is_qualified:
        hint = did_you_mean(names[0], scope.columns)
        raise ValueError(
            f"no column {'.'.join(names)!r}{hint}; the columns are {', '.join(scope.columns)}"
        )


def _parts(tree: object) -> Iterator[Tree]:
    """Every expression in a tree, itself included."""
    if isinstance(tree, dict) and "class" in tree:
        yield tree
    for below in _inside(tree):
        yield from _parts(below)


def _inside(tree: object) -> Iterator[Tree]:
    """The expressions directly in a tree, without itself and what is in them."""
    below = tree.values() if isinstance(tree, dict) else tree if isinstance(tree, list) else ()
    for node in below:
        if isinstance(node, dict) and "class" in node:
            yield node
        else:
            yield from _inside(node)


def _passed(items: Sequence[Tree], columns: Sequence[str]) -> Iterator[str]:
    """The columns that the result has under their own names."""
    by_lower = {name.lower(): name for name in columns}
    for item in items:
        if item["class"] == "STAR":
            left = {str(name).lower() for name in item["exclude_list"]}
            replaced = {str(part["alias"]).lower() for part in _parts(item["replace_list"])}
            keys = {str(entry.get("key", "")).lower() for entry in _dicts(item["replace_list"])}
            yield from (by_lower[name] for name in by_lower.keys() - left - replaced - keys)
        elif item["class"] == "COLUMN_REF" and not item["alias"]:
            name = item["column_names"][-1].lower()
            if name in by_lower and len(item["column_names"]) <= 2:
                yield by_lower[name]


def _dicts(tree: object) -> list[Tree]:
    return [node for node in tree if isinstance(node, dict)] if isinstance(tree, list) else []


def _refusal(what: str) -> ValueError:
    return ValueError(f"{what}: not allowed, because each row is looked at by itself")
