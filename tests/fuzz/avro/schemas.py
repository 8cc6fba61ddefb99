"""Random schemas of Avro with whatever these can hold, and schemas that read what they wrote."""

from dataclasses import dataclass, field
from typing import Any, TypeAlias

from hypothesis import strategies as st

Declared: TypeAlias = Any
"""A schema as ``json.loads`` gives it."""
Draw = Any

NUMBERS = ("int", "long", "float", "double")
PRIMITIVES = ("null", "boolean", *NUMBERS, "bytes", "string")
LOGICAL = (
    {"type": "int", "logicalType": "date"},
    {"type": "int", "logicalType": "time-millis"},
    {"type": "long", "logicalType": "time-micros"},
    *(
        {"type": "long", "logicalType": f"{kind}timestamp-{unit}"}
        for kind in ("", "local-")
        for unit in ("millis", "micros", "nanos")
    ),
    *3 * ({"type": "string", "logicalType": "uuid"},),
    # These fit no type, and so mean nothing.
    {"type": "int", "logicalType": "time-micros"},
    {"type": "string", "logicalType": "decimal", "precision": 4},
    {"type": "long", "logicalType": "made-up"},
)
FIELDS = ("a", "b", "c", "A", "key", "value", "x_y", "ä", "type")
PROMOTIONS = {
    "int": ("long", "float", "double"),
    "long": ("float", "double"),
    "float": ("double",),
    "string": ("bytes",),
    "bytes": ("string",),
}


@dataclass
class _Names:
    """Names of types that are declared so far; records that are being declared are open."""

    records: list[str] = field(default_factory=list)
    enums: list[str] = field(default_factory=list)
    fixed: list[str] = field(default_factory=list)
    count: int = 0

    def add(self, draw: Draw) -> tuple[str, dict[str, str]]:
        """A new name, as its full text and as it is declared."""
        self.count += 1
        name, namespace = f"N{self.count}", draw(st.sampled_from(["a", "b.c"]))
        full = f"{namespace}.{name}".lstrip(".")
        if draw(st.booleans()) and namespace:
            return full, {"name": full}
        return full, {"name": name, "namespace": namespace}


@st.composite
def schemas(draw: Draw) -> Declared:
    """A random schema; most are records."""
    names = _Names()
    if draw(st.integers(0, 5)):
        return _record(draw, names, 3)
    return _type(draw, names, 3)


def _type(  # noqa: C901, PLR0911  # a table
    draw: Draw, names: _Names, depth: int, *, in_union: bool = False
) -> Declared:
    kinds = ["primitive", "primitive", "logical", "decimal", "enum", "fixed"]
    if depth:
        kinds += ["record", "array", "array", "map", *([] if in_union else ["union", "optional"])]
    if names.records or names.enums or names.fixed:
        kinds.append("name")
    match draw(st.sampled_from(kinds)):
        case "primitive":
            return draw(st.sampled_from(PRIMITIVES))
        case "logical":
            return dict(draw(st.sampled_from(LOGICAL)))
        case "decimal":
            return _decimal(draw, names)
        case "enum":
            full, named = names.add(draw)
            names.enums.append(full)
            default = {"default": "B"} if draw(st.booleans()) else {}
            return {"type": "enum", **named, "symbols": ["A", "B", "C"], **default}
        case "fixed":
            full, named = names.add(draw)
            names.fixed.append(full)
            size = draw(st.sampled_from([0, 1, 8, 16, 16]))
            logical = {"logicalType": "uuid"} if draw(st.booleans()) else {}
            return {"type": "fixed", **named, "size": size, **logical}
        case "record":
            return _record(draw, names, depth - 1)
        case "array":
            are_numbers = draw(st.booleans())  # which are read in another way than other items
            numbers = st.sampled_from(("boolean", *NUMBERS))
            items = draw(numbers) if are_numbers else _type(draw, names, depth - 1)
            return {"type": "array", "items": items}
        case "map":
            return {"type": "map", "values": _type(draw, names, depth - 1)}
        case "optional":
            inner = _type(draw, names, depth - 1, in_union=True)
            return inner if inner == "null" else draw(st.permutations(["null", inner]))
        case "union":
            return _union(draw, names, depth)
    return draw(st.sampled_from([*names.records, *names.enums, *names.fixed]))


def _record(draw: Draw, names: _Names, depth: int) -> Declared:
    full, named = names.add(draw)
    chosen = draw(st.lists(st.sampled_from(FIELDS), max_size=4, unique=True))
    fields = [{"name": name, "type": _type(draw, names, depth)} for name in chosen]
    names.records.append(full)
    if draw(st.integers(0, 3)) == 0:  # a record inside itself
        again: Declared = draw(
            st.sampled_from(
                [["null", full], {"type": "array", "items": full}, {"type": "map", "values": full}]
            )
        )
        fields.append({"name": "again", "type": again})
    return {"type": "record", **named, "fields": fields}


def _union(draw: Draw, names: _Names, depth: int) -> Declared:
    made: dict[str, Declared] = {}
    for _ in range(draw(st.integers(1, 4))):
        known = (names.records, names.enums, names.fixed)
        sizes = [len(each) for each in known]
        branch = _type(draw, names, depth - 1, in_union=True)
        if made.setdefault(kind_of(branch), branch) is branch:
            continue
        for each, size in zip(known, sizes, strict=True):  # what it declared is nowhere
            del each[size:]
    return [*made.values()]


