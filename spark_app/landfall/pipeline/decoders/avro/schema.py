"""Avro schemas as values: parsed from JSON, with names resolved and logical types checked.

Source: Apache Avro 1.12 specification, "Schema Declaration", "Names", "Aliases", "Logical Types".
A logical type that is unknown or does not fit its base type is ignored, as the specification
demands.
"""

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field
from typing import TypeAlias

import msgspec

from landfall.pipeline.decoders.avro.complete import complete

PRIMITIVES = frozenset({"null", "boolean", "int", "long", "float", "double", "bytes", "string"})
_ON_NUMBERS: Mapping[str, frozenset[str]] = {
    "int": frozenset({"date", "time-millis"}),
    "long": frozenset(
        {"time-micros"}
        | {
            f"{kind}-{unit}"
            for kind in ("timestamp", "local-timestamp")
            for unit in ("millis", "micros", "nanos")
        }
    ),
}
_MAX_PRECISION = 76
"""Digits of the widest decimal that Arrow has; a wider one is read as its bytes."""
_ENOUGH = 40
"""Bytes in which any such decimal has room."""


@dataclass(frozen=True, slots=True)
class Logical:
    """A logical type; ``precision`` and ``scale`` belong to a decimal."""

    name: str
    precision: int = 0
    scale: int = 0


@dataclass(frozen=True, slots=True)
class Primitive:
    """A primitive type, by its name in the specification."""

    type: str
    logical: Logical | None = None


@dataclass(frozen=True, slots=True)
class Fixed:
    """A number of bytes."""

    name: str
    aliases: tuple[str, ...]
    size: int
    logical: Logical | None = None


@dataclass(frozen=True, slots=True)
class Enum:
    """One of some symbols; ``default`` stands for those that a reader does not know."""

    name: str
    aliases: tuple[str, ...]
    symbols: tuple[str, ...]
    default: str | None = None


@dataclass(frozen=True, slots=True)
class Array:
    """Values of one type."""

    items: "Type"


@dataclass(frozen=True, slots=True)
class Map:
    """Values of one type by text."""

    values: "Type"


@dataclass(frozen=True, slots=True)
class Union:
    """A value of one of several types."""

    branches: tuple["Type", ...]


@dataclass(frozen=True, slots=True)
class Field:
    """A field of a record; ``default`` is as in JSON, ``has_default`` whether there is one."""

    name: str
    aliases: tuple[str, ...]
    type: "Type"
    has_default: bool
    default: object = None


@dataclass(frozen=True, slots=True)
class Record:
    """Fields in the order in which they are written."""

    name: str
    aliases: tuple[str, ...]
    fields: tuple[Field, ...]


@dataclass(frozen=True, slots=True)
class NamedReference:
    """A named type that is defined elsewhere in the schema, maybe around this place."""

    name: str


Named: TypeAlias = Record | Enum | Fixed
Type: TypeAlias = Primitive | Named | Array | Map | Union | NamedReference


@dataclass(frozen=True)
class Schema:
    """A schema: its outermost type, named types by full name, and all of it as one JSON text."""

    root: Type
    named: Mapping[str, Named] = field(repr=False)
    text: str = field(default="", repr=False, compare=False)

    def resolve(self, type_: Type) -> "Primitive | Named | Array | Map | Union":
        """Return the type itself, or the one that it refers to."""
        return self.named[type_.name] if isinstance(type_, NamedReference) else type_


def parse_schema(text: str | bytes, references: Sequence[str | bytes] = ()) -> Schema:
    """Return the schema that the JSON text declares.

    Args:
        text: a schema as JSON; a bare name (``string``) is one without quotation marks, too.
        references: schemas with named types that ``text`` uses, each after those that it uses.

    Raises:
        ValueError: the text is no schema; the message names the wrong place.
    """
    parser = _Parser({})
    try:
        others = [_json(reference) for reference in references]
        for reference in others:
            parser.type(reference, "", "reference")
        declared = _json(text)
        root = parser.type(declared, "", "schema")
        return Schema(root, parser.named, complete(declared, others).decode())
    except RecursionError:
        raise ValueError("schema: too deeply nested") from None


def with_max_precision(schema: Schema, most: int) -> Schema:
    """Return a schema whose decimals have no more digits, where their scale has room."""

    def narrowed(made: dict[str, object]) -> dict[str, object]:
        precision, scale = made.get("precision"), made.get("scale", 0)
        if made.get("logicalType") != "decimal" or not isinstance(precision, int):
            return made
        is_wide = precision > most and isinstance(scale, int) and scale <= most
        return made | {"precision": most} if is_wide else made

    return _rewritten(schema, narrowed)


