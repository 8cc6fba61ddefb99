"""``landfall backfill land``: plan, land and compare in one command that may be run again.

Each step stores the input of the next one, so a restarted process, such as a pod, continues: a plan
is made once, landing continues by the ledger of the side lane, and the report contains the
comparison. A report records the outcome; ``_landfall/report.json`` keeps a good one.
"""

import argparse
import logging
from collections.abc import Callable, Iterator, Mapping
from contextlib import ExitStack, contextmanager
from pathlib import Path
from typing import Final

from landfall.api.backfill_report import (
    BackfillReport,
    LandingPhase,
    OldAndNew,
    RowCounts,
    parse_report,
    termination_message,
)
from landfall.api.contract import ExitCode, Status
from landfall.cli.group_store import GroupStore
from landfall.cli.land.backfill import OpenBackfill, group_to_run, make_plan, with_way_out
from landfall.cli.land.backfill_compare import as_text, compared, totals
from landfall.cli.land.run import log_to_stderr
from landfall.cli.text import console
from landfall.cli.text.log_lines import Printed
from landfall.cli.text.progress import progress
from landfall.driver.backfill.side_lane import PLAN, SidePlan
from landfall.driver.decide.backfill import NothingChosen
from landfall.driver.http.report import serve_report
from landfall.driver.http.status import StatusReport
from landfall.driver.landing.goals import Goal, GoalParts
from landfall.errors import Fenced, LettersDenied, Reason, Retry, Stalled, StoreDenied
from landfall.ledger.names.object_names import SYSTEM
from landfall.ledger.offsets import TopicPartition
from landfall.logs import log_as_json
from landfall.reading.comparing import FolderDifference

log = logging.getLogger(__name__)

REPORT: Final = f"{SYSTEM}/report.json"
"""Key of the report in the root of a side lane, after the comparison."""
MAX_SAMPLES = 10
MAX_SAMPLE = 300
"""Characters of a line of the sample."""
INTERRUPTED = "Interrupted"
NOTHING_CHOSEN = "NothingChosen"


class Reporter:
    """Holds the report, for the thread that serves it, and writes it at the end."""

    def __init__(self, termination_file: Path) -> None:
        """Write the last report to the file, if it exists: Kubernetes creates it."""
        self._file = termination_file
        self.report = BackfillReport()

    def update(self, **changed: object) -> None:
        """Change fields of the report."""
        self.report = self.report.changed(**changed)

    def body(self) -> bytes:
        """The report as JSON."""
        return self.report.as_json().encode()

    def write(self) -> None:
        """Write the termination message; without it, only the exit code is known."""
        try:
            if self._file.exists():
                self._file.write_text(termination_message(self.report), "utf-8")
        except OSError as error:
            log.warning("termination message not written", extra={"why": str(error)})


def backfill_land(arguments: argparse.Namespace) -> ExitCode:
    """Plan, land and compare; the exit code is OK once that is done, with or without differences.

    Raises:
        Stalled: as ``plan``, ``run`` and ``compare``; running it again does not help.
        NothingToCheck: the group has no ledger.
        Fenced: another process lands there, or discards it.
        Retry: a store or Kafka does not answer, or something chosen is not visible yet.
    """
    reporter = Reporter(arguments.termination_file)
    with _reported(reporter), ExitStack() as stack:
        if arguments.http_port is not None:
            server = serve_report(arguments.host, arguments.http_port, reporter.body)
            stack.callback(server.shutdown)
        opened = OpenBackfill(GroupStore.of(arguments.group), arguments.name)
        code = _land(opened, arguments, reporter)
    if arguments.json:
        arguments.json.write_bytes(reporter.body())
    if code is ExitCode.OK:
        print(summary(reporter.report))
    return code


