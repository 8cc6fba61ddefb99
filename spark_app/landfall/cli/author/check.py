"""``landfall check``: finds all faults of group files before anything runs."""

import argparse
import json
import os
from collections.abc import Iterable, Iterator
from dataclasses import dataclass
from itertools import chain
from pathlib import Path

from rich.markup import escape

from landfall.api import group_file
from landfall.api.contract import ExitCode
from landfall.api.plain_http import plain_http
from landfall.api.spec import ConsumerGroup, TopicSpecs
from landfall.cli.author.changed_values import changed_values
from landfall.cli.text import console
from landfall.errors import LandfallError, LettersDenied, Reason, Stalled, StoreDenied, cause

_OF_STAGES = frozenset({"source", "decode", "transforms", "route", "output", "topics"})
"""Sections of a spec that decoders, steps and publishers are built from together."""


MAX_TOPICS_TRIED = 20
"""Topics in which a record to try is looked for."""


@dataclass(frozen=True, slots=True)
class GroupFault:
    """A fault of a group file or of a thing that it names.

    Attributes:
        file: the file.
        reason: one word for it, as in conditions and status.
        message: the field and the fault.
        may_pass: whether it may pass without a change.
    """

    file: Path
    reason: str
    message: str
    may_pass: bool = False


def check(arguments: argparse.Namespace) -> ExitCode:
    """Print the faults of all files.

    With ``--lifecycle``, print the rules of buckets instead.

    Returns:
        USAGE if something has to be changed, UNAVAILABLE if the only fault is that servers do not
        answer.
    """
    if arguments.lifecycle:
        return _show_lifecycle(arguments.groups)
    found: list[GroupFault] = []
    warnings: list[str] = []
    for path in arguments.groups:
        of_file = list(_faults(path, warnings, offline=arguments.offline))
        found += of_file
        if not arguments.json:
            _show(path, of_file, offline=arguments.offline)
    if arguments.json:
        console.out().print(json.dumps(_as_json(found, warnings)), markup=False)
    else:
        for warning in warnings:
            console.err().print(f"[yellow]warning:[/yellow] {escape(warning)}")
    if not found:
        return ExitCode.OK
    return ExitCode.UNAVAILABLE if all(fault.may_pass for fault in found) else ExitCode.USAGE


def _show_lifecycle(paths: Iterable[Path]) -> ExitCode:
    """Print the rules by which each bucket deletes leftovers when no driver runs.

    Raises:
        Stalled: SPEC_INVALID, a file has faults.
    """
    from landfall.driver.process.lifecycle_rules import documents  # noqa: PLC0415  # as in _faults

    for path in paths:
        found = documents(group_file.load(path, os.environ))
        if not found:
            console.err().print(f"{escape(str(path))}: no store of it has lifecycle rules")
        for url, rules in found.items():
            console.out().print(json.dumps({url: rules}, indent=2), markup=False, highlight=False)
    return ExitCode.OK


def _faults(path: Path, warnings: list[str], *, offline: bool) -> Iterator[GroupFault]:
    # Other commands need neither all stages nor Kafka.
    from landfall.driver.process import preflight  # noqa: PLC0415

    try:
        group = group_file.load(path, os.environ)
    except Stalled as error:
        yield from (_fault(path, error, line) for line in str(error).splitlines())
        yield from (_fault(path, fault) for fault in _of_sound_sections(path, offline=offline))
        return
    warnings += [f"{path}: {field}: {warning}" for field, warning in plain_http(group.spec)]
    of_file = list(preflight.file_faults(group))
    yield from (_fault(path, error) for error in of_file)
    if not of_file:
        changed = chain.from_iterable(
            changed_values(spec, of) for of, spec in TopicSpecs.of(group.spec).used()
        )
        warnings += [f"{path}: {field}: {text}" for field, text in changed]
    if offline:
        return
    of_servers = list(preflight.server_faults(group))
    yield from (_fault(path, error) for error in of_servers)
    if not of_file and not of_servers:
        yield from (_fault(path, error) for error in _record_faults(path, group, warnings))
    if advice := preflight.advice(group):
        warnings.append(f"{path}: spec.output: {advice}")


def _record_faults(
    path: Path, group: ConsumerGroup, warnings: list[str]
) -> Iterator[LandfallError]:
    """Try a record with the stages of the group, and one with each entry of ``topics``.

    A record that becomes a dead letter is a warning, for the record may be what is wrong.
    """
    # Other commands need none of the stages.
    from landfall.cli.author.try_out import last_record  # noqa: PLC0415
    from landfall.landed.opening import open_log  # noqa: PLC0415
    from landfall.task.trial import Fate  # noqa: PLC0415

    specs, tried = TopicSpecs.of(group.spec), set[int | None]()
    try:
        topics = group.spec.source.topics or [of.name for of in open_log(group).topics().topics]
    except LandfallError as error:
        yield error
        return
    for topic in sorted(topics)[:MAX_TOPICS_TRIED]:
        entry = specs.entry_of(topic)
        if entry in tried:
            continue
        try:
            found = last_record(group, topic)
        except LandfallError as error:
            yield error
            continue
        if found is not None:
            tried.add(entry)
            place, trial = found
            if trial.fate is Fate.DEAD_LETTER:
                warnings.append(
                    f"{path}: {place} would become a dead letter: {trial.stage}: {trial.detail}; "
                    "`landfall try` shows more records"
                )


def _of_sound_sections(path: Path, *, offline: bool) -> Iterator[LandfallError]:
    """Yield the faults of the sound sections of a file in which another section is wrong."""
    from landfall.driver.process import preflight  # noqa: PLC0415  # as in _faults

    if found := group_file.sound_sections(path, os.environ):
        group, wrong = found
        if _OF_STAGES.isdisjoint(wrong):
            yield from preflight.file_faults(group)
        if not offline:
            yield from preflight.server_faults(group, wrong)


def _fault(path: Path, error: LandfallError, message: str = "") -> GroupFault:
    may_pass = not isinstance(error, Stalled | StoreDenied | LettersDenied)
    text = (message or " ".join(str(error).split())).removeprefix(f"{path}: ")
    return GroupFault(path, cause(error, "Unavailable"), text, may_pass)


def _show(path: Path, faults: Iterable[GroupFault], *, offline: bool) -> None:
    lines = [_line(fault) for fault in faults]
    for line in lines or [f"{escape(str(path))}: ok{' (no server asked)' if offline else ''}"]:
        console.out().print(line)


def _line(fault: GroupFault) -> str:
    of = "" if fault.reason == Reason.SPEC_INVALID else f" ({fault.reason})"
    # A message about a line of YAML begins with the file already.
    place = "" if fault.message.startswith(f"{fault.file}:") else f"{fault.file}: "
    return escape(f"{place}{fault.message}{of}")


def _as_json(faults: Iterable[GroupFault], warnings: Iterable[str]) -> dict[str, object]:
    return {
        "faults": [
            {
                "file": str(fault.file),
                "reason": fault.reason,
                "message": fault.message,
                "may_pass": fault.may_pass,
            }
            for fault in faults
        ],
        "warnings": list(warnings),
    }
