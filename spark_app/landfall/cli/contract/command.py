"""``landfall contract check``: finds out whether a group can land payloads of a new schema."""

import argparse
import os
from collections.abc import Iterator, Sequence
from dataclasses import dataclass

from landfall.api import group_file
from landfall.api.contract import LANE, ExitCode
from landfall.api.spec import ConsumerGroup, GroupSpec, TopicSpecs
from landfall.api.words import did_you_mean
from landfall.cli.contract import report
from landfall.cli.contract.findings import FindingResult, SchemaFinding, TopicFindings, TriedRows
from landfall.cli.contract.landed_rows import (
    landed_columns,
    last_objects,
    last_rows,
    why_not_tried,
)
from landfall.cli.contract.new_schema import FORMAT, NewSchema
from landfall.cli.contract.read_fields import field_findings
from landfall.cli.contract.schema_columns import (
    column_findings,
    file_columns,
    has_own_columns,
    present_text,
    table_findings,
)
from landfall.cli.contract.trying import tried_rows
from landfall.cli.group_store import GroupStore
from landfall.cli.text import console
from landfall.errors import Reason, Stalled
from landfall.pipeline.decoders.avro.complete import digest
from landfall.reading import LandedGroup
from landfall.reading.scans import Scan

_OFFLINE = "--offline asks no server"
_NOTHING_LANDED = "nothing of the topic has landed"


def check(arguments: argparse.Namespace) -> ExitCode:
    """Print what is found out; the exit code is FAULT if something would fail.

    Raises:
        Stalled: SPEC_INVALID, a file is wrong; LEDGER_BROKEN; OBJECT_LOST.
        Retry: the store does not answer.
        NothingToCheck: no topic of the group has payloads of Avro.
    """
    new = NewSchema.read(arguments.schema)
    group, landed = _opened(arguments)
    topics = _topics(group, arguments.topic, landed)
    found = [_CheckedTopic(group, landed, new, *topic).findings(arguments.rows) for topic in topics]
    if arguments.json:
        console.print_json(report.document(arguments.schema, group, found))
    else:
        report.show(arguments.schema, group, found)
    return ExitCode.FAULT if any(topic.failures for topic in found) else ExitCode.OK


def _opened(arguments: argparse.Namespace) -> tuple[ConsumerGroup, LandedGroup | None]:
    if arguments.offline:
        return group_file.load(arguments.group, os.environ), None
    opened = GroupStore.of(arguments.group)
    lane = (opened.name, LANE)
    return opened.group, LandedGroup(opened.store, opened.group.spec.output, lane, opened.group)


def _topics(
    group: ConsumerGroup, wanted: str | None, landed: LandedGroup | None
) -> list[tuple[str, str, GroupSpec]]:
    """Return the topics with payloads of Avro: name, path of their spec, and the spec.

    Raises:
        Stalled: SPEC_INVALID, the topic that is wanted is decoded as another format.
        NothingToCheck: there is none.
    """
    specs, source = TopicSpecs.of(group.spec), group.spec.source
    if wanted is not None and not source.selects(wanted):
        hint = did_you_mean(wanted, source.topics)
        raise console.NothingToCheck(
            f"the group {group.metadata.name} reads no topic {wanted}{hint}"
        )
    names = [wanted] if wanted is not None else list(source.topics)
    if not names and landed is not None:
        names = landed.topics()
    if not names:  # by a pattern, and none is known
        every = [("", path, spec) for path, spec in specs.used()]
    else:
        every = [(name, _path(specs.entry_of(name)), specs.for_topic(name)) for name in names]
    found = [topic for topic in every if topic[2].decode.format == FORMAT]
    if wanted is not None and not found:
        _, path, spec = every[0]
        raise Stalled(
            Reason.SPEC_INVALID,
            f"{path}.decode.format: {wanted} is decoded as {spec.decode.format}, not as {FORMAT}",
        )
    if not found:
        raise console.NothingToCheck(
            f"the group {group.metadata.name} decodes no topic as {FORMAT}"
        )
    return found


def _path(entry: int | None) -> str:
    return "spec" if entry is None else f"spec.topics[{entry}]"


@dataclass(frozen=True)
class _CheckedTopic:
    """A topic that is checked; ``landed`` is None if no server may be asked."""

    group: ConsumerGroup
    landed: LandedGroup | None
    new: NewSchema
    topic: str
    path: str
    spec: GroupSpec

    def findings(self, rows: int) -> TopicFindings:
        """Return everything about the topic; so many of its last rows are tried."""
        objects = last_objects(self.landed, self.topic, rows) if self.landed else None
        found = [*self._of_present(), *field_findings(self.spec, self.path, self.new)]
        is_readable = not any(finding.result is FindingResult.FAILS for finding in found)
        if has_own_columns(self.spec) and is_readable:
            found += self._of_columns()
        tried = self._tried(objects, rows, found)
        return TopicFindings(self.topic, self.path, found, tried)

    def _of_present(self) -> Iterator[SchemaFinding]:
        present = present_text(self.spec)
        options = self.spec.decode.options
        name = "schemaFile" if options.get("schemaFile") is not None else "schema"
        if present is None or digest(present) == digest(self.new.text):
            return
        yield SchemaFinding(
            f"{self.path}.decode.options.{name}",
            FindingResult.CHANGES,
            "payloads name no schema, so the group has to change together with the producer",
        )

    def _of_columns(self) -> Iterator[SchemaFinding]:
        last = last_objects(self.landed, self.topic, 0) if self.landed else None
        known = landed_columns(last) if last is not None else None
        present = present_text(self.spec)
        if known is None and present is not None:
            known = file_columns(self.spec, self.path, present)
        if known is None:
            why = _OFFLINE if self.landed is None else _NOTHING_LANDED
            message = f"columns and tables are not compared: {why}"
            yield SchemaFinding(f"{self.path}.output.columns", FindingResult.OK, message)
            return
        new = file_columns(self.spec, self.path, self.new.text)
        yield from column_findings(known, new)
        yield from table_findings(self.group.spec.publish, self.topic, known, new)

    def _tried(self, objects: Scan | None, count: int, found: Sequence[SchemaFinding]) -> TriedRows:
        if why := self._skipped(objects, count):
            return TriedRows(skipped=why)
        assert objects is not None, "checked"
        rows = last_rows(objects, self.topic, count)
        if not rows:
            return TriedRows(skipped="no landed row has columns")
        try:
            return tried_rows(self.group, self.spec, self.path, self.new, rows)
        except Stalled as stalled:
            if all(finding.result is not FindingResult.FAILS for finding in found):
                raise
            return TriedRows(skipped=f"the stages cannot be built: {stalled}")

    def _skipped(self, objects: Scan | None, count: int) -> str:
        if self.landed is None:
            return _OFFLINE
        if not count:
            return "--rows 0"
        return _NOTHING_LANDED if objects is None else why_not_tried(self.spec, self.path)
