"""Rows through the steps of ``spec.transforms``, as a task takes them."""

import json
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any

import pyarrow as pa

from landfall import registry
from landfall.api.spec import parse_group
from landfall.errors import Stalled
from landfall.ledger.offsets import TopicPartition
from landfall.pipeline.decoders import Decoded
from landfall.pipeline.records import Records, of_columns
from landfall.task.partitioning import PartitionedChunk, Partitioner
from tests.support.kubernetes.groups import document

TP = TopicPartition("clicks", 3)


@dataclass(frozen=True)
class Group:
    """A group with these steps.

    Attributes:
        steps: ``spec.transforms``.
        columns: the typed columns by name; none in JSON form.
        spec: more of the spec, by its dotted names with ``__`` for the dots.
    """

    steps: Sequence[Mapping[str, object]]
    columns: Mapping[str, str] | None = None
    spec: Mapping[str, object] | None = None

    def pipeline(self) -> registry.Pipeline:
        return registry.pipeline(self._parsed())

    def partition(self, *payloads: object) -> PartitionedChunk:
        return Partitioner.of(self._parsed()).partition(records(*payloads))

    def apply(self, *payloads: object) -> Decoded:
        return apply(self.pipeline(), records(*payloads))

    def _parsed(self) -> Any:
        columns = [{"name": name, "type": type_} for name, type_ in (self.columns or {}).items()]
        spec: dict[str, Any] = {
            "decode__format": "Json",
            "output__format": "Json",
            **(self.spec or {}),
        }
        if columns:
            spec["decode__columns"] = columns
        return parse_group(document(transforms=list(self.steps), **spec)).spec


def apply(stages: registry.Pipeline, given: Records) -> Decoded:
    """The rows after decoder and steps."""
    decoded = stages.decoder.decode(given)
    for transform in stages.transforms:
        decoded = transform.apply(decoded)
    return decoded


def apply_spec(group: dict[str, Any], payloads: Sequence[bytes]) -> Decoded:
    """The rows after the decoder and the steps of a group."""
    return apply(registry.pipeline(parse_group(group).spec), records(*payloads))


def records(*payloads: object) -> Records:
    """Records with these payloads: bytes, None or an object that becomes JSON."""
    values = [
        each if each is None or isinstance(each, bytes) else json.dumps(each).encode()
        for each in payloads
    ]
    rows = len(values)
    return of_columns(
        TP,
        pa.array(range(100, 100 + rows), pa.int64()).to_numpy(),
        pa.array(values, pa.binary()),
        timestamps=pa.array(
            [1_763_700_000_000 + row for row in range(rows)], pa.int64()
        ).to_numpy(),
    )


def payloads(decoded: Decoded) -> list[bytes | None]:
    """The payloads of the rows that are kept."""
    values: list[bytes | None] = decoded.records.values.to_pylist()
    return values


def rejected(decoded: Decoded) -> dict[int, str]:
    """What is wrong with the rows that are rejected."""
    return dict(zip(decoded.bad.rows.tolist(), decoded.bad.errors, strict=True))


def spec_error(
    use: str,
    options: Mapping[str, object],
    columns: Mapping[str, str] | None = None,
    **spec: object,
) -> str:
    """What is said about a step that does not fit."""
    try:
        Group([{"use": use, "options": options}], columns, spec).pipeline()
    except Stalled as error:
        return str(error)
    raise AssertionError("it is taken")