@contextmanager
def _reported(reporter: Reporter) -> Iterator[None]:
    """Write the report at any end of the block."""
    try:
        yield
    except NothingChosen as error:
        reporter.update(phase=LandingPhase.FAILED, reason=NOTHING_CHOSEN, message=str(error))
        raise
    except Stalled as error:
        reporter.update(phase=LandingPhase.FAILED, reason=error.reason, message=str(error))
        raise
    except console.NothingToCheck as error:
        reporter.update(phase=LandingPhase.FAILED, reason="NothingToCheck", message=str(error))
        raise
    except (Retry, Fenced) as error:
        is_denied = isinstance(error, StoreDenied | LettersDenied)
        reason = Reason.STORE_DENIED if is_denied else type(error).__name__
        reporter.update(reason=reason, message=str(error))
        raise
    finally:
        reporter.write()


def _land(opened: OpenBackfill, arguments: argparse.Namespace, reporter: Reporter) -> ExitCode:
    if done := _stored(opened):
        reporter.report = done
        return ExitCode.OK
    plan = _planned(opened, arguments)
    ends = {slice_.topic_partition: slice_.offsets.end for slice_ in plan.slices}
    offsets = sum(len(slice_.offsets) for slice_ in plan.slices)
    reporter.update(phase=LandingPhase.LANDING, offsets=offsets)
    if not _is_landed(opened):
        code = _run(opened, arguments, reporter)
        if code is not ExitCode.OK:
            return code
    reporter.update(phase=LandingPhase.COMPARING, landed_offsets=offsets, message="", reason="")
    log.info("comparison started", extra={"topic_partitions": len(ends)})
    report = compared_report(reporter.report, list(compared(opened, arguments.sample)))
    opened.store.create(REPORT, report.as_json().encode())
    reporter.report = _stored(opened) or report
    return ExitCode.OK


def _stored(opened: OpenBackfill) -> BackfillReport | None:
    """The report of an earlier run that compared all."""
    body = opened.store.read(REPORT)
    if body is None:
        return None
    _ = opened.plan  # a backfill that was discarded is refused
    return parse_report(body)


def _planned(opened: OpenBackfill, arguments: argparse.Namespace) -> SidePlan:
    if opened.store.read(PLAN) is None:
        plan, _ = make_plan(opened, arguments, is_stored=True)
        log.info(
            "backfill planned", extra={"topic_partitions": len(plan.ranges), "backfill": plan.name}
        )
    return opened.plan


def _is_landed(opened: OpenBackfill) -> bool:
    try:
        opened.check_landed(opened.landed())
    except Stalled:
        return False  # its driver and the comparison report its faults
    return True


# ----------------------------------------------------------------------------------------- run


def _run(opened: OpenBackfill, arguments: argparse.Namespace, reporter: Reporter) -> ExitCode:
    """Land the ranges; return the driver's exit code, or UNFINISHED if it was interrupted.

    Raises:
        Stalled: it ended well, but has not landed exactly the plan.
    """
    # The other commands need neither Spark nor Kafka.
    from landfall.driver.process.run import RunOptions, run_group  # noqa: PLC0415

    made: list[Goal] = []

    def goal(parts: GoalParts) -> Goal:
        made.append(opened.plan.goal(parts))
        return made[-1]

    group = group_to_run(opened, arguments)
    master = arguments.master or f"local[{arguments.max_cores}]"
    of_spark = None if master == "configured" else master
    options = RunOptions(goal=goal, master=of_spark, http_port=0)
    watch = progress_of(opened.plan, reporter)
    with _shown(verbose=arguments.verbose) as shown:
        show = with_way_out(shown, opened.name)
        code = run_group(group, options, lambda report: (watch(report), show(report))[0])
    if made and not made[-1].is_done and code in {ExitCode.UNFINISHED, ExitCode.STALLED}:
        reporter.update(reason=INTERRUPTED, message="stopped before all was landed")
        return ExitCode.UNFINISHED
    if code is ExitCode.OK:
        opened.check_landed(opened.landed())
    elif code is ExitCode.STALLED:  # records that it could not land would fail again
        reporter.update(phase=LandingPhase.FAILED)
        log.error("backfill not landed", extra={"why": reporter.report.message})
    return code


