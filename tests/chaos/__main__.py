"""Break everything around two groups while records arrive, then check that each landed once.

The run starts a Kubernetes node, Kafka, S3 behind a proxy that injects faults, the operator by its
Helm chart, and two groups: one lands SequenceFiles, the other Parquet. Both merge small objects,
and merges are undone and folders landed again all the while. The schedule of faults depends on the
seed and the minutes only. After the faults everything must be landed within 15 minutes, and
`landfall audit`, `landfall fsck` and the producers' own ledger must find nothing missing,
duplicated, misplaced or changed. Objects must have been merged, and an undoing and a promotion have
come through: the run asks for these, after the faults and while records arrive, until they do.
Otherwise the exit code is 1; with --keep everything is then left running for inspection.
"""

import argparse
import os
import platform
import random
import signal
import subprocess
import sys
import time
from collections.abc import Mapping
from contextlib import suppress
from dataclasses import replace
from datetime import datetime
from pathlib import Path

import msgspec
from rich.console import Console

from dev.kube import programs
from dev.kube.cluster import EXISTING
from dev.servers import kafka, s3
from dev.servers.cache import MissingTool
from dev.servers.kafka import KAFKA
from dev.servers.s3 import S3
from dev.servers.server import STATE
from dev.tour.place import TourPlace
from landfall import __version__
from tests.chaos import checks, growth, table
from tests.chaos.environment import Environment
from tests.chaos.faults import LATE
from tests.chaos.load import Load
from tests.chaos.outcome import FaultResult, GroupResult, LoadResult, Outcome
from tests.chaos.runner import Runner
from tests.chaos.schedule import GROUPS, Fault, schedule

RATE = 500.0
"""Records a second: as many as two cores land beside everything else of a run."""
LAND_TIMEOUT = 900.0
"""Seconds after the end of load and faults within which everything must be landed."""
FIRST_COMMIT_TIMEOUT = 300.0
"""Seconds within which both groups must make their first commit."""
LOG_INTERVAL = 3.0
"""Seconds between two searches for logs of new pods."""
PROGRESS_INTERVAL = 30.0
"""Seconds between two lines about the progress."""


def main() -> int:
    """Print the schedule, or execute a run; returns the exit code."""
    options = _arguments()
    faults = schedule(options.seed, options.minutes)
    console = Console(highlight=False, soft_wrap=True)
    if options.show:
        for fault in faults:
            console.print(_describe_fault(fault), markup=False)
        return 0
    # An exception unwinds through the tear-down; the default of SIGTERM would leave everything up.
    signal.signal(signal.SIGTERM, lambda *_: sys.exit("ended by SIGTERM"))
    place = TourPlace(options.state.resolve())
    began = datetime.now()  # noqa: DTZ005  # local time is what the user looks for
    folder = options.state.resolve() / "runs" / f"{began:%m%d-%H%M%S}-{options.seed}"
    folder.mkdir(parents=True)
    console.print(
        f"[bold]seed {options.seed}[/], {options.minutes:g} minutes, "
        f"{len(faults)} faults scheduled; logs and results: {folder}"
    )
    try:
        check(place)
        return Run(console, folder, options, faults).execute(place)
    except MissingTool as missing:
        raise SystemExit(str(missing)) from None


def check(place: TourPlace) -> None:
    """Make sure that this machine can execute a run.

    Raises:
        MissingTool: it cannot; the message says why.
    """
    for variable in (EXISTING, KAFKA.existing, S3.existing):
        if os.environ.get(variable):
            raise MissingTool(
                f"{variable} is set, but chaos kills processes and fills disks:"
                " unset it, so that the run starts servers of its own"
            )
    place.check()