def _decimal(draw: Draw, names: _Names) -> Declared:
    precision = draw(st.sampled_from([1, 4, 9, 18, 19, 38, 39, 64, 76, 77]))
    scale = draw(st.sampled_from([0, 1, precision // 2, precision]))
    logical = {"logicalType": "decimal", "precision": precision, "scale": scale}
    if draw(st.booleans()):
        return {"type": "bytes", **logical}
    full, named = names.add(draw)
    names.fixed.append(full)
    size = draw(st.sampled_from([1, 4, 8, 9, 16, 17, 33]))
    return {"type": "fixed", **named, "size": size, **logical}


def kind_of(declared: Declared) -> str:
    """What distinguishes a branch of a union: its type, or its full name."""
    if isinstance(declared, str):
        return declared
    kind = declared["type"]
    return full_name(declared) if kind in {"record", "enum", "fixed"} else str(kind)


def full_name(declared: Declared) -> str:
    """The full name of a declared type; all of these schemas have their namespaces with them."""
    name, namespace = str(declared["name"]), declared.get("namespace", "")
    return name if "." in name or not namespace else f"{namespace}.{name}"


# ---------------------------------------------------------------------------------------- evolution

ADDED = (
    {"name": "n0", "type": "long", "default": -7},
    {"name": "n1", "type": ["null", "string"], "default": None},
    {"name": "n2", "type": {"type": "array", "items": "double"}, "default": [0.5]},
    {"name": "n3", "type": {"type": "map", "values": "string"}, "default": {"k": "v"}},
    {"name": "n4", "type": {"type": "bytes", "logicalType": "decimal", "precision": 4, "scale": 2},
     "default": "\x01"},
)  # fmt: skip


@st.composite
def evolved(draw: Draw, schema: Declared) -> Declared:
    """A schema that reads what this one has written, but for some values of some types."""
    made = _evolved(draw, schema, in_union=False)
    return in_order(made, declarations(made) | declarations(schema), set())


def declarations(declared: Declared) -> dict[str, Declared]:
    """The named types of a schema by their full names."""
    match declared:
        case list():
            inner = declared
        case {"type": "record", "fields": fields}:
            inner = [field["type"] for field in fields]
        case {"type": "array", "items": items} | {"type": "map", "values": items}:
            inner = [items]
        case _:
            inner = []
    own = {}
    if isinstance(declared, dict) and declared["type"] in {"record", "enum", "fixed"}:
        own = {full_name(declared): declared}
    for each in reversed(inner):
        own = own | declarations(each)
    return own


def in_order(declared: Declared, named: dict[str, Declared], known: set[str]) -> Declared:
    """The schema with each named type declared where it is used first."""
    if isinstance(declared, str):
        is_known = declared in PRIMITIVES or declared in known
        return declared if is_known else in_order(named[declared], named, known)
    if isinstance(declared, list):
        return [in_order(each, named, known) for each in declared]
    if declared["type"] in {"record", "enum", "fixed"}:
        if full_name(declared) in known:
            return full_name(declared)
        known.add(full_name(declared))
    made = dict(declared)
    for key in {"items", "values"} & declared.keys():
        made[key] = in_order(declared[key], named, known)
    if "fields" in declared:
        made["fields"] = [
            {**each, "type": in_order(each["type"], named, known)} for each in declared["fields"]
        ]
    return made


def _evolved(draw: Draw, schema: Declared, *, in_union: bool) -> Declared:
    if isinstance(schema, list):
        return draw(st.permutations([_evolved(draw, each, in_union=True) for each in schema]))
    changed = _changed(draw, schema, in_union=in_union)
    if not in_union and changed != "null" and draw(st.integers(0, 5)) == 0:
        return draw(st.permutations(["null", changed]))
    return changed


def _changed(draw: Draw, schema: Declared, *, in_union: bool) -> Declared:
    match schema:
        case {"type": "record", "fields": fields}:
            kept = [_field(draw, each) for each in fields if draw(st.integers(0, 4))]
            more = [dict(each) for each in ADDED if not draw(st.integers(0, 3))]
            return {**schema, "fields": draw(st.permutations([*kept, *more]))}
        case {"type": "array", "items": items}:
            return {"type": "array", "items": _evolved(draw, items, in_union=False)}
        case {"type": "map", "values": inner}:
            return {"type": "map", "values": _evolved(draw, inner, in_union=False)}
        case {"type": "enum"}:
            symbols = draw(st.permutations(["A", "B", "C", "D"]))
            return {**schema, "symbols": [each for each in symbols if each == "B"] + symbols[:2]
                    if symbols.index("B") > 1 else symbols[:2]}  # fmt: skip
        case str() if schema in PROMOTIONS and not in_union:
            # In a union a reader has a choice, which each library makes in its own way.
            return draw(st.sampled_from([schema, *PROMOTIONS[schema]]))
    return schema


def _field(draw: Draw, declared: Declared) -> Declared:
    made = {**declared, "type": _evolved(draw, declared["type"], in_union=False)}
    if draw(st.integers(0, 4)) == 0:
        return {**made, "name": f"new_{made['name']}", "aliases": [made["name"]]}
    return made
