"""Examples in pages of the documentation: what is shown to go in is landed, and read back.

Blocks of code say by their title what they are, in the order of the page:

- ``Schema 7``: the schema that the registry of the next groups has under this id;
- ``Group``: a part of a group's spec. It holds until the next one;
- ``Input``: a record on each line, as ``landfall try --input`` reads it: the payload as ``text``
  (or ``json``) or as ``hex``, or whole ``records``;
- ``Output``: for each line of the input what becomes of it: the row that is landed,
  ``dead letter: `` and the reason, or ``left out``. An empty payload is a line too;
- ``Folder``: the same with the folder in place of the row.

An input and its output may stand before or behind the group that they belong to, as long as the
output follows both.
"""

import io
import json
from collections import Counter
from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import dataclass, field
from itertools import chain
from pathlib import Path
from typing import Any

import numpy as np
import pyarrow.parquet as pq
import yaml

from landfall.api.spec import ConsumerGroup, parse_group
from landfall.cli.author.try_records import RecordFile
from landfall.formats import Row
from landfall.ledger.offsets import OffsetRange, Slice
from landfall.ledger.task_results import LandedSlice, ObjectKind
from landfall.pipeline.records import Records
from landfall.registry import output_format
from landfall.schemas.cached import registry_at
from landfall.store.memory import MemoryStore
from landfall.task import Batch
from landfall.task.landing import land
from tests.support.driver.slice_landing import MIDNIGHT, TP, content
from tests.support.kafka.schema_registry import FakeRegistry, schema_registry
from tests.support.kubernetes.groups import document
from tests.support.pages.markdown import ROOT, Code, code

KINDS = {"text": "text", "json": "text", "hex": "hex", "records": "json"}
"""What ``landfall try`` calls the language of a block."""
REGISTRY = "http://registry:8081"
"""The address that pages show, in whose place a registry in this process is asked."""
_REGISTERED = {"Avro": "AVRO", "Protobuf": "PROTOBUF", "JsonSchema": "JSON"}


@dataclass(frozen=True)
class Example:
    """An example in a page.

    Attributes:
        page: the page.
        number: its place among the examples of the page, from 1.
        spec: the part of the spec that it shows.
        kind: what ``landfall try`` calls the kind of its input.
        lines: its input.
        outcomes: its output, by line.
        is_folder: whether the output is where rows are landed, and not what.
        schemas: the schemas that the registry has, by id.
    """

    page: Path
    number: int
    spec: Mapping[str, Any]
    kind: str
    lines: Sequence[str]
    outcomes: Sequence[str]
    is_folder: bool = False
    schemas: Mapping[int, str] = field(default_factory=dict)

    def __str__(self) -> str:
        return f"{self.page.parent.name}/{self.page.name}-{self.number}"


def examples(page: Path) -> Iterator[Example]:
    """The examples of a page.

    Raises:
        ValueError: an output has no group or no input, an input no output, or a title names
            nothing.
    """
    spec: Mapping[str, Any] | None = None
    given: tuple[str, list[str]] | None = None
    schemas: dict[int, str] = {}
    number = 0
    for block in _blocks(page):
        match block.title.split():
            case ["Schema", schema_id]:
                schemas[int(schema_id)] = block.text
            case ["Group"]:
                spec = yaml.safe_load(block.text)
            case ["Input"] if given is None:
                given = KINDS[block.language], block.text.splitlines()
            case ["Output" | "Folder" as title] if given is not None and spec is not None:
                number += 1
                shown = block.text.splitlines()
                is_folder = title == "Folder"
                yield Example(page, number, spec, *given, shown, is_folder, dict(schemas))
                given = None
            case _:
                raise ValueError(f"{page.name}: {block.title} is out of place")
    if given is not None:
        raise ValueError(f"{page.name}: an input without output")


def _blocks(page: Path) -> Iterator[Code]:
    """Blocks with a title, without those that quote a file of ``examples``, which is run whole."""
    quoted = ROOT / "examples" / page.stem
    for block in code(page):
        if block.title and not (quoted / block.title).exists():
            yield block


