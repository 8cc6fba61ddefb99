"""Schedules whose drivers land files of other programs instead of topics.

Files appear under any name at any time, are written anew, half written and finished later, damaged
and mended or not, and deleted. Some schedules have a feed, too, whose files others process
(``tests.crashes.takers``). Everything else is as in ``tests.crashes.machine``; what must hold is in
``tests.crashes.feed_judge`` and ``tests.crashes.lease_judge``.
"""

import random
from collections import defaultdict
from collections.abc import Callable, Iterable
from dataclasses import replace
from datetime import datetime, timedelta

from landfall.api.contract import ExitCode
from landfall.api.spec import ConsumerGroup, Feed
from landfall.driver.core.deps import DriverDeps
from landfall.driver.core.observer import Observer
from landfall.driver.process.loop import Driver
from landfall.ledger.offsets import TopicPartition
from landfall.source.files_log import FilesLog
from landfall.store.memory import MemoryFiles
from tests.crashes import feed_judge, lease_judge
from tests.crashes.feed_world import (
    DAMAGE,
    EXTERNAL,
    MAX_ATTEMPTS,
    TOPICS,
    FileRunner,
    Folder,
    GatedFiles,
    group_of_files,
    small_lists,
)
from tests.crashes.luck import Loss
from tests.crashes.machine import Schedule
from tests.crashes.process import Process
from tests.crashes.takers import Takers
from tests.crashes.world import driver_deps

LATER = timedelta(hours=1)
"""After so long, every file has settled, and everything is due again."""
MAX_ROWS = 12
WITH_TAKERS = 0.7
"""How many schedules without dead letters have a feed whose files others process."""


class FeedSchedule(Schedule):
    """One run; see the module.

    Attributes:
        folders: the files of each feed, by topic.
        texts: what tasks have read under each offset of a topic.
        on_change: as in the spec.
        has_takers: there is a feed, too, whose files are not landed, but taken by others.
        takers: these.
    """

    on_change, has_takers = "LandAgain", False

    def __init__(
        self, seed: int, *, kind: type[Driver] = Driver, tell: Callable[[str], None] | None = None
    ) -> None:
        super().__init__(seed, kind=kind, tell=tell)
        self.luck = replace(
            self.luck,
            loss=Loss.VERSIONS if self.dice.random() < 0.5 else Loss.COMMITTED,
            leaderless=False,
            ranges=False,
        )
        self.log.partitions.clear()
        self.on_change = self.dice.choice(("LandAgain", "Ignore"))
        self._tick, self._later = self.clock, timedelta(0)
        self.clock = self._now
        self.has_takers = self.dice.random() < WITH_TAKERS and not self.luck.letters
        topics = (*TOPICS, EXTERNAL) if self.has_takers else TOPICS
        self.folders = {t: Folder(self._ask_log, MemoryFiles(self._now)) for t in topics}
        self.texts: defaultdict[tuple[str, int], set[bytes]] = defaultdict(set)
        for _ in range(self.dice.randrange(8) * (1 + self.has_takers)):
            self._write_new()
        self.takers = Takers(self)
        if self.has_takers:
            self.luck = replace(self.luck, steps=3 * self.luck.steps)

    def group(self, generation: int) -> ConsumerGroup:
        return group_of_files(
            generation,
            self.luck.snapshot_every,
            self.luck.segment_every,
            self.on_change,
            publishes=self.luck.publishes,
            external=self.has_takers,
        )

    def deps(self, name: str, group: ConsumerGroup) -> DriverDeps:
        runner = FileRunner(self.store)
        runner.folders, runner.texts = self.folders, self.texts
        return replace(
            driver_deps(self, name, runner),
            observer=Observer(FilesLog(group), timedelta(0)),
            runner=runner,
            open_files=self._open_files,
        )

    def run(self) -> None:
        with small_lists(), self.takers.asking.time_of_sessions():
            if self.has_takers:
                self._number_files()
                self.takers.start()
            super().run()
            if self.takers.wake():
                self.scheduler.play()
                self._deliver_all()
                self.judge()

    def source_events(self) -> list[Callable[[], object]]:
        of_files = [self._write_new, self._write_new, self._write_anew, self._write_anew]
        return [*of_files, self._delete, *self.takers.events()]

    def land_the_rest(self) -> Process:
        """Let drivers land, one after the other, until one finds nothing to do, and takers neither.

        One that is to land what is there ends without what it numbers last: parts that are tried
        again, and files that were written anew meanwhile.
        """
        before = None
        while True:
            self._later += LATER
            self.takers.start()
            last = super().land_the_rest()
            with self.judging():
                state = self.lane.read()
            if (state.checkpoint, state.feeds) == before:
                return last
            before = state.checkpoint, state.feeds

    def last_code(self) -> ExitCode:
        """Parts that nobody can read, or process, are what a person must look at."""
        with self.judging():
            feeds = self.lane.read().feeds.values()
        parked = ((feed, part) for feed in feeds for part in feed.parked.values())
        is_left = any(feed.leasing is None or p.attempt >= MAX_ATTEMPTS for feed, p in parked)
        return ExitCode.STALLED if is_left else ExitCode.OK

    def findings(self) -> Iterable[str]:
        yield from feed_judge.findings(self)
        yield from lease_judge.findings(self)

    def stuck(self, process: Process) -> Iterable[str]:
        yield from feed_judge.stuck(self, process)
        yield from lease_judge.stuck(self, process)

    def let_pass(self, time: timedelta) -> None:
        """Let the clock go on by so much at once."""
        self._later += time
        self.say(f"{time} pass")

    def log_start(self, _: TopicPartition) -> int:
        return 0

    def _now(self) -> datetime:
        return self._tick() + self._later

    def _number_files(self) -> None:
        """Number the files that are there: otherwise few schedules came as far as a lease."""
        self.calm, self._later = True, self._later + LATER
        super().land_the_rest()
        self.calm, self.steps = False, 0

    def _open_files(self, feed: Feed) -> GatedFiles:
        return GatedFiles(self.folders[feed.topic])

    # ------------------------------------------------------------------------ what happens to files

    def _one_topic(self) -> str:
        others = [EXTERNAL] * (len(TOPICS) * self.has_takers)
        return self.dice.choice([*TOPICS, *others])

    def _write_new(self) -> None:
        topic = self._one_topic()
        self._write(topic, f"{self.dice.randrange(3)}/{self.dice.randrange(1000):03}")

    def _write_anew(self) -> None:
        """Finish, mend, damage or replace a file."""
        topic = self._one_topic()
        if listed := self.folders[topic].listing():
            self._write(topic, self.dice.choice(listed).name)

    def _delete(self) -> None:
        topic = self._one_topic()
        if listed := self.folders[topic].listing():
            name = self.dice.choice(listed).name
            self.folders[topic].files.delete(name)
            self.say(f"{topic}: {name} is deleted")

    def _write(self, topic: str, name: str) -> None:
        body = _body(self.dice, f"{name}#{next(self.names)}")
        self.folders[topic].write(name, body)
        self.say(f"{topic}: {name} is written: {body!r}")


def _body(dice: random.Random, version: str) -> bytes:
    """Rows that say of which version they are; the last one may be half written."""
    rows = [f"{version}:{number}".encode() for number in range(dice.randrange(MAX_ROWS))]
    if rows and dice.random() < 0.3:
        number = dice.randrange(len(rows))
        rows[number] = DAMAGE + rows[number]
    return b"".join(row + b"\n" for row in rows) + f"{version}:half".encode() * dice.randrange(2)
