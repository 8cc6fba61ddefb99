"""``landfall backfill``: plan, run, status and discard of a side lane."""

import argparse
import logging
from collections.abc import Callable, Mapping
from dataclasses import dataclass, replace
from datetime import UTC, datetime
from functools import cached_property

import msgspec
from rich.markup import escape

from landfall.api.contract import ExitCode, PartitionStatus, Status
from landfall.api.next_steps import backfill_step
from landfall.api.spec import ConsumerGroup, GroupSpec
from landfall.cli.group_store import GroupStore
from landfall.cli.land.run import log_to_stderr
from landfall.cli.text import console
from landfall.cli.text.log_lines import Printed
from landfall.cli.text.progress import progress
from landfall.driver.backfill.landed_ledger import read_chosen, read_landed
from landfall.driver.backfill.side_lane import (
    PLAN,
    SidePlan,
    discard,
    read_plan,
    side_lane,
    side_plan,
    side_spec,
    store_plan,
)
from landfall.driver.backfill.side_leftovers import delete_leftovers
from landfall.driver.decide.backfill import Backfill, SliceChoice
from landfall.driver.decide.counting import Ranges, output_partition
from landfall.driver.decide.landed_now import LandedNow
from landfall.driver.decide.promotion import check_landed
from landfall.driver.http.status import StatusReport
from landfall.errors import Reason, Stalled
from landfall.lane.stores import open_stores
from landfall.ledger.offsets import TopicPartition
from landfall.ledger.task_results import ObjectKind
from landfall.store import Store


@dataclass(frozen=True)
class OpenBackfill:
    """A backfill of a group, whether or not it is planned."""

    live: GroupStore
    name: str

    @cached_property
    def spec(self) -> GroupSpec:
        """The group's spec with the roots of the side lane."""
        return side_spec(self.live.group, self.name)

    @cached_property
    def store(self) -> Store:
        """The store of the side lane."""
        return open_stores(self.spec)

    @cached_property
    def plan(self) -> SidePlan:
        """The plan that is stored."""
        return read_plan(self.store, self.name)

    def live_now(self, within: Ranges) -> LandedNow:
        """Return the live group's objects of some ranges."""
        return read_landed(self.live.lane, self.live.store, within)

    def landed(self) -> LandedNow:
        """Return the side lane's objects."""
        return read_landed(side_lane(self.live.group, self.store))

    @property
    def promoted(self) -> int:
        """The slot of the live ledger in which it is promoted; -1 if it is not."""
        return read_landed(self.live.lane, within=self.plan.offsets).promotions.of(self.name)

    def check_landed(self, landed: LandedNow) -> None:
        """Raise ``Stalled`` unless the side lane has landed exactly its ranges."""
        ids = [(range_.topic_partition, range_.topic_id) for range_ in self.plan.ranges]
        check_landed(landed, self.plan.slices, ids)


def backfill(arguments: argparse.Namespace) -> ExitCode:
    """Execute a command below ``backfill``.

    Raises:
        Stalled: SPEC_INVALID, the names or the choice are wrong.
        Retry: a store does not answer, or something chosen is not visible yet.
    """
    opened = OpenBackfill(GroupStore.of(arguments.group), arguments.name)
    _ = opened.spec  # an invalid name is refused before anything is read
    return _ACTIONS[arguments.action](opened, arguments)


# ---------------------------------------------------------------------------------------- plan


def _plan(opened: OpenBackfill, arguments: argparse.Namespace) -> ExitCode:
    plan, found = make_plan(opened, arguments, is_stored=not arguments.dry_run)
    if arguments.json:
        print(msgspec.json.encode(plan).decode())
        for growth in found.growths:
            console.err().print(f"grew  {escape(str(growth))}")
    else:
        _show_plan(opened, plan, found)
        if arguments.dry_run:
            console.err().print("nothing is written: --dry-run")
    return ExitCode.OK


