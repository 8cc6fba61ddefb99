"""What people ask for that replaces objects, while everything breaks: undoings and promotions.

The running driver is asked from within its pod, as the guides say. A backfill is planned and landed
on this machine, through the proxy: so its requests of the store meet the same faults. What is
refused, or does not end in time, is not counted.
"""

import json
import time
from collections.abc import Callable, Mapping
from itertools import count

import yaml

from landfall.api.contract import ExitCode
from tests.chaos.environment import Environment
from tests.chaos.outcome import NotInjected
from tests.chaos.pod_faults import pick_pod
from tests.chaos.replacing_driver import Forked, Forks
from tests.chaos.schedule import Fault, Kind
from tests.support.cluster import Refused
from tests.support.live_group import NAME

SECONDS = 90
"""How long a command may take."""
PATIENCE = 120
"""How long a command that fails is tried again."""
_NUMBERS = count()


def undo(environment: Environment, fault: Fault) -> str:
    """Undo some REPLACE: a merge, a promotion, or an undoing."""
    state = environment.groups[fault.target].ledger()
    slots = sorted({slot for slot in state.replaced.values() if slot <= state.applied_through})
    if not slots:
        raise NotInjected("nothing was replaced yet")
    return _ask_driver(environment, fault, "undo", str(slots[fault.pick % len(slots)]))


def promote(environment: Environment, fault: Fault) -> str:
    """Land a day or a minute of a topic again, and put that in the place of what is live."""
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
    _repeat(environment, lambda: _ended(forks.backfill(file, name)), f"{what} was not landed again")
    return f"{what}: {_ask_driver(environment, fault, 'promote', name)}"


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
}
