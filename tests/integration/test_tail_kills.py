"""Looks at landed rows and their tail, while drivers are killed, frozen and continued."""

import os
import random
import signal
import threading
import time
from collections.abc import Iterator
from contextlib import contextmanager
from itertools import count
from pathlib import Path
from typing import Any, Self

import pytest

import landfall
from landfall.api.contract import ExitCode
from tests.support.audit.independent_audit import events
from tests.support.landing.group import Scene
from tests.support.landing.processes import Process, Processes
from tests.support.waiting import PATIENCE

pytestmark = [pytest.mark.full, pytest.mark.xdist_group("drivers")]

LOOKS = int(os.environ.get("LANDFALL_LOOKS", "200"))
LOOKS_AT_A_TOPIC = 100
"""Then another topic is looked at: a look reads all that has landed of one."""
SEED = int(os.environ.get("LANDFALL_SEED", "0")) or random.randrange(2**32)
LIVES = (8.0, 20.0)
"""Seconds between two strikes, at least and at most; a driver needs a few to start."""
SPEC: dict[str, Any] = {
    "output": {"format": "Parquet"},  # the envelope of each record, with its offset
    "decode": {"format": "Raw"},
    "route": {"pattern": "all"},
    "uploadPolicy": {"maxBytes": "1M", "maxAge": "500ms"},
}


class Producer:
    """Produces to both Kafka partitions of a topic until the block ends.

    Attributes:
        topic: the topic; it may change.
        acked: the end offset of each Kafka partition, at least.
    """

    def __init__(self, scene: Scene) -> None:
        self._scene, self._is_over = scene, threading.Event()
        self.topic, self.acked = "", 0
        self.next_topic()
        self._thread = threading.Thread(target=self._produce, daemon=True)

    def next_topic(self) -> None:
        """Go on with a topic that has a few records."""
        topic = self._scene.topic(f"t{len(self._scene.topics)}", partitions=2)
        self._send(topic, 0)
        self.topic, self.acked = topic, 5

    def _send(self, topic: str, first: int) -> None:
        numbers = range(first, first + 5)
        self._scene.kafka.produce(topic, [*events(numbers, 0), *events(numbers, 1)])

    def _produce(self) -> None:
        while not self._is_over.wait(0.1):
            topic, acked = self.topic, self.acked
            self._send(topic, acked)
            if topic == self.topic:
                self.acked = acked + 5

    def __enter__(self) -> Self:
        self._thread.start()
        return self

    def __exit__(self, *_: object) -> None:
        self._is_over.set()
        self._thread.join()


class Strikes:
    """Kills and freezes drivers, one after another; what is frozen continues later.

    Attributes:
        done: how often each has happened.
        error: what went wrong, if something did.
    """

    def __init__(self, scene: Scene, processes: Processes) -> None:
        self._document, self._processes = scene.document(**SPEC), processes
        self._chosen, self._is_over = random.Random(SEED), threading.Event()
        self.done = {"killed": 0, "frozen": 0}
        self.error: BaseException | None = None
        self._frozen: Process | None = None
        self._thread = threading.Thread(target=self._strike, daemon=True)

    def _strike(self) -> None:
        try:
            while not self._is_over.is_set():
                driver = self._processes.run(self._document, "--http-port", "0")
                self._is_over.wait(self._chosen.uniform(*LIVES))
                self._end_frozen()
                self._hit(driver)
        except BaseException as error:  # noqa: BLE001  # raised when the block ends
            self.error = error

    def _hit(self, driver: Process) -> None:
        assert driver.popen.poll() is None, driver.said
        if self._chosen.random() < 0.5:
            driver.send(signal.SIGKILL)
            driver.end()
            driver.clear()
            self.done["killed"] += 1
        else:
            driver.send(signal.SIGSTOP)
            driver.wait_until_stopped()
            self._frozen = driver
            self.done["frozen"] += 1

    def _end_frozen(self) -> None:
        """Let a frozen driver continue, which finds out that it was fenced, or is killed."""
        if self._frozen:
            self._frozen.send(signal.SIGCONT)
            time.sleep(self._chosen.uniform(0, 2))
            self._frozen.send(signal.SIGKILL)
            self._frozen.end()
            self._frozen.clear()
            self._frozen = None

    @contextmanager
    def under_way(self) -> Iterator[None]:
        """Strike until the block ends."""
        self._thread.start()
        try:
            yield
        finally:
            self._is_over.set()
            self._thread.join(3 * PATIENCE)
            self._end_frozen()
        if self.error:
            raise self.error


@pytest.mark.timeout(max(900, LOOKS))
def test_each_look_is_right_whatever_happens_to_drivers(
    scene: Scene, processes: Processes, tmp_path: Path
) -> None:
    group = landfall.open(scene.file(tmp_path, **SPEC))
    strikes, halves = Strikes(scene, processes), set[tuple[bool, bool]]()

    with Producer(scene) as producer, strikes.under_way():
        for look in count():
            if look >= LOOKS and all(strikes.done.values()) and (True, True) in halves:
                break
            assert strikes.error is None, strikes.error
            if look and look % LOOKS_AT_A_TOPIC == 0:
                producer.next_topic()
                group = landfall.open(tmp_path / "group.yaml")
            acked = producer.acked
            scan = group.scan(producer.topic, tail=True)
            assert scan.tail is not None
            ends = {tp.partition: end for tp, end in scan.tail.plan.ends.items()}
            assert len(ends) == 2, (SEED, look)
            assert min(ends.values()) >= acked, (SEED, look)
            rows = scan.to_arrow().select(["partition", "offset"])
            found = sorted(map(tuple, zip(*(rows[i].to_pylist() for i in (0, 1)), strict=True)))
            expected = [(partition, at) for partition in (0, 1) for at in range(ends[partition])]
            assert found == expected, (SEED, look)
            halves.add((scan.rows > 0, scan.tail.counts().rows > 0))

    print(f"{look} looks by seed {SEED}, of drivers {strikes.done}")
    last = processes.run(scene.document(**SPEC), "--until-caught-up", "--http-port", "0")
    assert last.end() == ExitCode.OK, last.said
    assert scene.findings(**SPEC) == []
