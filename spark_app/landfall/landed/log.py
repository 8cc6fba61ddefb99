"""Another group's landed records as a ``source.Log`` that ends where its objects are visible.

Topic partitions of topics that Kafka does not have any more are in it, too. If that group has
landed a topic that was deleted and created again, the log is of the newest topic.
"""

from collections.abc import Collection, Mapping
from datetime import datetime

from landfall.api.spec import LandedSource
from landfall.errors import Reason, Stalled
from landfall.landed.history import History, Life
from landfall.landed.specs import LandedBy
from landfall.ledger.offsets import TopicPartition
from landfall.source import Bound, DatedOffset, FoundOffsets, FoundTopics, Topic


class LandedLog:
    """The landed records of a group. Used by the driver's thread alone."""

    def __init__(self, landed: LandedSource, history: History) -> None:
        """Read nothing yet.

        Args:
            landed: which group's.
            history: of that group's lane, of the topics that are selected.
        """
        self._landed = landed
        self._history = history
        self._landed_by = LandedBy(history, landed.field)
        self._topic_ids: dict[str, str] = {}  # of the topics that were found last

    def topics(self, known: Collection[str] = ()) -> FoundTopics:
        """The topics that the other group has landed, and this one selects.

        Those whose objects do not hold what Kafka held are denied.
        """
        del known  # nothing is hidden
        self._follow()
        found = self._found({tp.topic for tp in self._history.topic_partitions})
        if found.denied and not found.topics:
            raise next(iter(found.denied.values()))
        return found

    def describe(self, names: Collection[str]) -> FoundTopics:
        """The topics among these that the other group has landed, as its ledger is now."""
        self._follow()
        return self._found(names)

    def offsets(self, tps: Collection[TopicPartition], bound: Bound) -> FoundOffsets:
        """Where landing began, or up to where everything is visible.

        A topic partition that was landed of a former topic only is none of the newest one's.
        """
        if bound is Bound.END:
            self._follow()
        lives = self._history.lives(tps)
        is_start = bound is Bound.LOG_START
        return FoundOffsets(
            {
                tp: life.start if is_start else life.end
                for tp, life in lives.items()
                if life.topic_id == self._topic_ids.get(tp.topic, life.topic_id)
            },
            {},
        )

    def offsets_at(
        self, tps: Collection[TopicPartition], time: datetime
    ) -> Mapping[TopicPartition, int]:
        """Nothing: a ledger does not record when records were written to Kafka."""
        del tps, time
        return {}

    def first_from(
        self, tps: Collection[TopicPartition], time: datetime
    ) -> Mapping[TopicPartition, DatedOffset | None]:
        """Nothing, as ``offsets_at``."""
        del tps, time
        return {}

    def record_times(
        self, positions: Mapping[TopicPartition, int]
    ) -> Mapping[TopicPartition, datetime]:
        """Nothing: how long a record waits counts from when the driver first saw it landed."""
        del positions
        return {}

    def mirror(self, next_offsets: Mapping[TopicPartition, int]) -> None:
        """Do nothing: no tool of Kafka knows this log."""

    def close(self) -> None:
        """Do nothing: there is no connection."""

    def _follow(self) -> None:
        self._history.follow()
        if self._history.state.seq < 0:
            raise Stalled(
                Reason.SPEC_INVALID,
                f"{self._landed.field}: {self._landed.group} has landed nothing in "
                f"{self._landed.url}: there is no ledger",
            )

    def _found(self, names: Collection[str]) -> FoundTopics:
        wanted = (tp for tp in self._history.topic_partitions if tp.topic in names)
        lives: dict[str, dict[int, Life]] = {}
        for tp, life in self._history.lives(wanted).items():
            lives.setdefault(tp.topic, {})[tp.partition] = life
        denied = {topic: why for topic in sorted(lives) if (why := self._why_denied(topic))}
        topics = tuple(_topic(name, lives[name]) for name in sorted(lives) if name not in denied)
        self._topic_ids |= {topic.name: topic.topic_id for topic in topics}
        return FoundTopics(topics, denied)

    def _why_denied(self, topic: str) -> Stalled | None:
        try:
            self._landed_by.refuse(self._landed_by.present(topic), topic)
        except Stalled as stalled:
            return stalled
        return None


def _topic(name: str, lives: Mapping[int, Life]) -> Topic:
    """The newest topic of a name, with its own Kafka partitions."""
    topic_id = max(lives.values(), key=lambda life: life.began).topic_id
    partitions = [number for number, life in lives.items() if life.topic_id == topic_id]
    return Topic(name, topic_id, max(partitions) + 1)
