"""Executes a schedule: a thread for each track injects its faults when they are due."""

import threading
import time
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from itertools import count, groupby
from random import Random

from tests.chaos import pod_faults, replacing_verbs, server_faults, store_faults
from tests.chaos.environment import Environment
from tests.chaos.outcome import VERBS, FaultResult, NotInjected, missing_verbs
from tests.chaos.schedule import GROUPS, Fault, Kind

INJECTORS: Mapping[Kind, Callable[[Environment, Fault], str]] = {
    **store_faults.INJECTORS,
    **pod_faults.INJECTORS,
    **server_faults.INJECTORS,
    **replacing_verbs.INJECTORS,
}
MAX_DELAY = 30.0
"""Seconds after its time when a fault is skipped, because the one before it took so long. Verbs are
not: people ask for them whenever they have the time.
"""
VERBS_SECONDS = 1200.0
"""How long a run asks for verbs that have not come through while everything broke."""
VERBS_PAUSE = 5.0
"""Seconds between two of these attempts."""


@dataclass
class Runner:
    """Executes a schedule in an environment.

    ``report`` is called with the result of each fault when the fault is over, by one thread at a
    time.
    """

    environment: Environment
    schedule: Sequence[Fault]
    report: Callable[[FaultResult], None]
    began: float = field(default_factory=time.monotonic)
    results: list[FaultResult] = field(default_factory=list)
    _lock: threading.Lock = field(default_factory=threading.Lock)

    @property
    def now(self) -> float:
        """Seconds since the beginning of the run."""
        return time.monotonic() - self.began

    def start(self) -> Sequence[threading.Thread]:
        """Start a thread for each track, and return them all to be joined."""
        by_track = groupby(
            sorted(self.schedule, key=lambda fault: (fault.track, fault.at)),
            lambda fault: fault.track,
        )
        threads = [
            threading.Thread(target=self._run_track, args=(list(faults),), daemon=True)
            for _, faults in by_track
        ]
        for thread in threads:
            thread.start()
        return threads

    def _run_track(self, faults: Iterable[Fault]) -> None:
        for fault in faults:
            self.environment.wait(fault.at - self.now)
            if self.environment.stopping.is_set():
                return
            self._note(self._inject(fault))

    def play_missing_verbs(self) -> None:
        """Ask for each verb that has not come through yet, until it does or it takes too long."""
        dice, end = Random(len(self.results)), self.now + VERBS_SECONDS
        for number in count():
            missing = missing_verbs(self.results)
            if not missing or self.now > end:
                return
            kind, target = missing[number % len(missing)], GROUPS[number % len(GROUPS)]
            self._note(self._inject(Fault(-1, self.now, kind, target, pick=dice.randrange(2**16))))
            self.environment.wait(VERBS_PAUSE)

    def _note(self, result: FaultResult) -> None:
        with self._lock:
            self.results.append(result)
            self.report(result)

    def _inject(self, fault: Fault) -> FaultResult:
        began = self.now
        if began > fault.at + MAX_DELAY and fault.kind not in VERBS:
            note = "skipped: the fault before it took too long"
            return FaultResult(fault, began, began, injected=False, note=note)
        try:
            note, injected = INJECTORS[fault.kind](self.environment, fault), True
        except NotInjected as reason:
            note, injected = str(reason), False
        # One fault that cannot be injected must not end the run, whatever the cluster answers.
        except Exception as error:  # noqa: BLE001  # see above
            note, injected = f"{type(error).__name__}: {error}".splitlines()[0], False
        return FaultResult(fault, began, self.now, injected, note)
