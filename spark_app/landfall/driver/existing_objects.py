"""Refuses to land beside objects that the ledger does not know, before anything is written.

Such objects are another program's (Secor), or their ledger was deleted. Landing would then write
everything again, and replace the objects that get the same names. So a ledger is not started in an
output root that holds data objects, and a topic does not enter a ledger for the first time while
its folder holds anything. ``spec.output.existingObjects: Keep`` allows both, unless an object is
named by this generation or a higher one: its name may be given again.
"""

import logging
from collections import defaultdict
from collections.abc import Callable, Collection, Iterable, Mapping
from collections.abc import Set as AbstractSet
from concurrent.futures import Executor
from datetime import datetime, timedelta
from itertools import islice
from os.path import commonprefix

from landfall.api.route_pattern import TOPIC_END
from landfall.api.spec import ConsumerGroup, TopicSpecs
from landfall.driver.background import Background
from landfall.errors import Reason, Stalled
from landfall.ledger import State, object_names
from landfall.ledger.folders import split_destination
from landfall.ledger.offsets import TopicPartition
from landfall.store import Slots

log = logging.getLogger(__name__)

FIRST_KEYS = 1000
"""How many keys are looked at, where one is not enough: as many as one request lists."""
THREADS = 16
LOOK_INTERVAL = timedelta(minutes=1)
"""Time between two looks at the folder of a topic that was refused."""


def check_root_free(group: ConsumerGroup, slots: Slots) -> None:
    """Return if a ledger of this group may be started in the output root.

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
        self._group, self._slots = group, slots
        self._new_pool: Callable[[], Executor] = lambda: background.pool(THREADS, "first-look")
        self._specs = TopicSpecs.of(group.spec)
        self._free: set[str] = set()
        self._refused: dict[str, tuple[datetime, Stalled]] = {}

    def occupied(
        self, state: State, entering: Collection[TopicPartition], now: datetime
    ) -> Mapping[TopicPartition, Stalled]:
        """Those of ``entering`` that may not enter, and why.

        One request for all new topics, and one more for each that the first did not answer.

        Raises:
            Retry: the store does not answer.
        """
        if not entering:
            return {}
        known = {tp.topic for tp in (*state.members, *state.retired)}
        topics = {tp.topic for tp in entering} - known
        due = {topic for topic in topics - self._free if self._is_due(topic, now)}
        if due:
            for topic, key in self._look(due).items():
                self._remember(topic, key, now)
        refused = {topic: self._refused[topic][1] for topic in topics & self._refused.keys()}
        return {tp: refused[tp.topic] for tp in entering if tp.topic in refused}

    def _is_due(self, topic: str, now: datetime) -> bool:
        before = self._refused.get(topic)
        return before is None or now - before[0] >= LOOK_INTERVAL

    def _look(self, topics: AbstractSet[str]) -> Mapping[str, str | None]:
        """By topic, the first key in its folders that keeps it out, if there is one."""
        above = {topic: self._specs.for_topic(topic).route.topic_path for topic in topics}
        in_root = {topic for topic, path in above.items() if path is None}
        found = dict(self._look_in_root(in_root)) if in_root else {}
        for topic in sorted(topics - in_root):
            found[topic] = self._look_in_destinations(topic, str(above[topic]))
        return found

    def _look_in_destinations(self, topic: str, topic_path: str) -> str | None:
        """The first key that keeps a topic out of one of the first thousand destinations.

        Destinations are found one by one: behind the keys of one, whatever they are, is the next.
        """
        prefix, after = topic_path.partition("{")[0], ""
        depth = topic_path.removesuffix(TOPIC_END).count("/") + 1
        for _ in range(FIRST_KEYS):
            first = next(iter(self._slots.list_after(prefix, after)), None)
            if first is None:
                return None
            above = [name for name in split_destination(first.key)[0].split("/") if name]
            names = first.key.split("/")[: min(depth, len(above) + 1)]
            folder = "/".join(names)
            if len(above) >= depth and (found := self._look_at_one(f"{folder}/{topic}")):
                return found
            # The character "0" follows "/", which ends every folder's name in a key.
            after = f"{folder}0"
        return None

    def _look_in_root(self, topics: AbstractSet[str]) -> Mapping[str, str | None]:
        folders = sorted(f"{topic}/" for topic in topics)
        # From before the first folder, so that a key with the folder's own name is listed, too.
        prefix = commonprefix(folders)  # noqa: RUF071  # by characters, as keys are listed
        listing = self._slots.list_after(prefix, folders[0][:-1])
        keys = [stat.key for stat in islice(listing, FIRST_KEYS)]
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
                found |= zip(unknown, pool.map(self._look_at_one, unknown), strict=True)
        return found

    def _look_at_one(self, topic: str) -> str | None:
        keys = (stat.key for stat in self._slots.list_after(f"{topic}/"))
        return self._in_the_way(islice(keys, FIRST_KEYS))

    def _in_the_way(self, keys: Iterable[str]) -> str | None:
        return next((key for key in keys if _is_in_the_way(self._group, key)), None)

    def _remember(self, topic: str, key: str | None, now: datetime) -> None:
        if key is None:
            self._free.add(topic)
            self._refused.pop(topic, None)
            return
        message = f"{topic}: the ledger does not know this topic, {_advice(self._group, key)}"
        if topic not in self._refused:
            log.warning("topic refused", extra={"topic": topic, "why": message})
        self._refused[topic] = now, Stalled(Reason.OUTPUT_OCCUPIED, message)


def _is_in_the_way(group: ConsumerGroup, key: str) -> bool:
    generation = _generation(key)
    if group.spec.output.existing_objects == "Refuse":
        return True
    return generation is not None and generation >= group.spec.generation


def _generation(key: str) -> int | None:
    """The generation that named a data object; None for anything else."""
    try:
        return object_names.parse_key(key).generation
    except ValueError:
        return None


def _advice(group: ConsumerGroup, key: str) -> str:
    """What is there, and what to do about it."""
    generation = _generation(key)
    if group.spec.output.existing_objects == "Keep":
        return f"but {key} is there: raise spec.generation above {generation}"
    above = max(generation or 0, group.spec.generation - 1)
    return (
        f"but {key} is there: restore _landfall/ if it was lost, choose another output root, or, "
        "to land beside objects that another program wrote, set spec.output.existingObjects: Keep "
        f"and spec.generation above {above}"
    )
