"""``landfall files take``, ``done``, ``failed``, ``return`` and ``extend``: leases of files."""

import argparse
import os
from dataclasses import dataclass
from datetime import timedelta
from pathlib import Path
from uuid import uuid4

import msgspec
import stamina
from rich.markup import escape

from landfall.api.contract import ExitCode
from landfall.api.verbs import (
    Answer,
    ExtendLeaseRequest,
    FilesDoneRequest,
    FilesFailedRequest,
    LeaseAnswer,
    LeaseRequest,
    Outcome,
    ReturnFilesRequest,
    TakeFilesRequest,
)
from landfall.cli.decide.driver_control import DriverControl
from landfall.cli.decide.verb import EXIT_CODES, driver_to_ask, group_path, lane_session, show, who
from landfall.cli.text import console
from landfall.errors import Reason, Retry, Stalled

TRIES = 5
"""How often an unanswered request is sent: with the same id, it is executed once."""
FILE_SUFFIXES = (".yaml", ".yml", ".json")
"""How the name of a group's file ends."""


@dataclass(frozen=True, slots=True)
class _Target:
    """The target of ``[GROUP.yaml] FEED`` or ``[GROUP.yaml] LEASE [FILE …]``."""

    group: str
    subject: str
    files: tuple[str, ...]

    @classmethod
    def of(cls, words: list[str]) -> "_Target":
        has_group = words[0].endswith(FILE_SUFFIXES) and len(words) > 1
        group, rest = (words[0], words[1:]) if has_group else ("", words)
        return cls(group, rest[0], tuple(rest[1:]))

    @property
    def lease(self) -> int:
        if not self.subject.isdecimal():
            raise Stalled(Reason.SPEC_INVALID, f"{self.subject}: not the number of a lease")
        return int(self.subject)


def leases(arguments: argparse.Namespace) -> ExitCode:
    """Lease files, or report their outcome, and print the answer."""
    target = _Target.of(arguments.target)
    try:
        request = _request(arguments, target)
    except ValueError as error:
        raise Stalled(Reason.SPEC_INVALID, str(error)) from error
    if driver := driver_to_ask(arguments, os.environ):
        answer = _ask(driver, request)
    else:
        with lane_session(Path(group_path(target.group))) as session:
            answer = session.carry_out(request, take_over=arguments.take_over)
    is_taken = answer.outcome is Outcome.DONE and isinstance(request, TakeFilesRequest)
    # With or without files, the answer has one shape for programs.
    shown = _show_taken if is_taken else show
    return shown(answer, as_json=arguments.json)


def _ask(driver: DriverControl, request: LeaseRequest) -> Answer:
    for attempt in stamina.retry_context(on=Retry, attempts=TRIES, timeout=60):
        with attempt:
            return driver.ask(request)
    raise AssertionError("the last attempt returns or raises")


def _request(arguments: argparse.Namespace, target: _Target) -> LeaseRequest:
    name, id_ = arguments.holder or who(), arguments.id or uuid4().hex
    if arguments.verb == "files-take":
        if target.files:
            raise ValueError(f"take names a feed, and no files: {target.files[0]}")
        seconds = _seconds(arguments.lease)
        return TakeFilesRequest(
            who=name, id=id_, topic=target.subject, limit=arguments.limit, lease_seconds=seconds
        )
    if arguments.verb == "files-extend":
        seconds = _seconds(arguments.lease)
        return ExtendLeaseRequest(who=name, id=id_, lease=target.lease, lease_seconds=seconds)
    numbers, names = tuple(arguments.number), target.files
    if arguments.verb == "files-failed":
        why = arguments.why
        return FilesFailedRequest(
            who=name, id=id_, why=why, lease=target.lease, numbers=numbers, names=names
        )
    kind = FilesDoneRequest if arguments.verb == "files-done" else ReturnFilesRequest
    return kind(who=name, id=id_, lease=target.lease, numbers=numbers, names=names)


def _seconds(lease: timedelta) -> int:
    return int(lease.total_seconds())


def _show_taken(answer: Answer, *, as_json: bool) -> ExitCode:
    assert isinstance(answer, LeaseAnswer)
    out = console.out()
    if as_json:
        lease = {"lease": answer.lease, "until": answer.until, "files": answer.files}
        out.print(msgspec.json.encode(lease).decode(), markup=False, soft_wrap=True)
    elif answer.lease is None:
        out.print(answer.message, markup=False)
    else:
        table = console.table("number", "file", ">size", ">attempt")
        for file in answer.files:
            row = (str(file.number), escape(file.name), console.size(file.size), str(file.attempt))
            table.add_row(*row)
        out.print(table)
        out.print(f"lease {answer.lease}, until {answer.until}", markup=False)
    return EXIT_CODES[answer.outcome]
