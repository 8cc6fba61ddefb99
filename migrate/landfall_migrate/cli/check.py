"""``landfall migrate check``: checks that new objects begin where the old program's end."""

import argparse
import json
from collections.abc import Iterator, Mapping
from dataclasses import asdict, dataclass, replace
from typing import Any

from pydantic import ValidationError

from landfall.api.contract import ExitCode
from landfall.api.spec import Output
from landfall.api.spec.source import StartAtOffsets
from landfall.api.spec_errors import spec_errors
from landfall.cli.group_store import GroupStore, map_concurrently
from landfall.cli.text import console
from landfall.errors import Reason, Stalled
from landfall.ledger.offsets import TopicPartition
from landfall.registry import output_format
from landfall.store import Store
from landfall.store.urls import open_store
from landfall_migrate.join import Joint, ReadObject, Result, joints
from landfall_migrate.new_objects import Beginning, Start, beginning
from landfall_migrate.old_objects import OldObject, last_objects, parse

_CODECS = {".gz": "Gzip", ".zst": "Zstd"}
_BY_EXTENSION = frozenset({"Text", "Json"})
"""Formats whose files do not record their compression."""


def check(arguments: argparse.Namespace) -> ExitCode:
    """Print a line per topic partition; FAULT if one is not joined.

    Raises:
        NothingToCheck: there is no old object, or it is unknown where the group begins.
        Stalled: SPEC_INVALID, the URL or the format is wrong.
    """
    opened = GroupStore.of(arguments.group)
    old = _with(opened.group.spec.output, url=arguments.old_url)
    store = open_store(old)
    began = _beginning(opened)
    rule = _rule(opened, began, old.url, arguments.last)
    misnamed: dict[TopicPartition, OldObject] = {}
    found = last_objects(_old_objects(store, rule, misnamed))
    if not (found or misnamed):
        raise console.NothingToCheck(
            f"no object of Secor{rule}, nor of Connect, is below {old.url}"
        )
    outputs = {
        tp.topic: _with(
            opened.specs.for_topic(tp.topic).output,
            url=old.url,
            **({"format": arguments.format} if arguments.format else {}),
        )
        for tp in found
    }
    objects = [object_ for of_tp in found.values() for object_ in of_tp]
    contents: dict[TopicPartition, list[ReadObject]] = {}
    for content in map_concurrently(
        lambda o: read_object(store, outputs[o.topic_partition.topic], o), objects
    ):
        contents.setdefault(content.object.topic_partition, []).append(content)
    wanted = {tp: s for tp, s in began.starts.items() if tp in found or tp in misnamed}
    starts = _looked_into(opened, wanted)
    misnamed_by = [(object_, rule.first) for object_ in misnamed.values()]
    results = joints(contents, starts, misnamed_by)
    for joint in results:
        line = json.dumps(_as_json(joint)) if arguments.json else joint.line
        console.out().print(line, markup=False)
    is_joined = all(joint.result is Result.JOINED for joint in results)
    return ExitCode.OK if is_joined else ExitCode.FAULT


@dataclass(frozen=True)
class _Rule:
    """Rule by which objects are the old program's.

    Attributes:
        starts: where the topic partitions of the ledger begin.
        first: the first generation of the group.
        last: the last generation of Secor; None if all are Secor's.
        is_shared: whether Landfall lands in the same root.
    """

    starts: Mapping[TopicPartition, Start]
    first: int
    last: int | None
    is_shared: bool

    def __str__(self) -> str:
        return "" if self.last is None else f" up to generation {self.last}"

    def is_old(self, each: OldObject) -> bool:
        """Return whether it counts as an object of the old program."""
        return each.generation is None or self.last is None or each.generation <= self.last

    def is_misnamed(self, each: OldObject) -> bool:
        """Return whether Landfall may give its name again; false from Landfall's start on."""
        if not self.is_shared or each.generation is None or each.generation < self.first:
            return False
        start = self.starts.get(each.topic_partition)
        return start is None or each.offset < start.offset


def _rule(opened: GroupStore, began: Beginning, old_url: str, last: int | None) -> _Rule:
    spec = opened.group.spec
    first = spec.generation if began.generation is None else began.generation
    is_shared = old_url.rstrip("/") == spec.output.url.rstrip("/")
    # Without a ledger nothing in the root is Landfall's, wherever the group will begin.
    starts = {} if began.generation is None else began.starts
    below = first - 1 if is_shared else None
    return _Rule(starts, first, below if last is None else last, is_shared)


