"""Refuses to land next to objects that the ledger does not know, before anything is written.

Such objects are another program's (Secor), or their ledger was deleted. Landing would then write
everything again, and replace the objects that get the same names. So a ledger is not started in an
output root that holds data objects, and a topic does not enter a ledger for the first time while
its folder holds anything. ``spec.output.existingObjects: Keep`` allows both, unless an object is
named by this generation or a higher one: its name may be given again.
"""

import logging
from collections import defaultdict
from collections.abc import Callable, Collection, Generator, Iterable, Mapping
from collections.abc import Set as AbstractSet
from concurrent.futures import Executor
from datetime import datetime, timedelta
from itertools import islice, takewhile
from os.path import commonprefix

from landfall.api.route_pattern import TOPIC_END
from landfall.api.spec import ConsumerGroup, TopicSpecs
from landfall.driver.core.background import Background
from landfall.errors import Reason, Retry, Stalled
from landfall.ledger import State
from landfall.ledger.names import object_names
from landfall.ledger.offsets import TopicPartition
from landfall.store import Slots
from landfall.store.file import STAGING

log = logging.getLogger(__name__)

FIRST_KEYS = 1000
"""How many keys are looked at in one go: as many as one request lists."""
LOOKS = 20
"""How many requests follow each other in a call, so that a driver is not kept from landing."""
THREADS = 16
LOOK_INTERVAL = timedelta(minutes=1)
"""Time between two looks at the folder of a topic that was refused."""

_RESERVED: Mapping[str, str] = {
    object_names.SYSTEM: "in the folder of the ledger, _landfall/",
    STAGING: f"in a folder of the store, {STAGING}/",
}
"""Where topics of these names would land. Kafka allows both, and any producer may create one."""

Walk = Generator[None, None, Mapping[str, str]]
"""A look at many objects that pauses after each request; returns a key that is in the way by topic,
for the topics that have one.
"""


def check_root_free(group: ConsumerGroup, slots: Slots) -> None:
    """Return if a ledger of this group may be started in the output root, by its first objects.

    ``ExistingObjects`` finds the rest: no topic is known to a ledger that begins.

    Raises:
        Stalled: OUTPUT_OCCUPIED, the root holds data objects.
        Retry: the store does not answer.
    """
    for stat in islice(slots.list_after(""), FIRST_KEYS):
        if _generation(stat.key) is not None and _is_in_the_way(group, stat.key):
            raise Stalled(
                Reason.OUTPUT_OCCUPIED,
                f"{group.spec.output.url} has no ledger of {group.metadata.name}, "
                f"{_advice(group, stat.key)}",
            )