_CONNECT: Mapping[tuple[object, object], str] = {
    ("int", "io.debezium.time.Date"): "date",
    ("int", "io.debezium.time.Time"): "time-millis",
    ("long", "io.debezium.time.MicroTime"): "time-micros",
    ("long", "io.debezium.time.Timestamp"): "local-timestamp-millis",
    ("long", "io.debezium.time.MicroTimestamp"): "local-timestamp-micros",
    ("long", "io.debezium.time.NanoTimestamp"): "local-timestamp-nanos",
    ("int", "org.apache.kafka.connect.data.Date"): "date",
    ("int", "org.apache.kafka.connect.data.Time"): "time-millis",
    ("long", "org.apache.kafka.connect.data.Timestamp"): "timestamp-millis",
}
"""Logical types by the type and its ``connect.name``. Debezium's timestamps have no time zone."""
_CONNECT_DECIMAL = "org.apache.kafka.connect.data.Decimal"
_CONNECT_PRECISION = 38
"""Digits of a decimal of Connect that names none."""


def with_connect_types(schema: Schema) -> Schema:
    """Return a schema in which ``connect.name`` counts as a logical type, where there is none."""
    return _rewritten(schema, _connected)


def _connected(made: dict[str, object]) -> dict[str, object]:
    name, kind, parameters = (made.get(of) for of in ("connect.name", "type", "connect.parameters"))
    if "logicalType" in made or not isinstance(name, str) or not isinstance(kind, str):
        return made
    if (kind, name) == ("bytes", _CONNECT_DECIMAL) and isinstance(parameters, dict):
        precision = parameters.get("connect.decimal.precision", str(_CONNECT_PRECISION))
        numbers = {"precision": precision, "scale": parameters.get("scale")}
        if all(isinstance(text, str) and text.isdecimal() for text in numbers.values()):
            read = {of: int(str(text)) for of, text in numbers.items()}
            return made | {"logicalType": "decimal", **read}
    logical = _CONNECT.get((kind, name))
    return made if logical is None else made | {"logicalType": logical}


def _rewritten(schema: Schema, change: Callable[[dict[str, object]], dict[str, object]]) -> Schema:
    """The schema with each declaration changed, those inside of it first."""

    def rewritten(declared: object) -> object:
        if isinstance(declared, list):
            return [rewritten(item) for item in declared]
        if not isinstance(declared, dict):
            return declared
        return change(
            {
                key: value if key in _NO_TYPES else rewritten(value)
                for key, value in declared.items()
            }
        )

    return parse_schema(msgspec.json.encode(rewritten(msgspec.json.decode(schema.text))))


_NO_TYPES = frozenset({"default", "symbols", "connect.parameters"})
"""Members of a declaration that hold no types."""


def short_name(name: str) -> str:
    """A full name without its namespace."""
    return name.rpartition(".")[2]


def _json(text: str | bytes) -> object:
    try:
        return msgspec.json.decode(text)
    except (msgspec.DecodeError, UnicodeDecodeError) as error:
        bare = text.decode("utf-8", "replace") if isinstance(text, bytes) else text
        if bare.strip() in PRIMITIVES:
            return bare.strip()
        raise ValueError(f"schema: not JSON: {error}") from None


