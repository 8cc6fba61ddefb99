"""What people ask for about replaced objects, while everything breaks: undo, promote and discard.

The running driver is asked from within its pod, as the guides say. A backfill is planned, landed
and discarded on this machine, through the proxy: so its requests of the store meet the same faults.
What is refused, or does not end in time, is not counted; a backfill that gets stuck is discarded.
"""

import json
import time
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from itertools import count
from pathlib import Path

import yaml

from landfall.api.contract import ExitCode
from landfall.ledger.names import object_names, roots
from tests.chaos.environment import Environment
from tests.chaos.outcome import NotInjected
from tests.chaos.pod_faults import pick_pod
from tests.chaos.replacing_driver import Forked, Forks
from tests.chaos.schedule import Fault, Kind
from tests.support.kubernetes.cluster import Refused
from tests.support.kubernetes.live_group import NAME

SECONDS = 90
"""How long a command may take."""
PATIENCE = 120
"""How long a command that fails is tried again."""
LANDS_FOR = 5
"""Seconds after which at most a backfill is killed that is to be discarded."""
_NUMBERS = count()


def undo(environment: Environment, fault: Fault) -> str:
    """Undo some REPLACE: a merge, a promotion, or an undoing."""
    state = environment.groups[fault.target].ledger()
    slots = sorted({slot for slot in state.replaced.values() if slot <= state.applied_through})
    if not slots:
        raise NotInjected("nothing was replaced yet")
    return _ask_driver(environment, fault, "undo", str(slots[fault.pick % len(slots)]))


@dataclass(frozen=True)
class _Backfill:
    """A backfill of a day or a minute of a topic, which is planned.

    Attributes:
        forks: start its processes.
        file: of its group.
        name: of it.
        what: it lands again.
    """

    forks: Forks
    file: Path
    name: str
    what: str

    def discard(self, environment: Environment) -> None:
        """Take the way out, again and again until it comes through."""
        command = ("backfill", "discard", str(self.file), self.name)
        _repeat(environment, lambda: _ended(self.forks.command(*command)), " ".join(command))


def promote(environment: Environment, fault: Fault) -> str:
    """Land a day or a minute of a topic again, and put that in the place of what is live.

    A backfill that does not come so far is stuck, and discarded.
    """
    planned = _planned(environment, fault)
    try:
        _repeat(
            environment,
            lambda: _ended(planned.forks.backfill(planned.file, planned.name)),
            f"{planned.what} was not landed again",
        )
        return f"{planned.what}: {_ask_driver(environment, fault, 'promote', planned.name)}"
    except NotInjected:
        planned.discard(environment)
        raise


def discard(environment: Environment, fault: Fault) -> str:
    """Kill what lands a backfill, and discard the backfill, of which nothing is left then."""
    planned = _planned(environment, fault)
    with planned.forks.backfill(planned.file, planned.name) as landing:
        landing.end(fault.pick % (10 * LANDS_FOR) / 10)
    planned.discard(environment)
    root, bucket = (
        roots.side_root(NAME, planned.name),
        environment.groups[fault.target].scene.bucket,
    )
    keys = (*bucket.keys(f"{root}/"), *bucket.open_uploads())
    inside = (key.removeprefix(f"{root}/") for key in keys if key.startswith(f"{root}/"))
    if left := [key for key in inside if not object_names.is_system_key(key)]:
        raise NotInjected(f"{planned.what} is discarded, and leaves {left[:3]}")
    return f"{planned.what}: {planned.name} is discarded"


def _planned(environment: Environment, fault: Fault) -> _Backfill:
    group = environment.groups[fault.target]
    keys = group.scene.bucket.keys(environment.prefix)
    folders = sorted({key.rpartition("/")[0] for key in keys})
    if not folders:
        raise NotInjected("nothing has landed yet")
    topic, _, day = folders[fault.pick % len(folders)].partition("/")
    name = f"b{next(_NUMBERS)}"
    folder = environment.folder / f"{fault.target}-{name}"
    folder.mkdir()
    file = folder / "group.yaml"
    live = json.loads(group.kubectl("get", "consumergroup", NAME, "-o", "json"))
    file.write_text(
        yaml.safe_dump(
            {key: live[key] for key in ("apiVersion", "kind", "spec")}
            | {"metadata": {"name": NAME, "namespace": group.namespace}}
        )
    )
    forks, what = Forks(folder), f"{topic}/{day}"
    plan = ("backfill", "plan", str(file), name, "--topic", topic, "--output-partition", day)
    _repeat(environment, lambda: _ended(forks.command(*plan)), f"no plan of {what}")
    return _Backfill(forks, file, name, what)


def _ended(process: Forked) -> str:
    """Wait for a process; returns what is wrong, if anything is."""
    with process:
        code = process.end(SECONDS)
    return "" if code == 0 else f"exit code {code}"


def _ask_driver(environment: Environment, fault: Fault, *command: str) -> str:
    """Run a command of Landfall in the pod of a driver; returns its last line."""
    arguments = ("timeout", f"{SECONDS}", "landfall", *command, "--why", "chaos")
    said = list[str]()

    def ask() -> str:
        try:
            pod = pick_pod(environment, fault, "driver")[1]["metadata"]["name"]
            group = environment.groups[fault.target]
            said.append(group.kubectl("exec", str(pod), "-c", "driver", "--", *arguments))
        except (Refused, NotInjected) as error:
            why = " ".join(str(error).split())
            if f"exit code {ExitCode.REFUSED:d}" in why:
                raise NotInjected(f"{' '.join(command)}: {why}") from error
            return why
        return ""

    _repeat(environment, ask, " ".join(command))
    return f"{' '.join(command)}: {said[-1].strip().splitlines()[-1]}"


def _repeat(environment: Environment, attempt: Callable[[], str], what: str) -> None:
    """Make attempts until one has nothing to complain about, as a person would.

    Raises:
        NotInjected: the last one had, and it is time to stop.
    """
    deadline = time.monotonic() + PATIENCE
    while why := attempt():
        if time.monotonic() > deadline or environment.stopping.is_set():
            raise NotInjected(f"{what}: {why}")
        environment.wait(3)


INJECTORS: Mapping[Kind, Callable[[Environment, Fault], str]] = {
    Kind.UNDONE: undo,
    Kind.PROMOTED: promote,
    Kind.DISCARDED: discard,
}
