"""Finding decoders, transforms and formats by name, and building all that a group's spec names.

A name is one of ours (``Json``) or the path of anybody's (``package.module:Name``): both are found
and built in the same way, by ``Name.of(...)``. Modules are imported when they are first named, so
nobody pays for what a group does not use. Stores are found by URL: see ``landfall.store``.
"""

import importlib
from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import dataclass, replace
from typing import Any

from landfall.api.spec import ConsumerGroup, Decode, GroupSpec, Output, TransformStep
from landfall.errors import Reason, Stalled
from landfall.formats import Format, FormatType
from landfall.pipeline.decoders import Decoder, DecoderType, Transform, TransformType, Wanted
from landfall.pipeline.decoders.typed_columns import schema_of
from landfall.pipeline.route import Router

DECODERS: Mapping[str, str] = {
    "Raw": "landfall.pipeline.decoders.raw:Raw",
    "Json": "landfall.pipeline.decoders.json:Json",
    "Delimited": "landfall.pipeline.decoders.delimited:Delimited",
    "Regex": "landfall.pipeline.decoders.regex:Regex",
}
FORMATS: Mapping[str, str] = {
    "Text": "landfall.formats.text:Text",
    "Json": "landfall.formats.jsonlines:Json",
    "SequenceFile": "landfall.formats.sequencefile:SequenceFile",
    "Parquet": "landfall.formats.parquet:Parquet",
}


@dataclass(frozen=True)
class Pipeline:
    """What a task does with records, built from a spec: decode, transform, route, encode."""

    decoder: Decoder
    transforms: tuple[Transform, ...]
    router: Router
    format: Format


def pipeline(spec: GroupSpec) -> Pipeline:
    """Everything a task needs, built once.

    Raises:
        Stalled: SPEC_INVALID; the message starts with the path of the field.
    """
    with _refused("spec.route.pattern"):
        router = Router.of(spec.route, spec.decode.timestamp)
    steps = transforms(spec.transforms)
    made = output_format(spec.output)
    schema = schema_of(spec.decode.columns) if spec.decode.columns else None
    read = (*router.fields, *(path for step in steps for path in step.fields), *made.wanted.fields)
    wanted = replace(made.wanted, fields=tuple(dict.fromkeys(read)), schema=schema)
    return Pipeline(decoder(spec.decode, wanted), steps, router, made)


def check_spec(group: ConsumerGroup) -> None:
    """Return normally when everything the group names can be built: what a driver does before anything else.

    Raises:
        Stalled: SPEC_INVALID; the message starts with the path of the field.
    """
    pipeline(group.spec)


def decoder(decode: Decode, wanted: Wanted) -> Decoder:
    """The decoder ``spec.decode`` names.

    Raises:
        Stalled: SPEC_INVALID, there is none of that name, or its options are wrong.
    """
    kind: DecoderType = _found("spec.decode.format", "decoder", decode.format, DECODERS)
    with _refused(f"spec.decode ({decode.format})"):
        return kind.of(decode.options, wanted)


def transforms(steps: Sequence[TransformStep]) -> tuple[Transform, ...]:
    """The steps ``spec.transforms`` names, in order.

    Raises:
        Stalled: SPEC_INVALID, there is none of that name, or its options are wrong.
    """
    return tuple(_transform(f"spec.transforms.{i}", step) for i, step in enumerate(steps))


def _transform(field: str, step: TransformStep) -> Transform:
    kind: TransformType = _found(f"{field}.use", "transform", step.use, {})
    with _refused(f"{field}.options"):
        return kind.of(step.options)


def output_format(output: Output) -> Format:
    """The format ``spec.output`` names, with its codec among the options.

    Raises:
        Stalled: SPEC_INVALID, there is none of that name, or its options are wrong.
    """
    kind: FormatType = _found("spec.output.format", "format", output.format, FORMATS)
    with _refused(f"spec.output ({output.format})"):
        return kind.of({**output.options, "codec": output.codec})


def _found(field: str, what: str, name: str, ours: Mapping[str, str]) -> Any:
    """The class behind a name; what it can do is only known by its protocol."""
    path = ours.get(name, name)
    module, colon, attribute = path.partition(":")
    if not colon:
        known = ", ".join(sorted(ours))
        raise Stalled(
            Reason.SPEC_INVALID,
            f"{field}: no {what} {name!r}; there are {known}, or package.module:Name",
        )
    try:
        return getattr(importlib.import_module(module), attribute)
    except (ImportError, AttributeError, SyntaxError, ValueError) as error:
        raise Stalled(
            Reason.SPEC_INVALID, f"{field}: cannot import {what} {path!r}: {error}"
        ) from error


@contextmanager
def _refused(field: str) -> Iterator[None]:
    """Turn a constructor's refusal into one that names the field."""
    try:
        yield
    except (ValueError, TypeError, AttributeError) as error:
        raise Stalled(Reason.SPEC_INVALID, f"{field}: {error}") from error