@contextmanager
def _shown(*, verbose: bool) -> Iterator[Callable[[StatusReport], None]]:
    """Show the progress on a terminal; elsewhere, as in a pod, log events as JSON lines."""
    if not console.err().is_terminal:
        log_as_json()
        yield lambda _: None
        return
    failures = Printed()
    with progress(console.err(), has_end=True, failures=failures) as show:
        log_to_stderr(logging.INFO if verbose else logging.WARNING, failures)
        yield show


def progress_of(plan: SidePlan, reporter: Reporter) -> Callable[[StatusReport], None]:
    """Return a callback that puts the status of the driver into the report."""
    ranges = {slice_.topic_partition: slice_.offsets for slice_ in plan.slices}

    def update(report: StatusReport) -> None:
        status = report.status
        reached = {TopicPartition(p.topic, p.partition): p.checkpoint for p in status.partitions}
        landed = sum(
            max(0, min(reached[tp], offsets.end) - offsets.start)
            for tp, offsets in ranges.items()
            if tp in reached
        )
        reporter.update(
            landed_offsets=max(landed, reporter.report.landed_offsets),
            records_per_second=round(status.rates.records_per_second),
            reason=next((p.blocked for p in status.partitions if p.blocked), ""),
            message=_message(status),
        )

    return update


def _message(status: Status) -> str:
    """Return the present problem; empty if there is none."""
    blocked = [f"{p.topic}/{p.partition}: {p.message}" for p in status.partitions if p.blocked]
    failed = status.commits.last_failure if status.commits.consecutive_failures else None
    return "; ".join([status.message] if status.message else blocked[:3]) or (
        f"{failed.reason}: {failed.message}" if failed else ""
    )


# ------------------------------------------------------------------------------------- report


def compared_report(before: BackfillReport, found: list[FolderDifference]) -> BackfillReport:
    """The report after the comparison."""
    data, letters = totals(found)
    folders = [difference for difference in found if not difference.has_dead_letters]
    old, new = data.old, data.new
    rows = RowCounts(old=old.rows, new=new.rows, only_old=data.only_old, only_new=data.only_new)
    return before.changed(
        phase=LandingPhase.COMPARED,
        rows=rows,
        dead_letters=OldAndNew(old=letters.old.rows, new=letters.new.rows),
        bytes=OldAndNew(old=old.bytes, new=new.bytes),
        output_partitions=len(folders),
        differing=sum(not difference.is_same for difference in folders),
        sample=tuple(_samples(found))[:MAX_SAMPLES],
        reason="",
        message=_result(data, letters),
    )


def _samples(found: list[FolderDifference]) -> Iterator[str]:
    for difference in found:
        yield from (f"damaged  {why}" for why in difference.damaged)
        for title, samples in (("old", difference.old_sample), ("new", difference.new_sample)):
            for sample in samples:
                line = f"{title}  {as_text(sample)}"
                yield line if len(line) <= MAX_SAMPLE else f"{line[: MAX_SAMPLE - 1]}…"


def _result(data: FolderDifference, letters: FolderDifference) -> str:
    """Return the result in a sentence."""
    if data.is_same and letters.is_same:
        return "both have the same rows"
    if data.is_same:
        return "both have the same rows, and other dead letters"
    if data.has_moved:
        return "both have the same rows, some of them in other output partitions"
    return f"{data.only_old} rows are only in what is live, {data.only_new} only in the backfill"


def summary(report: BackfillReport) -> str:
    """The report in lines for people."""
    rows, letters = report.rows, report.dead_letters
    facts: Mapping[str, object] = {
        "offsets": report.offsets,
        "rows": f"{rows.old} live, {rows.new} new" if rows else "",
        "dead letters": f"{letters.old} live, {letters.new} new" if letters else "",
        "differing": f"{report.differing} of {report.output_partitions} output partitions",
    }
    first = "  ".join(f"{name} {value}" for name, value in facts.items())
    return "\n".join([first, report.message, *report.sample])