def make_plan(
    opened: OpenBackfill, arguments: argparse.Namespace, *, is_stored: bool
) -> tuple[SidePlan, Backfill]:
    """Plan what the arguments choose, and store the plan if ``is_stored``.

    Raises:
        Stalled: SPEC_INVALID, nothing is chosen, or something that cannot be landed again; or
            another plan has this name.
        NothingToCheck: the group has no ledger.
        Retry: a store does not answer, or something chosen is not visible yet.
    """
    live, now = opened.live, datetime.now(UTC)
    if not live.group.spec.source.landed:
        live.group.spec.source.require_kafka()
    if live.lane.read().seq < 0:
        raise console.no_ledger(live.name, live.group.spec.ledger_root.url)
    choice = SliceChoice(
        topics=frozenset(arguments.topic),
        since=now - arguments.last if arguments.last else arguments.landed_from,
        until=arguments.landed_until,
        generations=arguments.generations,
        output_partitions=tuple(arguments.output_partition),
        keys=arguments.objects,
        share=arguments.share,
        is_sample=arguments.may_shrink,
    )
    landed, found = read_chosen(live.lane, live.store, choice)
    plan = side_plan(
        name=opened.name,
        landed=landed,
        backfill=found,
        generation=live.group.spec.generation,
        now=now,
    )
    if is_stored:
        store_plan(opened.store, plan)
        delete_leftovers(live.store, live.name, now)
    return plan, found


def _show_plan(opened: OpenBackfill, plan: SidePlan, found: Backfill) -> None:
    table = console.table("TOPIC", ">PARTITION", ">FROM", ">TO", ">OFFSETS")
    for slice_ in plan.slices:
        tp, offsets = slice_.topic_partition, slice_.offsets
        length = console.count(len(offsets))
        table.add_row(
            escape(tp.topic), str(tp.partition), str(offsets.start), str(offsets.end), length
        )
    out = console.out()
    out.print(table)
    retiring = plan.retiring
    folders = {output_partition(object_.key) for object_ in found.of(ObjectKind.DATA)}
    facts = {
        "objects": console.count(retiring.objects),
        "rows": console.count(retiring.rows),
        "bytes": console.size(retiring.bytes),
        "dead letters": console.count(retiring.dead_letters),
        "output partitions": console.count(len(folders)),
        "generation": plan.generation,
        "ledger slot": plan.read_through,
    }
    if found.cut:
        facts["objects to cut"] = console.count(len(found.cut))
    if found.between:
        facts["offsets between chosen slices"] = console.count(found.between)
    out.print(console.facts(facts))
    for growth in found.growths:
        out.print(f"grew  {escape(str(growth))}")
    out.print(f"root  {escape(opened.spec.output.url)}")


# ----------------------------------------------------------------------------------------- run


def _run(opened: OpenBackfill, arguments: argparse.Namespace) -> ExitCode:
    # The other commands need neither Spark nor Kafka.
    from landfall.driver.process.run import RunOptions, run_group  # noqa: PLC0415

    group = group_to_run(opened, arguments)
    options = RunOptions(
        goal=opened.plan.goal,
        max_wait=arguments.max_wait,
        master=f"local[{arguments.max_cores}]",
        http_port=0,
    )
    failures = Printed()
    shown = progress(console.err(), has_end=True, as_json=arguments.json, failures=failures)
    with shown as show_status:
        # Inside this block, as in ``landfall.cli.land.run``.
        log_to_stderr(logging.INFO if arguments.verbose else logging.WARNING, failures)
        code = run_group(group, options, with_way_out(show_status, opened.name))
    if code is ExitCode.OK:
        opened.check_landed(opened.landed())
    return code


def with_way_out(show: Callable[[StatusReport], None], name: str) -> Callable[[StatusReport], None]:
    """Show reports in which stopped topic partitions have the next step of a backfill.

    Args:
        show: takes the reports.
        name: of the backfill.
    """

    def of_backfill(p: PartitionStatus) -> PartitionStatus:
        if not (p.blocked and p.next_step):
            return p
        return replace(p, next_step=backfill_step(Reason(p.blocked), name))

    def shown(report: StatusReport) -> None:
        def complete(summary: Status) -> Status:
            status = report.complete(summary)
            return replace(status, partitions=tuple(map(of_backfill, status.partitions)))

        show(StatusReport(report.summary, complete))

    return shown


