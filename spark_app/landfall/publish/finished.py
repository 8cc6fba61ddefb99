"""Finds complete output partitions, and objects that became visible late.

``Stretch.finished`` has the event time up to which a topic is complete. The routes of the group
decide which directories that makes complete: hours and days with ``dt={date}/hr={hour}``, days with
``dt={date}``, none where the pattern names no date. ``landfall.pipeline.calendar`` has the rules.
"""

from collections.abc import Iterator
from dataclasses import dataclass, field

from landfall.api.spec import GroupSpec, TopicSpecs
from landfall.ledger.names.object_names import parse_key
from landfall.pipeline.calendar import Calendar, Period
from landfall.publish import Finished, Stretch, VisibleObject


@dataclass
class Calendars:
    """The calendar of each topic's route.

    Attributes:
        spec: of the group.
    """

    spec: GroupSpec
    _built: dict[int | None, Calendar] = field(default_factory=dict)

    def __post_init__(self) -> None:
        self._specs = TopicSpecs.of(self.spec)

    def of(self, topic: str) -> Calendar:
        """The calendar of a topic."""
        entry = self._specs.entry_of(topic)
        if entry not in self._built:
            self._built[entry] = Calendar.of(self._specs.for_topic(topic).route)
        return self._built[entry]

    def periods(self, finished: Finished) -> Iterator[Period]:
        """The periods that this completes, days before hours, each in order.

        The first time that a topic is complete up to a time, only the last of each unit.
        """
        return self.of(finished.topic).finished(finished.before, finished.until)

    def timezone(self, topic: str) -> str:
        """The time zone of a topic's route."""
        return self._specs.for_topic(topic).route.timezone

    def late(self, stretch: Stretch) -> Iterator[VisibleObject]:
        """The objects of a stretch that became visible after their output partition was complete.

        An object in the slot from which the horizon counts is not late.
        """
        for object_, horizon in self._with_horizons(stretch):
            name = parse_key(object_.key)
            if self.of(name.topic).is_over(name.output_partition, horizon):
                yield object_

    def reopened(self, stretch: Stretch) -> Iterator[tuple[VisibleObject, Period]]:
        """The objects that are late, each with every period of it that was complete before."""
        for object_, horizon in self._with_horizons(stretch):
            name = parse_key(object_.key)
            for period in self.of(name.topic).periods(name.output_partition):
                if period.end <= horizon:
                    yield object_, period

    def _with_horizons(self, stretch: Stretch) -> Iterator[tuple[VisibleObject, int]]:
        """The objects of topics that are complete up to a time, with that time (ms)."""
        horizons, moves = dict(stretch.horizons), list(stretch.finished)
        for object_ in stretch.objects:
            while moves and moves[0].slot < object_.slot:
                move = moves.pop(0)
                horizons[move.topic] = move.until
            horizon = horizons.get(parse_key(object_.key).topic, -1)
            if horizon >= 0:
                yield object_, horizon