class Run:
    """One run: from an empty machine to its tables."""

    def __init__(
        self,
        console: Console,
        folder: Path,
        options: argparse.Namespace,
        faults: tuple[Fault, ...],
    ) -> None:
        """Create the log of the run in ``folder``."""
        self.console, self.folder, self.options, self.faults = console, folder, options, faults
        self.log = (folder / "run.jsonl").open("a", buffering=1)
        self.samples: list[growth.Sample] = []

    def execute(self, place: TourPlace) -> int:
        """Create the environment, break it, check the result; 0 if nothing is wrong."""
        sound = False
        try:
            environment = Environment.create(place, self.folder, self.options.seed)
        except BaseException:
            place.down()
            raise
        try:
            outcome = self._run(environment)
            sound = self._report(outcome)
        finally:
            if sound or not self.options.keep:
                environment.tear_down()
            else:
                environment.stopping.set()
                self.console.print(
                    f"[red]everything is left running for inspection; to stop it: {_stop(place)}"
                )
        return 0 if sound else 1

    def _run(self, environment: Environment) -> Outcome:
        load = Load(
            str(environment.stack.kafka),
            environment.prefix,
            rate=self.options.rate,
            seed=self.options.seed,
            folder=self.folder,
        )
        load_began = time.monotonic()
        environment.apply()
        # Faults before the first commit would test the installation instead of the landing.
        for group in environment.groups.values():
            group.wait_for_commit(FIRST_COMMIT_TIMEOUT)
        began = time.time()
        runner = Runner(environment, self.faults, self._report_fault)
        self._print(f"both groups land; the proxy is {environment.proxy.endpoint}")
        self._break(environment, runner)
        faults_ended, load_seconds = time.monotonic(), time.monotonic() - load_began
        produced = load.finish()
        self._print(f"the faults are over, {produced.acknowledged:,} records are produced")
        seconds = self._wait_until_landed(environment, faults_ended)
        groups = {
            name: self._check_group(environment, name, load.ledger, began, seconds[name])
            for name in GROUPS
        }
        return Outcome(
            seed=self.options.seed,
            minutes=self.options.minutes,
            results=runner.results,
            requests_hit=_requests_hit(environment),
            load=LoadResult(
                produced.acknowledged,
                produced.aborted,
                produced.in_doubt,
                produced.bytes,
                load_seconds,
            ),
            groups=groups,
            environment=_describe_machine(),
            growth=growth.rows(self.samples),
        )

    def _break(self, environment: Environment, runner: Runner) -> None:
        """Inject the faults until the minutes are over, then end those that still last."""
        threads = runner.start()
        last_progress = last_sample = -growth.INTERVAL
        end = self.options.minutes * 60
        while runner.now < end:
            time.sleep(min(LOG_INTERVAL, max(0.0, end - runner.now)))
            environment.keep_logs()
            if runner.now - last_sample >= growth.INTERVAL:
                last_sample = runner.now
                self._sample(environment, runner.now)
            if runner.now - last_progress >= PROGRESS_INTERVAL:
                last_progress = runner.now
                self._print_progress(environment, runner)
        environment.stopping.set()
        for thread in threads:
            thread.join()
        # After the threads: one of them might inject a fault again that was just lifted.
        environment.lift_faults()
        environment.stopping.clear()
        runner.play_missing_verbs()
        environment.stopping.set()

    def _sample(self, environment: Environment, now: float) -> None:
        # The servers themselves may be killed or full at the moment: then there is no measurement.
        with suppress(Exception):
            self.samples.append(growth.measure(environment, now))
            (self.folder / "growth.json").write_bytes(msgspec.json.encode(self.samples))

    def _wait_until_landed(self, environment: Environment, began: float) -> dict[str, float | None]:
        """Seconds until each group had landed everything; None where that took too long."""
        seconds: dict[str, float | None] = dict.fromkeys(GROUPS)
        while time.monotonic() - began < LAND_TIMEOUT and None in seconds.values():
            for name in GROUPS:
                if seconds[name] is None and environment.has_landed(name):
                    seconds[name] = time.monotonic() - began
                    self._print(f"{name}: everything was landed after {seconds[name]:.0f} s")
            time.sleep(1)
        return seconds

    def _check_group(
        self,
        environment: Environment,
        name: str,
        producer_ledger: Path,
        began: float,
        seconds_to_land: float | None,
    ) -> GroupResult:
        if seconds_to_land is None:
            description = environment.groups[name].diagnostics()
            (self.folder / f"{name}.describe.txt").write_text(description)
        is_settled = environment.settle(name, LAND_TIMEOUT)
        result = checks.check_group(environment, name, producer_ledger)
        if not is_settled:
            unsettled = "objects take the place of others all the time, or old ones stay"
            result = replace(result, other=(*result.other, unsettled))
        self._print(f"{name}: {'nothing is wrong' if result.is_sound else result}")
        commits = [at - began for at in checks.commit_times(environment, name)]
        totals = environment.groups[name].ledger().totals
        lag = environment.lag(name)
        return GroupResult(
            totals.landed,
            totals.dead_lettered,
            commits,
            lag,
            seconds_to_land,
            result,
            totals.retired,
            totals.replacing,
        )

    def _report(self, outcome: Outcome) -> bool:
        """Print and write the tables; returns whether nothing is wrong."""
        title = "[green]exactly once" if outcome.is_sound else "[red]NOT exactly once"
        self.console.print(
            table.render("faults", table.kinds(outcome)),
            table.render(title, table.figures(outcome)),
        )
        (self.folder / "table.md").write_text(table.markdown(outcome))
        if self.samples:
            (self.folder / "growth.svg").write_text(growth.picture(self.samples))
        (self.folder / "outcome.json").write_bytes(msgspec.json.encode(outcome))
        self.console.print(f"{self.folder}/table.md")
        for what in outcome.not_played:
            self.console.print(f"[red]{what}")
        return outcome.is_sound and not outcome.not_played

    def _report_fault(self, result: FaultResult) -> None:
        self.log.write(msgspec.json.encode(result).decode() + "\n")
        fault = result.fault
        mark = " " if result.injected else "-"
        self._print(
            f"{mark} {result.began:6.1f} +{result.ended - result.began:4.1f} s"
            f"  {fault.target:8} {fault.kind.value}: {result.note}"
        )

    def _print_progress(self, environment: Environment, runner: Runner) -> None:
        groups = "; ".join(f"{name} {environment.describe(name)}" for name in GROUPS)
        injected = sum(result.injected for result in runner.results)
        self._print(f"== {runner.now:5.0f} s, {injected} faults injected; {groups}")

    def _print(self, text: str) -> None:
        now = datetime.now()  # noqa: DTZ005  # local time is what the user's clock shows
        self.console.print(f"{now:%H:%M:%S} {text}", markup=False)