@dataclass(frozen=True)
class _Parser:
    named: dict[str, Named]
    open: set[str] = field(default_factory=set)
    """Names of records that are being parsed: their own fields may refer to them."""

    def type(self, declared: object, namespace: str, where: str) -> Type:
        match declared:
            case str(name):
                return self._by_name(name, namespace, where)
            case list(branches):
                return self._union(branches, namespace, where)
            case dict() if isinstance(declared.get("type"), str):
                return self._declared(declared["type"], declared, namespace, where)
            case {"type": dict() | list() as inner}:
                return self.type(inner, namespace, where)
        raise ValueError(f"{where}: not a type: {declared!r:.80}")

    def _by_name(self, name: str, namespace: str, where: str) -> Type:
        if name in PRIMITIVES:
            return Primitive(name)
        full = name if "." in name or not namespace else f"{namespace}.{name}"
        for candidate in (full, name):
            if candidate in self.named or candidate in self.open:
                return NamedReference(candidate)
        raise ValueError(f"{where}: unknown type {name!r}")

    def _union(self, branches: Sequence[object], namespace: str, where: str) -> Union:
        if not branches:
            raise ValueError(f"{where}: a union without branches")
        types = tuple(self.type(branch, namespace, where) for branch in branches)
        if any(isinstance(type_, Union) for type_ in types):
            raise ValueError(f"{where}: a union directly in a union")
        kinds = [kind_of(type_) for type_ in types]
        if len(set(kinds)) < len(kinds):
            raise ValueError(f"{where}: a union with two branches of one type")
        return Union(types)

    def _declared(
        self, kind: str, declared: Mapping[str, object], namespace: str, where: str
    ) -> Type:
        match kind:
            case "array":
                return Array(self.type(declared.get("items"), namespace, f"{where}[]"))
            case "map":
                return Map(self.type(declared.get("values"), namespace, f"{where}{{}}"))
            case "record" | "error" | "enum" | "fixed":
                return self._named(kind, declared, namespace, where)
        if kind in PRIMITIVES:
            return Primitive(kind, _logical(kind, declared, 0))
        return self._by_name(kind, namespace, where)

    def _named(self, kind: str, declared: Mapping[str, object], namespace: str, where: str) -> Type:
        name = declared.get("name")
        if not isinstance(name, str) or not name:
            raise ValueError(f"{where}: {kind} without a name")
        declared_namespace = declared.get("namespace", namespace)
        if not isinstance(declared_namespace, str):
            raise ValueError(f"{where}: namespace must be text")  # noqa: TRY004  # a wrong schema
        inner = name.rpartition(".")[0] if "." in name else declared_namespace
        full = name if "." in name or not inner else f"{inner}.{name}"
        if full in self.named or full in self.open:
            raise ValueError(f"{where}: {full} is defined twice")
        aliases = tuple(
            alias if "." in alias or not inner else f"{inner}.{alias}"
            for alias in _texts(declared, "aliases", where)
        )
        if kind == "enum":
            made: Named = _enum(full, aliases, declared, where)
        elif kind == "fixed":
            made = _fixed(full, aliases, declared, where)
        else:
            self.open.add(full)
            made = Record(full, aliases, self._fields(declared, inner, short_name(full)))
            self.open.remove(full)
        self.named[full] = made
        return made

    def _fields(
        self, declared: Mapping[str, object], namespace: str, where: str
    ) -> tuple[Field, ...]:
        found = declared.get("fields")
        if not isinstance(found, list):
            raise ValueError(f"{where}: a record without fields")  # noqa: TRY004  # a wrong schema
        fields = []
        for declared_field in found:
            if not isinstance(declared_field, dict) or not isinstance(
                declared_field.get("name"), str
            ):
                raise ValueError(f"{where}: a field without a name")  # noqa: TRY004  # a wrong schema
            name = declared_field["name"]
            fields.append(
                Field(
                    name=name,
                    aliases=_texts(declared_field, "aliases", where),
                    type=self.type(_field_type(declared_field), namespace, f"{where}.{name}"),
                    has_default="default" in declared_field,
                    default=declared_field.get("default"),
                )
            )
        if len({field_.name for field_ in fields}) < len(fields):
            raise ValueError(f"{where}: two fields of one name")
        return tuple(fields)


def _field_type(declared: Mapping[str, object]) -> object:
    # Some producers put the logical type next to the field's type instead of into it. The
    # specification gives it no meaning there, so it has none.
    return declared.get("type")


def kind_of(type_: Type) -> str:
    """Return the key of a union's branch: the type, and for a named one its full name."""
    match type_:
        case Primitive():
            return type_.type
        case Array():
            return "array"
        case Map():
            return "map"
        case Union():
            return "union"
    return type_.name


def _texts(declared: Mapping[str, object], key: str, where: str) -> tuple[str, ...]:
    found = declared.get(key) or []
    if not isinstance(found, list) or not all(isinstance(text, str) for text in found):
        raise ValueError(f"{where}: {key} must be a list of names")  # a wrong schema
    return tuple(found)


def _enum(name: str, aliases: tuple[str, ...], declared: Mapping[str, object], where: str) -> Enum:
    symbols, default = _texts(declared, "symbols", where), declared.get("default")
    if not symbols or len(set(symbols)) < len(symbols):
        raise ValueError(f"{where}: an enum needs symbols, each once")
    if default is not None and default not in symbols:
        raise ValueError(f"{where}: the default of an enum must be one of its symbols")
    return Enum(name, aliases, symbols, default if isinstance(default, str) else None)


def _fixed(
    name: str, aliases: tuple[str, ...], declared: Mapping[str, object], where: str
) -> Fixed:
    size = declared.get("size")
    if not isinstance(size, int) or isinstance(size, bool) or not 0 <= size < 2**31:
        raise ValueError(f"{where}: a fixed needs a size")  # a wrong schema
    return Fixed(name, aliases, size, _logical("fixed", declared, size))


def _logical(kind: str, declared: Mapping[str, object], size: int) -> Logical | None:
    name = declared.get("logicalType")
    if name == "decimal" and kind in {"bytes", "fixed"}:
        return _decimal(declared, size if kind == "fixed" else None)
    if name == "uuid" and (kind == "string" or (kind, size) == ("fixed", 16)):
        return Logical("uuid")
    if isinstance(name, str) and name in _ON_NUMBERS.get(kind, ()):
        return Logical(name)
    return None


def _decimal(declared: Mapping[str, object], size: int | None) -> Logical | None:
    precision, scale = declared.get("precision"), declared.get("scale", 0)
    if not isinstance(precision, int) or not isinstance(scale, int):
        return None
    if not 0 < precision <= _MAX_PRECISION or not 0 <= scale <= precision:
        return None
    # Only now, and of few bytes: a schema may name numbers whose powers no memory holds.
    if size is not None and (size == 0 or 10**precision > 2 ** (8 * min(size, _ENOUGH) - 1)):
        return None
    return Logical("decimal", precision, scale)
