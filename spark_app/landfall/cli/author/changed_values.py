"""Finds readers of fields whose values differ with ``decode.values: Common``.

A route that reads such a field has new folders, a condition has other rows. Nothing is reported for
a group without ``Common``: its values are unchanged.
"""

from collections.abc import Iterator, Sequence
from typing import TYPE_CHECKING, Any

from landfall.errors import Stalled

if TYPE_CHECKING:
    from landfall.api.spec import Decode, GroupSpec
    from landfall.pipeline.decoders import Transform

_OWN_FORMS = {"Avro", "MessagePack", "Protobuf", "Thrift"}
"""The decoders whose values differ from the common ones."""
_TIME = 'text, as of an instant "2026-11-21T04:00:00.000000Z"'
_JSON = (
    "JSON that is made of payloads has the common values, such as text of times and numbers of "
    "64-bit integers"
)


def changed_values(spec: "GroupSpec", path: str = "spec") -> Iterator[tuple[str, str]]:
    """Yield the path of each field of the spec that reads changed values, and how they change.

    Args:
        spec: the group's spec, or the spec of some topics. For an invalid spec, the error is
            yielded.
        path: of the spec's fields.
    """
    # Other commands need neither Arrow nor all stages.
    from landfall.registry import pipeline  # noqa: PLC0415

    decode = spec.decode
    if decode.values != "Common" or decode.format not in _OWN_FORMS:
        return
    try:
        built = pipeline(spec, path)
    except Stalled as error:
        yield f"{path}.decode.values", f"what they change is unknown: {error}"
        return
    for field in built.router.pattern.fields:
        if text := _change(decode, field):
            yield f"{path}.route.pattern", f"field {'.'.join(field)} is {text}"
    if decode.timestamp is not None and (text := _of_event_time(decode)):
        yield f"{path}.decode.timestamp", text
    yield from _of_steps(spec, built.transforms, path)
    if built.wanted.json:
        yield f"{path}.decode.values", _JSON


def _of_event_time(decode: "Decode") -> str:
    event = decode.timestamp
    assert event is not None
    text = _change(decode, event.path)
    if text and event.unit == "Custom":
        return f"unit Custom reads {event.field}, which is {text}"
    if text and event.timezone != "UTC":
        zone = event.timezone
        return f"{event.field}: a time without a zone is wall time of {zone}, and was one of UTC"
    return ""


def _of_steps(
    spec: "GroupSpec", transforms: Sequence["Transform"], path: str
) -> Iterator[tuple[str, str]]:
    for i, step in enumerate(spec.transforms):
        for field in transforms[i].fields:
            if text := _change(spec.decode, field):
                compared = _compared(transforms[i], field)
                yield (
                    f"{path}.transforms[{i}] ({step.use})",
                    f"field {'.'.join(field)} is {text}{compared}",
                )


def _change(decode: "Decode", path: Sequence[str]) -> str:
    """Return a field's present form; empty if it is unchanged, or the field is not decoded."""
    if not path[0]:  # a key, or a header, which is text as before
        if path[1] != "key" or len(path) == 2 or decode.key is None:
            return ""
        return _of_format(decode.key.format, decode.key.options, path[2:])
    return _of_format(decode.format, decode.options, path)


def _of_format(name: str, options: Any, path: Sequence[str]) -> str:
    if name == "MessagePack":
        return "another text if it is a time: with six digits after the second, also of a whole one"
    if name != "Avro" or path[0] == "schema":
        return ""
    if options.get("schema") is None:
        return f"{_TIME}, if it is a time, and base64 text, if it is bytes"
    return _of_avro(options["schema"], tuple(path))


def _of_avro(schema: str, path: tuple[str, ...]) -> str:
    import pyarrow as pa  # noqa: PLC0415  # as above

    from landfall.pipeline.decoders.avro.plan import compile_schema  # noqa: PLC0415
    from landfall.pipeline.decoders.avro.schema import parse_schema  # noqa: PLC0415
    from landfall.pipeline.decoders.avro.values import follow  # noqa: PLC0415

    node = compile_schema(parse_schema(schema))
    found = follow(node, pa.array([], node.arrow), path)
    type_ = pa.null() if found is None else found[1].type
    if pa.types.is_timestamp(type_) or pa.types.is_time(type_):
        return f"{_TIME}, and was the number of its {type_}"
    return "base64 text, and was the text of its bytes" if pa.types.is_binary(type_) else ""


def _compared(step: "Transform", path: Sequence[str]) -> str:
    """Return a note about a filter that compares the field with a number."""
    from landfall.pipeline.transforms.filter import Filter  # noqa: PLC0415

    if not isinstance(step, Filter) or tuple(path) not in _numbers(step.condition):
        return ""
    return "; compared with a number, every such record is a dead letter"


def _numbers(condition: Any) -> Iterator[tuple[str, ...]]:
    """Yield the paths that a condition compares with numbers."""
    from landfall.pipeline.transforms.expression import (  # noqa: PLC0415
        All,
        Not,
        OneOf,
        Ordered,
        Some,
    )

    match condition:
        case Not():
            yield from _numbers(condition.condition)
        case All() | Some():
            for operand in condition.conditions:
                yield from _numbers(operand)
        case OneOf() if not isinstance(condition.values[0], str | bool):
            yield condition.path
        case Ordered() if not isinstance(condition.value, str):
            yield condition.path