def _describe_fault(fault: Fault) -> str:
    return (
        f"{fault.at:7.1f} +{fault.seconds:4.1f} s  {fault.target:8} {fault.kind.value}"
        f"  {fault.share:.0%}"
    )


def _requests_hit(environment: Environment) -> Mapping[str, int]:
    return {
        kind: sum(hits.values())
        for kind, hits in environment.proxy.counts().faults.items()
        if kind != LATE
    }


def _stop(place: TourPlace) -> str:
    """The commands that stop what --keep left running."""
    state = os.path.relpath(place.folder)
    programs_down = ("dev/cluster", "dev/kafka", "dev/s3")
    return "; ".join(f"{program} down --state {state}" for program in programs_down)


def _describe_machine() -> Mapping[str, str]:
    java = subprocess.run(
        ["java", "-version"], capture_output=True, text=True, check=False
    ).stderr.splitlines()
    memory = os.sysconf("SC_PHYS_PAGES") * os.sysconf("SC_PAGE_SIZE") / 2**30
    return {
        "machine": f"{os.cpu_count()} cores, {memory:.0f} GiB, {platform.system()} "
        f"{platform.release()}, which runs everything",
        "versions": f"Landfall {__version__}, Kubernetes {programs.KUBERNETES}, "
        f"Kafka {kafka.VERSION}, versitygw {s3.VERSION}, Python {platform.python_version()}, "
        f"{java[0] if java else 'no Java'}",
    }


def _arguments() -> argparse.Namespace:
    parser = argparse.ArgumentParser(
        prog="make chaos", description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument(
        "--minutes", type=float, default=30.0, help="length of the schedule (default: 30)"
    )
    parser.add_argument(
        "--seed",
        type=int,
        default=random.randrange(2**32),
        help="seed of the schedule (default: a random one)",
    )
    parser.add_argument(
        "--rate", type=float, default=RATE, help=f"records produced a second (default: {RATE:g})"
    )
    parser.add_argument(
        "--show", action="store_true", help="print the schedule and do nothing else"
    )
    parser.add_argument(
        "--keep", action="store_true", help="leave everything running if something is wrong"
    )
    parser.add_argument(
        "--state",
        type=Path,
        default=STATE / "chaos",
        help="folder of the servers' data, the logs and the results (default: .state/chaos)",
    )
    return parser.parse_args()


if __name__ == "__main__":
    sys.exit(main())