def _beginning(opened: GroupStore) -> Beginning:
    """Where the group begins, by the ledger or else by its own offsets.

    Raises:
        NothingToCheck: there is neither.
    """
    found = beginning(opened.records())
    starting = opened.group.spec.source.starting_offsets
    planned = {
        TopicPartition(topic, int(partition)): Start(offset)
        for topic, own in (starting.offsets if isinstance(starting, StartAtOffsets) else {}).items()
        for partition, offset in own.items()
    }
    if not (found.starts or planned):
        raise console.no_ledger(opened.name, opened.group.spec.ledger_root.url)
    return Beginning(found.generation, {**planned, **found.starts})


def _looked_into(
    opened: GroupStore, starts: Mapping[TopicPartition, Start]
) -> Mapping[TopicPartition, Start]:
    """The starts, with the faults of their first objects."""
    errors = map_concurrently(
        lambda item: _error_of(opened, item[0].topic, item[1]), starts.items()
    )
    return {
        tp: replace(start, error=error)
        for (tp, start), error in zip(starts.items(), errors, strict=True)
    }


def _error_of(opened: GroupStore, topic: str, start: Start) -> str:
    """Return why the first new objects differ from the ledger; empty if they do not."""
    output = opened.specs.for_topic(topic).output
    for landed in start.objects:
        key = landed.upload.key
        try:
            with opened.store.open(key) as stream:
                rows = output_format(_as_written(output, key)).rows(stream)
                row = next(rows, None)
        except FileNotFoundError:
            return f"{key}: the ledger names it, and the store does not have it"
        except ValueError as error:
            return f"{key}: cannot be read as {output.format}: {error}"
        if row is None or row.offset not in {None, landed.first_offset}:
            first = "no row" if row is None else f"offset {row.offset} first"
            return f"{key}: has {first}, and the ledger records {landed.first_offset}"
    return ""


def _old_objects(
    store: Store, rule: _Rule, misnamed: dict[TopicPartition, OldObject]
) -> Iterator[OldObject]:
    """The old objects in one listing, which may be long; misnamed ones are set aside."""
    for stat in store.list_after(""):
        found = parse(stat.key)
        if found and rule.is_misnamed(found):
            misnamed[found.topic_partition] = found
        if found and rule.is_old(found):
            yield found


def read_object(store: Store, output: Output, old: OldObject) -> ReadObject:
    """Read an old object."""
    rows, last, all_known = 0, -1, True
    try:
        format_ = output_format(_as_written(output, old.key))
        with store.open(old.key) as stream:
            for row in format_.rows(stream):
                rows += 1
                all_known = all_known and row.offset is not None
                last = max(last, row.offset if row.offset is not None else -1)
    except (ValueError, FileNotFoundError) as error:
        return ReadObject(old, error=f"cannot be read as {output.format}: {error}")
    return ReadObject(old, rows, last if rows and all_known else None)


def _as_written(output: Output, key: str) -> Output:
    """The output with the compression of the object's name, where its format has none."""
    if output.format not in _BY_EXTENSION:
        return _with(output, codec=None)
    extension = next((suffix for suffix in _CODECS if key.endswith(suffix)), "")
    return _with(output, codec=_CODECS.get(extension, "None"))


def _with(output: Output, **changes: Any) -> Output:
    """The output with other values; options go with their format.

    Raises:
        Stalled: SPEC_INVALID, a value is wrong.
    """
    fields = output.model_dump(mode="json", by_alias=True, exclude_none=True)
    if changes.get("format", output.format) != output.format:
        fields |= {"options": {}, "columns": "Declared"}
    merged = {name: value for name, value in {**fields, **changes}.items() if value is not None}
    if changes.get("codec", "") is None:
        merged.pop("codec", None)
    try:
        return Output.model_validate(merged, by_alias=True, by_name=False)
    except ValidationError as error:
        raise Stalled(Reason.SPEC_INVALID, "\n".join(spec_errors(error, {}))) from None


def _as_json(joint: Joint) -> dict[str, object]:
    tp = joint.topic_partition
    rest = {name: value for name, value in asdict(joint).items() if name != "topic_partition"}
    return {"topic": tp.topic, "partition": tp.partition, **rest}
