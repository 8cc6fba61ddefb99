"""Kills drivers all the time that merge objects, undoes merges, and reads all the time beside it.

Records of many hours arrive, are landed as small objects and merged as soon as an hour is complete.
Turn by turn a driver is killed at a random moment, or before or after a step that a replacement
consists of; frozen while another takes over, and then woken; or fenced while it works. Merges are
undone in between, by a process that may be killed, too. Two readers look all the time: see
``replacing_readers``. In the end ``landfall fsck --deep`` and ``landfall audit`` must find nothing,
and every record must be there once, for both readers.
"""

import json
import signal
import sys
import threading
import time
from collections import Counter
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from dataclasses import dataclass, field
from datetime import UTC, datetime, timedelta
from pathlib import Path
from random import Random
from typing import Any

import yaml

from landfall.api.contract import LANE
from landfall.ledger.names import object_names
from landfall.store.probe import PREFIX as PROBES
from tests.chaos.proxy import FaultProxy
from tests.chaos.replacing_driver import Forked, Forks
from tests.chaos.replacing_readers import Readers
from tests.chaos.schedule import Fault, Kind
from tests.chaos.store_faults import RULES
from tests.support.kafka.broker import Message
from tests.support.landing.group import Scene
from tests.support.landing.processes import STRUCK

PARTITIONS = 3
BATCH = 8
"""Records of a Kafka partition that arrive at once."""
STEP = timedelta(minutes=4)
"""How much later the event times of the next ones are."""
PAUSE = 0.25
"""Seconds until these arrive."""
MOST_SLOTS = 3
"""How many slots of the ledger a driver lives at most, and a moment more."""
MOMENT = 0.7
"""How many seconds that moment has at most."""
LONGEST_LIFE = 20.0
"""How many seconds it lives at most."""
FAULTS = (
    Kind.LATENCY,
    Kind.RESET_BEFORE,
    Kind.RESET_AFTER,
    Kind.ERROR_500,
    Kind.ERROR_503,
    Kind.TRUNCATED,
    Kind.NO_ANSWER,
    Kind.LATE_EFFECT,
    Kind.ERROR_IN_200,
)
STEPS = (
    "before create REPLACE",
    "after create REPLACE",
    *(
        f"{when} {what} {number}"
        for when in ("before", "after")
        for what in ("keep", "retire")
        for number in (1, 2, 5)
    ),
    *(f"{when} complete {number}" for when in ("before", "after") for number in (1, 3, 8)),
)
"""Where a driver is killed: see ``tests.support.landing.crashing_store``."""
UNDONE: Mapping[int | None, str] = {
    0: "undos",
    -signal.SIGKILL: "undos that were killed",
    None: "undos that did not end",
}
"""What became of an undoing, by its exit code."""
SPEC: dict[str, Any] = {
    "route": {"pattern": "dt={date}/hr={hour}"},
    "uploadPolicy": {"maxBytes": "1M", "maxAge": "200ms"},
    "completeness": {"delay": "1s"},
}
MERGES: dict[str, Any] = {"below": "1Mi", "target": "4Mi"}


