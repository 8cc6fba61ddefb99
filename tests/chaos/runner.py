"""Playing a schedule: a thread for each lane waits for the time of its next fault, injects it, and
notes how it ended.
"""

import threading
import time
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from itertools import groupby

from tests.chaos import struck_pods, struck_servers, struck_store
from tests.chaos.environment import Stage
from tests.chaos.outcome import NotApplied, Struck
from tests.chaos.schedule import Fault, Kind

STRIKES: Mapping[Kind, Callable[[Stage, Fault], str]] = {
    **struck_store.STRIKES,
    **struck_pods.STRIKES,
    **struck_servers.STRIKES,
}
LATE = 30.0
"""Seconds after its time when a fault is left out, for the one before it in its lane took so long.
"""


@dataclass
class Play:
    """A schedule on a stage; ``tell`` is called with each fault when it is over, by one thread at a
    time.
    """

    stage: Stage
    schedule: Sequence[Fault]
    tell: Callable[[Struck], None]
    began: float = field(default_factory=time.monotonic)
    struck: list[Struck] = field(default_factory=list)
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
            struck = self._injected(fault)
            with self._one:
                self.struck.append(struck)
                self.tell(struck)

    def _injected(self, fault: Fault) -> Struck:
        began = self.now
        if began > fault.at + LATE:
            return Struck(
                fault, began, began, injected=False, note="too late: the one before it took long"
            )
        try:
            note, injected = STRIKES[fault.kind](self.stage, fault), True
        except NotApplied as why:
            note, injected = str(why), False
        except Exception as error:  # noqa: BLE001  # whatever the machine says to it, the run goes on
            note, injected = f"{type(error).__name__}: {error}".splitlines()[0], False
        return Struck(fault, began, self.now, injected, note)