class ExistingObjects:
    """Looks at the folders of topics that the ledger does not know; on the driver's thread."""

    def __init__(self, group: ConsumerGroup, slots: Slots, background: Background) -> None:
        """Nothing is requested before ``occupied`` is asked about a topic."""
        self._group = group
        self._slots = slots
        self._new_pool: Callable[[], Executor] = lambda: background.pool(THREADS, "first-look")
        self._specs = TopicSpecs.of(group.spec)
        self._free: set[str] = set()
        self._refused: dict[str, tuple[datetime, Stalled]] = {}
        self._walks: dict[str, tuple[frozenset[str], Walk]] = {}

    @property
    def unfinished(self) -> frozenset[str]:
        """Topics for which it is not yet known whether they may enter: ask again."""
        return frozenset(topic for topics, _ in self._walks.values() for topic in topics)

    def occupied(
        self, state: State, entering: Collection[TopicPartition], now: datetime
    ) -> Mapping[TopicPartition, Stalled]:
        """Return the topics of ``entering`` that may not enter, and why.

        Those ``unfinished`` may not enter, either. One request for all new topics, and one more for
        each that the first did not answer. Where all destinations must be looked at, or all objects
        of a folder, at most ``LOOKS`` requests are made per call.

        Raises:
            Retry: the store does not answer.
        """
        if not entering:
            return {}
        known = {tp.topic for tp in (*state.members, *state.retired)}
        topics = {tp.topic for tp in entering} - known
        for topic in sorted(topics & _RESERVED.keys()):
            advice = "leave it out, by source.kafka.exclude where topicPattern matches it"
            why = f"a topic of this name would land {_RESERVED[topic]}: {advice}"
            self._refuse(topic, why, now)
            topics.remove(topic)
        due = {topic for topic in topics - self._free if self._is_due(topic, now)}
        if due - self.unfinished:
            for topic, key in self._look(due - self.unfinished).items():
                self._remember(topic, key, now)
        self._go_on(now)
        asked = {tp.topic for tp in entering} - known
        refused = {topic: self._refused[topic][1] for topic in asked & self._refused.keys()}
        return {tp: refused[tp.topic] for tp in entering if tp.topic in refused}

    def _is_due(self, topic: str, now: datetime) -> bool:
        before = self._refused.get(topic)
        return before is None or now - before[0] >= LOOK_INTERVAL

    def _look(self, topics: AbstractSet[str]) -> Mapping[str, str | None]:
        """Return by topic the first key in its folder that keeps it out, if there is one.

        Topics for which this takes longer are not included, but ``unfinished``.
        """
        above = {topic: self._specs.for_topic(topic).route.topic_path for topic in topics}
        in_root = {topic for topic, path in above.items() if path is None}
        for path in {path for path in above.values() if path is not None}:
            of_path = frozenset(topic for topic in topics if above[topic] == path)
            self._walks[f"{path} {min(of_path)}"] = of_path, self._destinations(of_path, path)
        return self._look_in_root(in_root) if in_root else {}

    def _go_on(self, now: datetime) -> None:
        """Continue the walks, the first one first, until ``LOOKS`` requests were made."""
        looks = 0
        while self._walks and looks < LOOKS:
            name, (topics, walk) = next(iter(self._walks.items()))
            try:
                while looks < LOOKS:
                    next(walk)
                    looks += 1
            except StopIteration as end:
                for topic in topics:
                    self._remember(topic, end.value.get(topic), now)
                del self._walks[name]
            except Retry:
                del self._walks[name]  # a walk cannot be continued after an error, only repeated
                raise
        if self._walks:
            log.info(
                "topics held back: existing objects are being checked",
                extra={"topics": len(self.unfinished)},
            )

    def _destinations(self, topics: AbstractSet[str], topic_path: str) -> Walk:
        """Look at the folders of topics in every destination that there is.

        Of a destination that fills a page of its own, only the topics' folders are looked at.
        """
        prefix, after = topic_path.partition("{")[0], ""
        depth = topic_path.removesuffix(TOPIC_END).count("/") + 1
        found: dict[str, str] = {}
        while True:
            keys = self._page(prefix, after)
            yield
            for key in keys:
                if (topic := _topic_at(key, depth)) in topics:
                    self._note(found, topic, key)
            if len(keys) < FIRST_KEYS:
                return found
            # Where the page ends: in a destination, in another folder, or with an object.
            reached, after = _depth(keys[-1], depth), keys[-1]
            folder = "/".join(after.split("/")[: reached + (reached < depth)])
            if all(key.startswith(f"{folder}/") for key in keys):
                if reached == depth:
                    found |= yield from self._topics_in(folder, topics - found.keys())
                # The character "0" follows "/", which ends every folder's name in a key.
                after = f"{folder}0"

    def _topics_in(self, folder: str, topics: Collection[str]) -> Walk:
        found = {}
        for topic in topics:
            if key := (yield from self._folder(f"{folder}/{topic}/")):
                found[topic] = key
        return found

    def _folder(self, prefix: str) -> Generator[None, None, str]:
        """Look at a folder; returns the first key in it that is in the way, or nothing."""
        after = ""
        while True:
            keys = self._page(prefix, after)
            yield
            if key := self._in_the_way(keys):
                return key
            if len(keys) < FIRST_KEYS:
                return ""
            after = keys[-1]

    def _folder_of(self, topic: str) -> Walk:
        key = yield from self._folder(f"{topic}/")
        return {topic: key} if key else {}

    def _page(self, prefix: str, after: str) -> list[str]:
        return [stat.key for stat in islice(self._slots.list_after(prefix, after), FIRST_KEYS)]

    def _note(self, found: dict[str, str], topic: str, key: str) -> None:
        if self._in_the_way([key]):
            found.setdefault(topic, key)

    def _look_in_root(self, topics: AbstractSet[str]) -> Mapping[str, str | None]:
        folders = sorted(f"{topic}/" for topic in topics)
        # From before the first folder, so that a key with the folder's own name is listed, too.
        prefix = commonprefix(folders)  # noqa: RUF071  # by characters, as keys are listed
        keys = self._page(prefix, folders[0][:-1])
        is_whole = len(keys) < FIRST_KEYS
        within = defaultdict[str, list[str]](list)
        for key in keys:
            within[key.partition("/")[0]].append(key)
        known = {
            folder[:-1]
            for folder in folders
            if is_whole or (folder < keys[-1] and not keys[-1].startswith(folder))
        }
        found = {topic: self._in_the_way(within[topic]) for topic in sorted(known)}
        if unknown := sorted(topics - known):
            with self._new_pool() as pool:
                pages = pool.map(lambda topic: self._page(f"{topic}/", ""), unknown)
                for topic, page in zip(unknown, pages, strict=True):
                    found[topic] = self._in_the_way(page)
                    if found[topic] is None and len(page) == FIRST_KEYS:
                        del found[topic]
                        self._walks[topic] = frozenset([topic]), self._folder_of(topic)
        return found

    def _in_the_way(self, keys: Iterable[str]) -> str | None:
        return next((key for key in keys if _is_in_the_way(self._group, key)), None)

    def _remember(self, topic: str, key: str | None, now: datetime) -> None:
        if key is None:
            self._free.add(topic)
            self._refused.pop(topic, None)
            return
        why = f"the ledger does not know this topic, {_advice(self._group, key)}"
        self._refuse(topic, why, now)

    def _refuse(self, topic: str, why: str, now: datetime) -> None:
        message = f"{topic}: {why}"
        if topic not in self._refused:
            log.warning("topic refused", extra={"topic": topic, "why": message})
        self._refused[topic] = now, Stalled(Reason.OUTPUT_OCCUPIED, message)