@dataclass
class Replacing:
    """A run between a broker and a store.

    Attributes:
        scene: where it lands.
        folder: for logs and group files.
        seed: of what is broken when.
        sorts: whether merged rows are sorted.
    """

    scene: Scene
    folder: Path
    seed: int
    sorts: bool = False
    done: Counter[str] = field(default_factory=Counter)

    def __post_init__(self) -> None:
        self.topic = self.scene.topic(partitions=PARTITIONS)
        compact = {**MERGES, **({"sort": "n"} if self.sorts else {})}
        self.spec = {**SPEC, "compact": compact, "output": {"codec": "Gzip"}}
        self._rng = Random(self.seed)
        self._produced, self._given_up = 0, list[str]()
        self._stopped, self._forks = threading.Event(), Forks(self.folder)
        self._file("direct", self.scene.bucket.server.endpoint)

    def run(self, seconds: float, turns: int = sys.maxsize) -> list[str]:
        """Break everything for so long, or for so many turns, then return what is wrong."""
        readers = Readers(self.folder / "direct.yaml", self.scene.bucket, self.topic)
        load = threading.Thread(target=self._produce, daemon=True)
        upstream = self.scene.bucket.server.endpoint
        proxy = FaultProxy(upstream, "127.0.0.1:0", seed=self.seed, folder=self.folder)
        try:
            self._file("proxied", proxy.endpoint)
            load.start()
            readers.start()
            end = time.monotonic() + seconds
            while time.monotonic() < end and turns and not readers.found.wrong:
                self._turn(proxy)
                turns -= 1
            self._stopped.set()
            load.join()
            proxy.lift()
            self._finish()
            readers.scan()
        finally:
            self._stopped.set()
            readers.stop()
            proxy.stop()
        self.done.update({k: v for k, v in vars(readers.found).items() if isinstance(v, int)})
        self._count()
        return [*readers.found.wrong, *self._wrong(readers)]

    # ------------------------------------------------------------------------------- what is broken

    def _turn(self, proxy: FaultProxy) -> None:
        """One driver's life."""
        turns = (
            self._killed,
            self._struck,
            self._struck,
            self._frozen,
            self._fenced,
            self._undone,
            self._promoted,
        )
        with self._broken(proxy):
            turns[self._rng.randrange(len(turns))]()

    @contextmanager
    def _broken(self, proxy: FaultProxy) -> Iterator[None]:
        """Break some requests of the store, more often than not."""
        numbers = list[int]()
        for _ in range(self._rng.randrange(3)):
            kind = self._rng.choice(FAULTS)
            share = self._rng.choice((0.02, 0.05, 0.15))
            fault = Fault(0, 0, kind, "store", 0, self._rng.randrange(2**16), share)
            numbers.append(proxy.inject(RULES[kind](fault)))
            self.done["store faults"] += 1
        yield
        for number in numbers:
            proxy.lift(number)

    def _killed(self) -> None:
        with self._driver() as driver:
            self._live()
            driver.kill()
            self.done["kills at a random moment"] += 1

    def _struck(self) -> None:
        with self._driver(self._rng.choice(STEPS)) as driver:
            code = driver.end(LONGEST_LIFE)
            self.done["kills at a step"] += code == -signal.SIGKILL

    def _frozen(self) -> None:
        """A driver is frozen while another takes over, and wakes up in the middle of its work."""
        with self._driver() as frozen:
            self._live()
            frozen.send(signal.SIGSTOP)
            with self._driver():
                self._live()
                frozen.send(signal.SIGCONT)
                self.done["drivers frozen and woken"] += 1
                self._live()

    def _fenced(self) -> None:
        """Two drivers at once: the second one fences the first."""
        with self._driver():
            self._live()
            with self._driver():
                self._live()
                self.done["two drivers"] += 1

    def _undone(self) -> None:
        """A merge is taken back, perhaps by a process that is killed; the next driver goes on."""
        state = self.scene.state()
        slots = sorted({slot for slot in state.replaced.values() if slot <= state.applied_through})
        if not slots:
            return
        strike = self._rng.choice((*STEPS[:2], *[""] * 4))
        slot = self._rng.choice(slots)
        file = str(self._struck_file(strike))
        arguments = ("undo", file, str(slot), "--why", "chaos", "--take-over")
        with self._forks.command(*arguments, strike=strike) as undo:
            code = undo.end(60)
        self.done[UNDONE.get(code, "undos that were refused")] += 1

    def _promoted(self) -> None:
        """An hour is landed again and promoted, by processes that may be killed."""
        folders = {key.rpartition("/")[0] for key in self.scene.bucket.keys(f"{self.topic}/")}
        if not folders:
            return
        hour = self._rng.choice(sorted(folders)).partition("/")[2]
        name = f"b{self.done['backfills']}"
        self.done["backfills"] += 1
        file = self.folder / "proxied.yaml"
        plan = ("backfill", "plan", str(file), name, "--output-partition", hour)
        with self._forks.command(*plan) as planning:
            if planning.end(LONGEST_LIFE) != 0:  # what is not visible yet cannot be planned
                return
        strike = self._rng.choice((*STEPS[-6:], *[""] * 6))
        if strike:
            with self._forks.backfill(self._struck_file(strike), name, strike) as landing:
                landing.end(LONGEST_LIFE)
        with self._forks.backfill(file, name) as landing:
            if landing.end(3 * LONGEST_LIFE) != 0:
                self._given_up.append(name)
                return
        strike = self._rng.choice((*STEPS[:2], *[""] * 4))
        promote = ("promote", str(self._struck_file(strike)), name, "--why", "chaos", "--take-over")
        with self._forks.command(*promote, strike=strike) as promoting:
            code = promoting.end(60)
        self.done[f"promotions {UNDONE.get(code, 'that were refused')}".replace("undos ", "")] += 1

    def _live(self) -> None:
        """Return at a random moment, by what the drivers have done: they may be slow."""
        enough = self.scene.state().seq + self._rng.randint(1, MOST_SLOTS)
        end = time.monotonic() + LONGEST_LIFE
        while self.scene.state().seq < enough and time.monotonic() < end:
            time.sleep(0.1)
        time.sleep(self._rng.uniform(0, MOMENT))

    def _driver(self, strike: str = "") -> Forked:
        self.done["drivers"] += 1
        return self._forks.driver(self._struck_file(strike), strike)

    # ----------------------------------------------------------------------- the group and its load

    def _struck_file(self, strike: str) -> Path:
        return self.folder / ("struck.yaml" if strike else "proxied.yaml")

    def _file(self, name: str, endpoint: str) -> None:
        """Write the group's file, with this address of the store."""
        s3 = {"endpoint": endpoint, "pathStyle": True, "readTimeout": "5s", "connectTimeout": "3s"}
        output = {**self.spec["output"], "s3": s3}
        document = self.scene.document(**{**self.spec, "output": output})
        (self.folder / f"{name}.yaml").write_text(yaml.safe_dump(document))
        if name == "proxied":
            document["spec"]["output"]["store"] = STRUCK
            (self.folder / "struck.yaml").write_text(yaml.safe_dump(document))

    def _produce(self) -> None:
        """Let records arrive, an hour every few seconds, until the run ends."""
        begin = datetime.now(UTC) - timedelta(days=300)
        producer, turn = self.scene.kafka.producer(), 0
        while not self._stopped.wait(PAUSE):
            at = int((begin + turn * STEP).timestamp() * 1000)
            for p in range(PARTITIONS):
                for n in range(turn * BATCH, (turn + 1) * BATCH):
                    body = json.dumps({"p": p, "n": n, "ts": at + n % BATCH}).encode()
                    message = Message(body, partition=p, timestamp=at)
                    self.scene.kafka.send(producer, self.topic, [message])
            turn += 1
        self.scene.kafka.flush(producer)
        self._produced = turn * BATCH

    # ------------------------------------------------------------------------------------ the end

    def _finish(self) -> None:
        """Land and merge what is left, without faults, and discard backfills that were given up."""
        direct = str(self.folder / "direct.yaml")
        for name in self._given_up:
            with self._forks.command("backfill", "discard", direct, name) as discarding:
                assert discarding.end(60) == 0, f"{name} cannot be discarded"
        with self._forks.driver(Path(direct), until_caught_up=True) as last:
            code = last.end(600)
        assert code == 0, (self.folder / "last.log").read_text()[-3000:]

    def _wrong(self, readers: Readers) -> Iterator[str]:
        whole = dict.fromkeys(range(PARTITIONS), self._produced)
        if readers.visible != whole:
            yield f"{readers.visible} is visible by the ledger, {whole} was produced"
        listed = Counter[tuple[int, int]]()
        for key in self.scene.bucket.keys(f"{self.topic}/"):
            listed += readers._rows(key)
        if listed != Counter((p, n) for p in whole for n in range(self._produced)):
            yield "the objects of the last listing have rows twice, or not at all"
        yield from self.scene.findings(**self.spec)
        # Those of a driver that was killed while it tested its store, or kept a copy, are aborted
        # only once they are old: others may still write to them.
        own = (PROBES, object_names.retired_prefix("scene", LANE))
        yield from (key for key in self.scene.bucket.open_uploads() if not key.startswith(own))

    def _count(self) -> None:
        state, lane = self.scene.state(), self.scene.lane()
        self.done["records"] = state.totals.landed
        self.done["commits"] = state.totals.commits
        self.done["objects that retired"] = state.totals.retired
        self.done["objects in their place"] = state.totals.replacing
        self.done["slots"] = state.seq + 1
        kinds = Counter(json.loads(body)["type"] for _, body in lane.bodies())
        self.done["REPLACEs in slots that are not rolled up"] = kinds["REPLACE"]
