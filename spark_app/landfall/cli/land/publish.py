"""``landfall publish``: publishes landed objects without a driver; ``--rebuild`` starts again."""

import argparse
from dataclasses import asdict, dataclass

import msgspec
import stamina
from rich.markup import escape

from landfall.api.contract import LANE, ExitCode
from landfall.api.spec.publish import PublisherEntry
from landfall.cli.group_store import GroupStore
from landfall.cli.text import console
from landfall.cli.text.meter import Progress, advancing
from landfall.driver.process.publishing import describe
from landfall.errors import Reason, Retry, Stalled
from landfall.publish.building import publisher
from landfall.publish.context import Context

TRIES = 5
"""How often a publisher retries when its destination does not answer."""


@dataclass(frozen=True)
class PublisherOutcome:
    """The outcome of one publisher. It has the fields of ``publish --json``.

    Attributes:
        name: of the publisher.
        type: of the publisher.
        slot: the last slot of the ledger whose effects are in the destination; -1 for none.
        objects: that were published.
        refilled: tables that had lost objects published before.
        steps: the steps that a dry run would take.
        error: why it failed; empty if it did not.
    """

    name: str
    type: str
    slot: int = -1
    objects: int = 0
    refilled: tuple[str, ...] = ()
    steps: tuple[str, ...] = ()
    error: str = ""


def publish(arguments: argparse.Namespace) -> ExitCode:
    """Publish, and print what was done; a publisher that fails does not stop the rest.

    Raises:
        Stalled: SPEC_INVALID, there is no such publisher, or an entry cannot be built.
    """
    opened = GroupStore.of(arguments.group)
    entries = opened.publishers(arguments.names)
    if arguments.rebuild and not arguments.names:
        raise Stalled(Reason.SPEC_INVALID, "publish --rebuild: name the publishers to rebuild")
    last = opened.lane.read().seq
    if last < 0:
        raise console.no_ledger(opened.name, opened.group.spec.ledger_root.url)
    codes = [ExitCode.OK]
    for entry in entries:
        try:
            with advancing(f"publish {entry.name}", "ledger slots", last) as progress:
                how = _How(arguments.rebuild, arguments.dry_run, progress)
                outcome = _run(opened, entry, how)
        except (Retry, Stalled) as error:
            outcome = PublisherOutcome(entry.name, entry.type, error=describe(error))
            codes.append(ExitCode.UNAVAILABLE if isinstance(error, Retry) else ExitCode.STALLED)
        _show(outcome, as_json=arguments.json, dry_run=arguments.dry_run)
    return min(codes, key=lambda code: (code is not ExitCode.STALLED, -code))


@dataclass(frozen=True)
class _How:
    """The mode of publishing, and its progress display."""

    rebuild: bool
    dry_run: bool
    progress: Progress


def _run(opened: GroupStore, entry: PublisherEntry, how: _How) -> PublisherOutcome:
    rebuild, built = how.rebuild, publisher(opened.group, entry, opened.store)
    context = Context(opened.group, entry, LANE, opened.store)
    outcome = PublisherOutcome(entry.name, entry.type)
    for attempt in stamina.retry_context(on=Retry, attempts=TRIES, wait_max=10, timeout=120):
        with attempt:
            if how.dry_run:
                steps = ["begin again, from the start of the ledger"] if rebuild else []
                steps += [] if rebuild else built.preview(context.follower())
                return PublisherOutcome(
                    entry.name, entry.type, built.position(), steps=tuple(steps)
                )
            if rebuild:
                built.reset(context.follower())
                rebuild = False
            done = built.publish(context.follower(how.progress))
            refilled = tuple(done.refilled)
            outcome = PublisherOutcome(
                name=entry.name,
                type=entry.type,
                slot=done.through,
                objects=done.objects,
                refilled=refilled,
            )
    return outcome


def _show(outcome: PublisherOutcome, *, as_json: bool, dry_run: bool) -> None:
    if as_json:
        console.out().print(msgspec.json.encode(asdict(outcome)).decode(), markup=False)
        return
    head = escape(f"{outcome.name} ({outcome.type})")
    if outcome.error:
        console.print_error(f"{outcome.name} ({outcome.type})", outcome.error)
    elif dry_run:
        console.out().print(f"{head}: {'would' if outcome.steps else 'nothing to publish'}")
        for step in outcome.steps:
            console.out().print(f"  {step}", markup=False)
    else:
        what = console.counted(outcome.objects, "object") if outcome.objects else "nothing new"
        console.out().print(f"{head}: {what}, through slot {outcome.slot} of the ledger")
        for table in outcome.refilled:
            console.out().print(f"  filled again: {table}", markup=False)
