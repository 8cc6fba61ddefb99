"""Partitions of complete hours and days only: option ``partitions: WhenFinished``.

Which objects a stretch adds is then decided by ``Stretch.finished``: those whose period it makes
complete, which are listed in the store, and those that come into complete ones late. Whatever is
added twice is added once, so a listing may see objects that a later slot calls visible.
"""

from collections.abc import Iterable, Iterator
from dataclasses import dataclass

from landfall.ledger.object_names import parse_key
from landfall.ledger.task_results import LandedObject, ObjectKind
from landfall.objects import Part, Upload
from landfall.publish import Finished, Stretch, VisibleObject
from landfall.publish.context import Context
from landfall.publish.finished import Calendars
from landfall.publish.following import Follower

_MAX_LISTED = 100
"""Periods that are listed one by one; for more, the topic is listed as a whole."""
_QUARTER = 90 * 86_400_000


@dataclass
class FinishedOnly:
    """Chooses the objects of complete periods.

    Attributes:
        context: the group and its store.
    """

    context: Context

    def __post_init__(self) -> None:
        self._calendars = Calendars(self.context.group.spec)

    def check(self, topic: str) -> None:
        """Return if each directory of a topic's partitions is complete at some time.

        Raises:
            ValueError: none is; the message begins with the option.
        """
        calendar = self._calendars.of(topic)
        if calendar.is_empty or not all(p.directory for p in calendar.finished(0, _QUARTER)):
            raise ValueError(
                "option partitions: WhenFinished needs a route.pattern that begins with a date, "
                "such as dt={date}/hr={hour}"
            )

    def of(self, stretch: Stretch) -> Iterator[VisibleObject]:
        """The objects whose partitions are to be added with a stretch."""
        yield from self._calendars.late(stretch)
        for finished in stretch.finished:
            yield from self._made_complete(finished)

    def horizons(self, follower: Follower) -> dict[str, int]:
        """Up to when (ms) each topic is complete at the end of the ledger.

        Raises:
            Retry, Stalled: as ``Follower.stretches``.
        """
        found: dict[str, int] = {}
        for stretch in follower.stretches(-1):
            found |= {each.topic: each.until for each in stretch.finished}
        return found

    def complete(
        self, objects: Iterable[VisibleObject], horizons: dict[str, int]
    ) -> Iterator[VisibleObject]:
        """Those objects whose period is over at the horizon of their topic."""
        for each in objects:
            name = parse_key(each.landed.upload.key)
            until = horizons.get(name.topic, -1)
            if self._calendars.of(name.topic).is_over(name.output_partition, until):
                yield each

    def _made_complete(self, finished: Finished) -> Iterator[VisibleObject]:
        calendar = self._calendars.of(finished.topic)
        prefixes = [f"{finished.topic}/"]
        if finished.before >= 0:
            shortest = calendar.units[-1]
            periods = calendar.finished(finished.before, finished.until)
            each = [f"{finished.topic}/{p.directory}/" for p in periods if p.unit is shortest]
            prefixes = each if len(each) <= _MAX_LISTED else prefixes
        for prefix in prefixes:
            for stat in self.context.store.list_after(prefix):
                try:
                    name = parse_key(stat.key)
                except ValueError:
                    continue  # a marker such as _SUCCESS
                if calendar.is_over(name.output_partition, finished.until):
                    yield _seen(stat.key, stat.size, finished)


def _seen(key: str, size: int, finished: Finished) -> VisibleObject:
    """An object that was listed, of which nothing but key and size is looked at."""
    landed = LandedObject(Upload(key, "", (Part("", size),), ""), ObjectKind.DATA, 0, 0, 0, 0)
    return VisibleObject(finished.slot, landed, finished.time)
