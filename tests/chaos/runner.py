"""Playing a schedule: a thread for each lane waits for the time of its next fault, injects it, and
notes how it ended.
"""

import threading
import time
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from itertools import groupby

from tests.chaos import pod_faults, server_faults, store_faults
from tests.chaos.environment import Environment
from tests.chaos.outcome import FaultResult, NotApplied
from tests.chaos.schedule import Fault, Kind

INJECTORS: Mapping[Kind, Callable[[Environment, Fault], str]] = {
    **store_faults.INJECTORS,
    **pod_faults.INJECTORS,
    **server_faults.INJECTORS,
}
LATE = 30.0
"""Seconds after its time when a fault is left out, for the one before it in its lane took so long.
"""


@dataclass
class Runner:
    """A schedule on a stage; ``tell`` is called with each fault when it is over, by one thread at a
    time.
    """

    stage: Environment
    schedule: Sequence[Fault]
    tell: Callable[[FaultResult], None]
    began: float = field(default_factory=time.monotonic)
    results: list[FaultResult] = field(default_factory=list)
    _one: threading.Lock = field(default_factory=threading.Lock)

    @property
    def now(self) -> float:
        """Seconds since the beginning."""
        return time.monotonic() - self.began

    def start(self) -> Sequence[threading.Thread]:
        """All lanes; join them."""
        by_lane = groupby(
            sorted(self.schedule, key=lambda fault: (fault.lane, fault.at)),
            lambda fault: fault.lane,
        )
        threads = [
            threading.Thread(target=self._play, args=(list(faults),), daemon=True)
            for _, faults in by_lane
        ]
        for thread in threads:
            thread.start()
        return threads

    def _play(self, faults: Iterable[Fault]) -> None:
        for fault in faults:
            self.stage.rest(fault.at - self.now)
            if self.stage.over.is_set():
                return
            result = self._injected(fault)
            with self._one:
                self.results.append(result)
                self.tell(result)

    def _injected(self, fault: Fault) -> FaultResult:
        began = self.now
        if began > fault.at + LATE:
            return FaultResult(
                fault, began, began, injected=False, note="too late: the one before it took long"
            )
        try:
            note, injected = INJECTORS[fault.kind](self.stage, fault), True
        except NotApplied as why:
            note, injected = str(why), False
        except Exception as error:  # noqa: BLE001  # whatever the machine says to it, the run goes on
            note, injected = f"{type(error).__name__}: {error}".splitlines()[0], False
        return FaultResult(fault, began, self.now, injected, note)