def outcomes(example: Example, folder: Path) -> list[str]:
    """What becomes of each line of the input, when it is landed alone and with the others.

    Args:
        example: the example.
        folder: an empty one.

    Raises:
        AssertionError: something else becomes of the lines together than of each of them alone.
    """
    with given(example, folder) as (spec, records):
        group = parse_group({**_group({}), "spec": spec})
        rows = [records.take(np.array([row])) for row in range(len(records))]
        alone = [_landed(group, row, is_folder=example.is_folder) for row in rows]
        together = _landed(group, records, is_folder=example.is_folder)
    assert Counter(chain.from_iterable(alone)) == Counter(together)
    assert all(len(each) <= 1 for each in alone)
    return [each[0] if each else "left out" for each in alone]


@contextmanager
def given(example: Example, folder: Path) -> Iterator[tuple[dict[str, Any], Records]]:
    """The spec of an example, whose registry is there, and its input."""
    with _registry(example) as address:
        whole = json.loads(json.dumps(_group(example.spec)).replace(REGISTRY, address))
        yield whole["spec"], _records(example, folder)


def _landed(group: ConsumerGroup, records: Records, *, is_folder: bool) -> list[str]:
    """What the objects hold that these records are landed in: rows or their folders, and dead
    letters.
    """
    store = MemoryStore()
    slice_ = Slice(TP, OffsetRange(int(records.offsets[0]), int(records.offsets[-1]) + 1))
    (made,) = land(Batch(group, "token"), [slice_], _Given(records), store)
    assert isinstance(made, LandedSlice), made
    found: list[str] = []
    kinds = {each.upload.key: each.kind for each in made.objects}
    for key, body in content(made, store).items():
        if kinds[key] is ObjectKind.DATA:
            rows = output_format(group.spec.output).rows(io.BytesIO(body))
            found += [key.rpartition("/")[0] if is_folder else _shown(row) for row in rows]
        else:
            errors = pq.read_table(io.BytesIO(body)).column("error").to_pylist()
            found += [f"dead letter: {error}" for error in errors]
    assert len(found) == len(records) - made.filtered
    return found


def _shown(row: Row) -> str:
    return "a tombstone" if row.value is None else row.value.decode()


def _group(spec: Mapping[str, Any]) -> dict[str, Any]:
    base = document(decode__format="Json", output__format="Json")
    return {**base, "spec": _laid_over(base["spec"], spec)}


def _laid_over(base: Mapping[str, Any], more: Mapping[str, Any]) -> dict[str, Any]:
    """A part of a spec in its place; options belong to the format that they stand beside."""
    merged = {
        name: _laid_over(base[name], value) if isinstance(base.get(name), dict) else value
        for name, value in more.items()
    }
    return {**base, **merged}


def _records(example: Example, folder: Path) -> Records:
    file = folder / "input"
    file.write_text("".join(f"{line}\n" for line in example.lines))
    return RecordFile(file, example.kind, MIDNIGHT).read(TP, limit=1000)


@dataclass(frozen=True)
class _Given:
    """Reads these records, whatever slice is asked for."""

    records: Records

    def read(self, slice_: Slice) -> Iterator[Records]:
        del slice_
        yield self.records


@contextmanager
def _registry(example: Example) -> Iterator[str]:
    """A registry with the example's schemas, if it has any."""
    if not example.schemas:
        yield REGISTRY
        return
    registry_at.cache_clear()
    kind = _REGISTERED[example.spec["decode"]["format"]]
    with schema_registry() as served:
        for schema_id, text in example.schemas.items():
            _register(served, schema_id, {"schema": text, "schemaType": kind})
        yield served.url
    registry_at.cache_clear()


def _register(served: FakeRegistry, schema_id: int, answer: Mapping[str, str]) -> None:
    served.answers[f"/schemas/ids/{schema_id}"] = (200, answer)
