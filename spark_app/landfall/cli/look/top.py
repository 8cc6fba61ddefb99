"""``landfall top``: all groups of a root, with their present rates, refreshed repeatedly."""

import argparse
import sys
import time
from collections.abc import Iterator, Mapping
from dataclasses import dataclass, field
from datetime import UTC, datetime

from rich.live import Live
from rich.markup import escape
from rich.table import Table

from landfall.api.contract import ExitCode
from landfall.cli.text import console
from landfall.cli.text.meter import Meter
from landfall.errors import Reason, Stalled
from landfall.lane import Lane
from landfall.ledger import State
from landfall.reading import open_ledgers

_COLUMNS = ("group", "state", ">records/s", ">bytes/s", ">records", ">objects", ">last commit")


@dataclass
class Watched:
    """A group and its landing rate."""

    records: Meter = field(default_factory=Meter)
    size: Meter = field(default_factory=Meter)
    state: State | None = None
    error: str = ""

    def read(self, lane: Lane, now: float) -> None:
        """Read its ledger again."""
        try:
            self.state = lane.read()
            self.error = ""
        except Stalled as error:
            if error.reason is not Reason.LEDGER_BROKEN:
                raise
            self.error = str(error)
            return
        totals = self.state.totals
        self.records.add(now, totals.landed + totals.dead_lettered)
        self.size.add(now, totals.landed_bytes)


def top(arguments: argparse.Namespace) -> ExitCode:
    """Show the groups of a root until interrupted, or so many times.

    Raises:
        Stalled: SPEC_INVALID, it is no URL.
        NothingToCheck: no group has its ledger there.
        Retry: the store does not answer.
    """
    if "://" not in arguments.url:
        message = f"{arguments.url}: not a URL, such as s3://logs/parsed"
        raise Stalled(Reason.SPEC_INVALID, message)
    rounds = _rounds(arguments)
    if arguments.json or not sys.stdout.isatty():
        for groups in rounds:
            _print(groups, as_json=arguments.json)
        return ExitCode.OK
    with Live(console=console.out(), auto_refresh=False) as live:
        for groups in rounds:
            live.update(_table(groups, datetime.now(UTC)), refresh=True)
    return ExitCode.OK


def _rounds(arguments: argparse.Namespace) -> Iterator[Mapping[str, Watched]]:
    groups: dict[str, Watched] = {}
    done = 0
    while True:
        for lane in open_ledgers(arguments.url):
            groups.setdefault(lane.group, Watched()).read(lane, time.monotonic())
        groups = {name: group for name, group in groups.items() if _is_there(group)}
        if not groups:
            raise console.NothingToCheck(f"{arguments.url}: no group has its ledger there")
        yield groups
        done += 1
        if done == arguments.count:
            return
        time.sleep(arguments.interval.total_seconds())


def _is_there(group: Watched) -> bool:
    return bool(group.error) or (group.state is not None and group.state.seq >= 0)


def _print(groups: Mapping[str, Watched], *, as_json: bool) -> None:
    if as_json:
        console.print_json([_as_json(name, groups[name]) for name in _fastest_first(groups)])
    else:
        console.out().print(_table(groups, datetime.now(UTC)))
    sys.stdout.flush()


def _fastest_first(groups: Mapping[str, Watched]) -> list[str]:
    return sorted(groups, key=lambda name: (-(groups[name].records.rate or 0), name))


def _table(groups: Mapping[str, Watched], now: datetime) -> Table:
    table = console.table(*_COLUMNS)
    for name in _fastest_first(groups):
        group = groups[name]
        if group.error or group.state is None:
            table.add_row(escape(name), "broken", "", "", "", "", escape(group.error), style="red")
            continue
        totals = group.state.totals
        speed, size = group.records.rate, group.size.rate
        table.add_row(
            escape(name),
            str(group.state.holding),
            "" if speed is None else console.count(speed),
            "" if size is None else console.size(size),
            console.count(totals.landed),
            console.count(totals.present_objects),
            console.ago(group.state.last_commit_time, now),
        )
    return table


def _as_json(name: str, group: Watched) -> dict[str, object]:
    if group.error or group.state is None:
        return {"group": name, "error": group.error}
    totals = group.state.totals
    return {
        "group": name,
        "state": str(group.state.holding),
        "records_per_second": group.records.rate,
        "bytes_per_second": group.size.rate,
        "records": totals.landed,
        "objects": totals.present_objects,
        "last_commit": group.state.last_commit_time,
        "error": None,
    }