def group_to_run(opened: OpenBackfill, arguments: argparse.Namespace) -> ConsumerGroup:
    """The group that lands the plan, from the source of the live group or from a backup.

    Raises:
        Stalled: SPEC_INVALID, the group has another generation than the plan, or the backup does
            not have all of the ranges.
        Retry: a store does not answer.
    """
    from landfall.driver.backfill.side_source import side_group_of  # noqa: PLC0415  # as above

    backup = GroupStore.of(arguments.backup).group if arguments.backup else None
    live, now = opened.live.group, lambda: datetime.now(UTC)
    return side_group_of(group=live, plan=opened.plan, store=opened.store, backup=backup, clock=now)


# -------------------------------------------------------------------------------------- status


def _status(opened: OpenBackfill, arguments: argparse.Namespace) -> ExitCode:
    plan, landed = opened.plan, opened.landed()
    reached = {
        slice_.topic_partition: _reached(landed, slice_.topic_partition, slice_.offsets.start)
        for slice_ in plan.slices
    }
    try:
        opened.check_landed(landed)
        waits = ""
    except Stalled as error:
        waits = str(error)
    promoted = opened.promoted
    if arguments.json:
        print(msgspec.json.encode(_as_document(plan, reached, waits, promoted)).decode())
        return ExitCode.OK
    table = console.table("TOPIC", ">PARTITION", ">FROM", ">TO", ">LANDED TO", ">LANDED")
    for slice_ in plan.slices:
        tp, offsets = slice_.topic_partition, slice_.offsets
        share = (reached[tp] - offsets.start) / len(offsets)
        numbers = (tp.partition, offsets.start, offsets.end, reached[tp])
        table.add_row(escape(tp.topic), *map(str, numbers), f"{share:.0%}")
    console.out().print(table)
    done = f"it is promoted, in slot {promoted}" if promoted >= 0 else ""
    console.out().print(escape(done or waits or "it is landed: compare it, and promote it"))
    return ExitCode.OK


def _reached(landed: LandedNow, tp: TopicPartition, start: int) -> int:
    present = landed.present(tp)
    return present[-1].piece.offsets.end if present else start


def _as_document(
    plan: SidePlan, reached: Mapping[TopicPartition, int], waits: str, promoted: int
) -> Mapping[str, object]:
    return {
        "name": plan.name,
        "generation": plan.generation,
        "landed": not waits,
        "waits": waits,
        "promoted_in": promoted if promoted >= 0 else None,
        "ranges": [
            {
                "topic": slice_.topic_partition.topic,
                "partition": slice_.topic_partition.partition,
                "start": slice_.offsets.start,
                "end": slice_.offsets.end,
                "landed_to": reached[slice_.topic_partition],
            }
            for slice_ in plan.slices
        ],
    }


# ------------------------------------------------------------------------------------- discard


def _discard(opened: OpenBackfill, arguments: argparse.Namespace) -> ExitCode:
    if arguments.if_planned and opened.store.read(PLAN) is None:
        if arguments.json:
            console.print_json({"name": opened.name, "planned": False, "deleted_objects": 0})
        else:
            console.err().print(f"{escape(opened.name)}: it is not planned, so there is nothing")
        return ExitCode.OK
    live = opened.live
    delete_leftovers(live.store, live.name, datetime.now(UTC))
    count = discard(live.group, opened.store, opened.name, lambda: datetime.now(UTC))
    if arguments.json:
        console.print_json({"name": opened.name, "planned": True, "deleted_objects": count})
    else:
        console.err().print(f"{escape(opened.name)}: {console.counted(count, 'object')} deleted")
    return ExitCode.OK


_ACTIONS: Mapping[str, Callable[[OpenBackfill, argparse.Namespace], ExitCode]] = {
    "plan": _plan,
    "run": _run,
    "status": _status,
    "discard": _discard,
}
