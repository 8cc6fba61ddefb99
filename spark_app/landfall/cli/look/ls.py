"""``landfall ls``: the groups whose ledgers are in a root, and when each last landed something."""

import argparse
import sys
from collections.abc import Iterator
from dataclasses import dataclass

import msgspec

from landfall.api.contract import ExitCode
from landfall.cli.text import console
from landfall.errors import Reason, Stalled
from landfall.lane import Lane
from landfall.ledger import State
from landfall.ledger.effects import RangeLanded, effects
from landfall.logs import visible
from landfall.reading import open_ledgers


@dataclass(frozen=True, slots=True)
class ListedGroup:
    """A group as ``landfall ls --json`` prints it; all but its name is None if it cannot be read.

    Attributes:
        group: its name.
        state: of its lane: held by a driver, or yielded.
        generation: of the last driver.
        topics: how many topics are landed.
        slots: how many slots its ledger has.
        last_commit: when something was last landed, ISO 8601 in UTC; None if nothing was.
        error: why its ledger cannot be read.
    """

    group: str
    state: str | None = None
    generation: int | None = None
    topics: int | None = None
    slots: int | None = None
    last_commit: str | None = None
    error: str | None = None


def ls(arguments: argparse.Namespace) -> ExitCode:
    """Print the groups of a root; the exit code is FAULT if a ledger is broken.

    Raises:
        Stalled: SPEC_INVALID, it is no URL.
        Retry: the store does not answer.
    """
    if "://" not in arguments.url:
        message = f"{arguments.url}: not a URL, such as s3://logs/parsed"
        raise Stalled(Reason.SPEC_INVALID, message)
    found = broken = 0
    for group in _groups(arguments.url):
        if not found and not arguments.json:
            _print_line("group", "state", "generation", "topics", "slots", "last commit")
        _print(group, as_json=arguments.json)
        found += 1
        broken += group.error is not None
    if not found:
        raise console.NothingToCheck(f"{arguments.url}: no group has its ledger there")
    return ExitCode.FAULT if broken else ExitCode.OK


def _groups(url: str) -> Iterator[ListedGroup]:
    for lane in open_ledgers(url):
        try:
            state = lane.read()
            if state.seq >= 0:
                yield _listed(lane, state)
        except Stalled as error:
            if error.reason is not Reason.LEDGER_BROKEN:
                raise
            yield ListedGroup(lane.group, error=str(error))


def _listed(lane: Lane, state: State) -> ListedGroup:
    last = next(
        (
            effect.time
            for record in lane.records_back(state)
            for effect in effects(record)
            if isinstance(effect, RangeLanded)
        ),
        None,
    )
    return ListedGroup(
        group=lane.group,
        state=str(state.holding),
        generation=state.generation,
        topics=len({tp.topic for tp in state.members}),
        slots=state.seq + 1,
        last_commit=last,
    )


def _print(group: ListedGroup, *, as_json: bool) -> None:
    if as_json:
        sys.stdout.write(f"{msgspec.json.encode(group).decode()}\n")
        return
    if group.error is not None:
        _print_line(group.group, "broken", "", "", "", group.error)
        return
    time = console.instant(group.last_commit) if group.last_commit else None
    shown = f"{time:%Y-%m-%dT%H:%M:%SZ}" if time else group.last_commit or "never"
    numbers = (group.generation, group.topics, group.slots)
    cells = (console.count(number or 0) for number in numbers)
    _print_line(group.group, group.state or "", *cells, shown)


def _print_line(*cells: str) -> None:
    # Not a table, which would need all lines first.
    name, state, generation, topics, slots, last = cells
    line = f"{name:<30}  {state:<8}  {generation:>10}  {topics:>6}  {slots:>10}  {last}"
    sys.stdout.write(f"{visible(line)}\n")
