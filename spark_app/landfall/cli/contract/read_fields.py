"""Checks the fields that a group reads against a new schema: they exist, and have usable types."""

from collections.abc import Iterator, Sequence
from dataclasses import dataclass, replace

import pyarrow as pa

from landfall import registry
from landfall.api.spec import GroupSpec
from landfall.api.words import did_you_mean
from landfall.cli.contract.findings import FindingResult, SchemaFinding
from landfall.cli.contract.new_schema import NewSchema, decoder_options, under, unresolved
from landfall.errors import Stalled
from landfall.pipeline.decoders import Path, Wanted
from landfall.pipeline.decoders.avro.nested import UnionNode
from landfall.pipeline.decoders.avro.node import Node
from landfall.pipeline.decoders.avro.rows import compiled
from landfall.pipeline.decoders.avro.schema import Record, Schema
from landfall.pipeline.decoders.avro.values import can_become, places
from landfall.pipeline.decoders.typed_columns import TypedColumn, schema_of, typed_columns
from landfall.schemas.avro import resolved


@dataclass(frozen=True)
class _Reader:
    """A field of the group that reads fields of payloads.

    Attributes:
        field: its path in the spec.
        path: of the field of payloads.
        column: the declared column that is made of it; None for a field that stages read.
    """

    field: str
    path: Path
    column: TypedColumn | None = None

    def problem(self, found: Sequence[Node]) -> str:
        """Return why values at the path cannot be used; empty if they can."""
        wrong = next((node for node in found if not self._fits(node)), None)
        if wrong is None:
            return ""
        if self.column is None:
            return f"{'.'.join(self.path)} is {wrong.arrow}, which stages cannot read"
        return f"column {self.column.name}: {self.column.type} cannot be made of {wrong.arrow}"

    def _fits(self, node: Node) -> bool:
        if self.column is not None:
            return can_become(self.column, node)
        return not pa.types.is_nested(node.arrow)


def field_findings(spec: GroupSpec, path: str, new: NewSchema) -> list[SchemaFinding]:
    """Return a finding for each field that the new schema lacks or has with an unusable type.

    Args:
        spec: of the topic.
        path: of the fields that it is made of.
        new: the schema.

    Raises:
        Stalled: SPEC_INVALID, the group itself is wrong.
    """
    found: list[SchemaFinding] = []
    if spec.decode.envelope is None:
        found += _of_fields(spec, path, new)
    else:
        message = "fields inside of envelopes are not checked, only that the stages can be built"
        found.append(SchemaFinding(f"{path}.decode.envelope", FindingResult.OK, message))
    if not any(finding.result is FindingResult.FAILS for finding in found):
        found += _of_stages(spec, path, new)
    return found


def _of_stages(spec: GroupSpec, path: str, new: NewSchema) -> Iterator[SchemaFinding]:
    """Yield why the stages cannot be built with the new schema."""
    try:
        registry.pipeline(under(spec, new.text), path)
    except Stalled as error:
        yield SchemaFinding(f"{path}.decode", FindingResult.FAILS, str(error))


def _of_fields(spec: GroupSpec, path: str, new: NewSchema) -> Iterator[SchemaFinding]:
    built = registry.pipeline(unresolved(spec), path)
    readers = list(_readers(spec, path, built))
    wanted = of_values(spec, built.wanted)
    try:
        writer, reader = resolved(decoder_options(spec.decode), new.text)
        node = compiled(writer, reader, wanted)
    except ValueError as error:
        field = f"{path}.decode.options.readerSchema"
        yield SchemaFinding(
            field, FindingResult.FAILS, f"payloads of {new.path} cannot be read: {error}"
        )
        return
    for reads in readers:
        there = places(node, reads.path)
        if not there:
            name = ".".join(reads.path)
            hint = did_you_mean(name, _names(reader or writer))
            message = f"{new.path} has no field {name}{hint}"
            yield SchemaFinding(reads.field, FindingResult.FAILS, message)
        elif problem := reads.problem(there):
            yield SchemaFinding(reads.field, FindingResult.FAILS, f"{new.path}: {problem}")
        elif reads.column and not reads.column.nullable and any(map(_may_be_null, there)):
            message = (
                f"column {reads.column.name}: a null, which {new.path} allows, makes a row bad"
            )
            yield SchemaFinding(reads.field, FindingResult.CHANGES, message)


def of_values(spec: GroupSpec, wanted: Wanted) -> Wanted:
    """Return what the stages want of payloads, without keys, headers and what schemas are called.

    Args:
        spec: of the topic.
        wanted: everything that the stages want.
    """
    columns = spec.decode.payload_columns()
    fields = tuple(path for path in wanted.fields if path[0])
    return replace(wanted, fields=fields, schema=schema_of(columns) if columns else None)


def _readers(spec: GroupSpec, path: str, built: registry.Pipeline) -> Iterator[_Reader]:
    """Yield what reads fields of payloads, in the order of the spec."""
    read = set(built.wanted.fields)
    columns = spec.decode.payload_columns()
    for number, column in enumerate(typed_columns(schema_of(columns)) if columns else ()):
        yield _Reader(f"{path}.decode.columns[{number}]", column.path, column)
    event = spec.decode.timestamp
    if event is not None and event.path in read:
        yield _Reader(f"{path}.decode.timestamp.field", event.path)
    for number, step in enumerate(spec.transforms):
        for of_step in built.transforms[number].fields:
            # A step may read what an earlier one has made.
            if of_step in read and of_step[0]:
                yield _Reader(f"{path}.transforms[{number}] ({step.use})", of_step)
    for of_route in built.router.pattern.fields:
        if of_route in read and of_route[0]:
            yield _Reader(f"{path}.route.pattern", of_route)


def _names(schema: Schema) -> list[str]:
    root = schema.resolve(schema.root)
    return [field.name for field in root.fields] if isinstance(root, Record) else []


def _may_be_null(node: Node) -> bool:
    return isinstance(node, UnionNode) and any(
        branch.member is None and branch.refusal is None for branch in node.branches
    )