def _is_in_the_way(group: ConsumerGroup, key: str) -> bool:
    generation = _generation(key)
    if group.spec.output.existing_objects == "Refuse":
        return True
    return generation is not None and generation >= group.spec.generation


def _depth(key: str, most: int) -> int:
    """Return how many folders of a destination a key begins with; of no more than ``most``."""
    return sum(1 for _ in takewhile(lambda folder: "=" in folder, key.split("/")[:-1][:most]))


def _topic_at(key: str, depth: int) -> str:
    """Return the folder after so many folders of a destination; empty if there is none."""
    names = key.split("/")
    return names[depth] if len(names) > depth + 1 and _depth(key, depth) == depth else ""


def _generation(key: str) -> int | None:
    """Return the generation that named a data object; None for anything else."""
    try:
        return object_names.parse_key(key).generation
    except ValueError:
        return None


def _advice(group: ConsumerGroup, key: str) -> str:
    """Return what exists there, and what to do about it."""
    generation = _generation(key)
    if group.spec.output.existing_objects == "Keep":
        return f"but {key} is there: raise spec.generation above {generation}"
    above = max(generation or 0, group.spec.generation - 1)
    return (
        f"but {key} is there: restore _landfall/ if it was lost, choose another output root, or, "
        "to land next to objects that another program wrote, set spec.output.existingObjects: Keep "
        f"and spec.generation above {above}"
    )
