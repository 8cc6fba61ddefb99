"""Break everything around two groups on a real cluster while records arrive, then look whether each
landed once.

Kubernetes, Kafka, S3 (behind a proxy that makes faults), the operator by its Helm chart, two
groups: one lands sequence files, one Parquet. The faults are drawn from the seed: the same seed,
the same schedule. At the end everything must be landed within a limit, and `landfall audit`,
`landfall fsck` and the producer's own book must agree that nothing is missing, twice, misplaced or
changed. Exit code 1 if not; with --keep everything is then left running to be looked at.
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
from datetime import datetime
from pathlib import Path

import msgspec
from rich.console import Console

from dev.kube import programs
from dev.kube.cluster import EXISTING
from dev.servers import kafka, s3
from dev.servers.cache import Missing
from dev.servers.kafka import KAFKA
from dev.servers.s3 import S3
from dev.servers.server import STATE
from dev.tour.place import Place
from landfall import __version__
from tests.chaos import checks, table
from tests.chaos.environment import Environment
from tests.chaos.faults import LATE
from tests.chaos.load import Load
from tests.chaos.outcome import FaultResult, Landed, Outcome, Produced
from tests.chaos.runner import Runner
from tests.chaos.schedule import GROUPS, Fault, schedule

RATE = 500.0
"""Records a second: what two cores bear beside everything else."""
LIMIT = 900.0
"""Seconds after the end of load and faults in which everything must be landed."""
FIRST = 300.0
"""Seconds in which both groups must make their first commit."""
LOOK = 3.0
"""Seconds between two looks for new logs."""
PROGRESS_INTERVAL = 30.0
"""Seconds between two lines about how it goes."""


def main() -> int:
    """See the module."""
    chosen = _arguments()
    faults = schedule(chosen.seed, chosen.minutes)
    console = Console(highlight=False, soft_wrap=True)
    if chosen.show:
        for fault in faults:
            console.print(_drawn(fault), markup=False)
        return 0
    signal.signal(signal.SIGTERM, lambda *_: sys.exit("ended by SIGTERM"))
    place = Place(chosen.state.resolve())
    folder = chosen.state.resolve() / "runs" / f"{datetime.now():%m%d-%H%M%S}-{chosen.seed}"  # noqa: DTZ005  # its user's
    folder.mkdir(parents=True)
    console.print(
        f"[bold]seed {chosen.seed}[/], {chosen.minutes:g} minutes, {len(faults)} faults drawn; {folder}"
    )
    try:
        check(place)
        return Run(console, folder, chosen, faults).whole(place)
    except Missing as missing:
        raise SystemExit(str(missing)) from None


def check(place: Place) -> None:
    """Let there be a run.

    Raises:
        Missing: this machine cannot bear it; says why.
    """
    for kind in (EXISTING, KAFKA.existing, S3.existing):
        if os.environ.get(kind):
            raise Missing(
                f"{kind} is set: chaos kills processes and fills disks, so it has everything of its own"
            )
    place.check()


class Run:
    """One run, from nothing to its table."""

    def __init__(
        self, console: Console, folder: Path, chosen: argparse.Namespace, faults: tuple[Fault, ...]
    ) -> None:
        self.console, self.folder, self.chosen, self.faults = console, folder, chosen, faults
        self.log = (folder / "run.jsonl").open("a", buffering=1)

    def whole(self, place: Place) -> int:
        """Set it up, play, look; 0 if all is well."""
        sound = False
        try:
            stage = Environment.set(place, self.folder, self.chosen.seed)
        except BaseException:
            place.down()
            raise
        try:
            outcome = self._played(stage)
            sound = self._reported(outcome)
        finally:
            if sound or not self.chosen.keep:
                stage.strike()
            else:
                stage.over.set()
                self.console.print(f"[red]left as it is, to be looked at; end it: {_down(place)}")
        return 0 if sound else 1

    def _played(self, stage: Environment) -> Outcome:
        load = Load(
            str(stage.stack.kafka),
            stage.prefix,
            rate=self.chosen.rate,
            seed=self.chosen.seed,
            folder=self.folder,
        )
        loaded = time.monotonic()
        stage.apply()
        for group in stage.groups.values():
            group.wait_for_commit(FIRST)
        began = time.time()
        play = Runner(stage, self.faults, self._tell)
        self._say(f"both groups land; proxy {stage.proxy.endpoint}")
        threads = play.start()
        last_report = 0.0
        while play.now < self.chosen.minutes * 60:
            time.sleep(min(LOOK, max(0.0, self.chosen.minutes * 60 - play.now)))
            stage.keep_logs()
            if play.now - last_report >= PROGRESS_INTERVAL:
                last_report = play.now
                self._how_it_goes(stage, play)
        stage.over.set()
        for thread in threads:
            thread.join()
        stage.mend()
        calm, seconds = time.monotonic(), time.monotonic() - loaded
        done = load.finish()
        self._say(f"faults are over, {done.acknowledged:,} records are produced")
        produced = Produced(done.acknowledged, done.aborted, done.in_doubt, done.bytes, seconds)
        took = self._landed(stage, calm)
        groups = {name: self._judged(stage, name, load.book, began, took[name]) for name in GROUPS}
        return Outcome(
            self.chosen.seed,
            self.chosen.minutes,
            play.results,
            {
                kind: sum(hits.values())
                for kind, hits in stage.proxy.counts().faults.items()
                if kind != LATE
            },
            produced,
            groups,
            _about(),
        )

    def _landed(self, stage: Environment, began: float) -> dict[str, float | None]:
        """Seconds until each group has landed all there is."""
        took: dict[str, float | None] = dict.fromkeys(GROUPS)
        while time.monotonic() - began < LIMIT and None in took.values():
            for name in GROUPS:
                if took[name] is None and stage.lag(name) == 0:
                    took[name] = time.monotonic() - began
                    self._say(f"{name}: everything landed after {took[name]:.0f} s")
            time.sleep(1)
        return took

    def _judged(
        self, stage: Environment, name: str, book: Path, began: float, took: float | None
    ) -> Landed:
        if took is None:
            (self.folder / f"{name}.describe.txt").write_text(stage.groups[name].diagnostics())
        result = checks.check_group(stage, name, book)
        self._say(f"{name}: {result}")
        commits = [at - began for at in checks.commit_times(stage, name)]
        totals = stage.groups[name].ledger().totals
        return Landed(totals.landed, totals.dead_lettered, commits, stage.lag(name), took, result)

    def _reported(self, outcome: Outcome) -> bool:
        title = "[green]exactly once" if outcome.is_sound else "[red]NOT exactly once"
        self.console.print(
            table.shown("faults", table.kinds(outcome)), table.shown(title, table.figures(outcome))
        )
        (self.folder / "table.md").write_text(table.markdown(outcome))
        (self.folder / "outcome.json").write_bytes(msgspec.json.encode(outcome))
        self.console.print(f"{self.folder}/table.md")
        return outcome.is_sound

    def _tell(self, result: FaultResult) -> None:
        self.log.write(msgspec.json.encode(result).decode() + "\n")
        fault = result.fault
        mark = " " if result.injected else "-"
        self._say(
            f"{mark} {result.began:6.1f} +{result.ended - result.began:4.1f} s  {fault.target:8} {fault.kind.value}: {result.note}"
        )

    def _how_it_goes(self, stage: Environment, play: Runner) -> None:
        reports = [f"{name} {stage.describe(name)}" for name in GROUPS]
        injected = sum(result.injected for result in play.results)
        self._say(f"== {play.now:5.0f} s, {injected} faults; {'; '.join(reports)}")

    def _say(self, text: str) -> None:
        self.console.print(f"{datetime.now():%H:%M:%S} {text}", markup=False)  # noqa: DTZ005  # its user's


def _drawn(fault: Fault) -> str:
    return f"{fault.at:7.1f} +{fault.seconds:4.1f} s  {fault.target:8} {fault.kind.value}  {fault.share:.0%}"


def _down(place: Place) -> str:
    shown = os.path.relpath(place.folder)
    return f"dev/cluster down --state {shown}; dev/kafka down --state {shown}; dev/s3 down --state {shown}"


def _about() -> Mapping[str, str]:
    version = subprocess.run(
        ["java", "-version"], capture_output=True, text=True, check=False
    ).stderr.splitlines()
    return {
        "machine": f"{os.cpu_count()} cores, {os.sysconf('SC_PHYS_PAGES') * os.sysconf('SC_PAGE_SIZE') / 2**30:.0f} GiB, "
        f"{platform.system()} {platform.release()}, everything on it",
        "versions": f"Landfall {__version__}, Kubernetes {programs.KUBERNETES}, Kafka {kafka.VERSION}, versitygw {s3.VERSION}, "
        f"Python {platform.python_version()}, {version[0] if version else 'no Java'}",
    }


def _arguments() -> argparse.Namespace:
    parser = argparse.ArgumentParser(
        prog="make chaos", description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument("--minutes", type=float, default=30.0, help="with faults; 30 unless told")
    parser.add_argument(
        "--seed", type=int, default=random.randrange(2**32), help="of the schedule; any unless told"
    )
    parser.add_argument(
        "--rate", type=float, default=RATE, help=f"records a second; {RATE:g} unless told"
    )
    parser.add_argument("--show", action="store_true", help="print the schedule, and do nothing")
    parser.add_argument(
        "--keep", action="store_true", help="leave everything running if something is wrong"
    )
    parser.add_argument(
        "--state",
        type=Path,
        default=STATE / "chaos",
        help="folder of all of it (default: .state/chaos)",
    )
    return parser.parse_args()


if __name__ == "__main__":
    sys.exit(main())
