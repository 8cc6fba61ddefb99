"""Reads back what a range has landed, in tasks, before the range is called landed."""

import logging
from collections.abc import Callable, Mapping
from concurrent.futures import Future
from functools import partial

from landfall.api.contract import LANE
from landfall.api.spec import ConsumerGroup
from landfall.driver.core.deps import DriverDeps
from landfall.driver.core.stored_specs import with_stored_formats
from landfall.errors import Retry, Stalled
from landfall.lane import Lane
from landfall.ledger.names import object_names
from landfall.ledger.task_results import LandedObject
from landfall.publish.following import Follower
from landfall.task.counting import Landed, in_shares

log = logging.getLogger(__name__)

SHARES_PER_SLOT = 3
"""Tasks per Spark task slot at most, so that a slow one does not hold the others up."""


class ReadingBack:
    """Counts the rows of a range's objects in the store. Used by the driver's thread alone."""

    def __init__(self, group: ConsumerGroup, deps: DriverDeps, wake: Callable[[], object]) -> None:
        """``wake`` is called, from any thread, when a check has ended."""
        self._group = group
        self._deps = deps
        self._wake = wake
        self._pool = deps.background.pool(1, "read-back")

    def begin(self, after: int) -> Future[Mapping[str, Stalled]]:
        """Read back what became visible after a slot: what is wrong with objects, by topic.

        The future may raise Retry.
        """
        found = self._pool.submit(self._problems, after)
        found.add_done_callback(lambda _: self._wake())
        return found

    def stop(self) -> None:
        """Wait for nothing."""
        self._pool.shutdown(wait=False, cancel_futures=True)

    def _problems(self, after: int) -> Mapping[str, Stalled]:
        problems = dict[str, Stalled]()
        store, name = self._deps.store, self._group.metadata.name
        lane = Lane(store, name, LANE, partial(self._deps.background.pool, name="read-slots"))
        follower, count = Follower(lane), 0
        before = lane.read()
        for stretch in follower.remaining(after):
            by_spec = dict[str, list[LandedObject]]()
            for each in stretch.objects:
                generation = object_names.parse_key(each.landed.upload.key).generation
                spec = follower.opens.digest(generation, each.decided)
                by_spec.setdefault(spec, []).append(each.landed)
            for spec, objects in by_spec.items():
                topics = {object_names.parse_key(o.upload.key).topic for o in objects}
                try:
                    group = with_stored_formats(
                        slots=store, group=self._group, lane=LANE, name=spec, topics=topics
                    )
                except Stalled as unreadable:
                    problems |= dict.fromkeys(topics - problems.keys(), unreadable)
                    continue
                landed = Landed(group, tuple(objects))
                shares = tuple(in_shares(landed, SHARES_PER_SLOT * self._deps.runner.slots))
                for found in self._deps.runner.read_back(shares):
                    log.error("object does not hold its rows", extra={"why": str(found.problem)})
                    problems.setdefault(found.topic, found.problem)
            count += len(stretch.objects)
        if problems and (before.replacing or lane.read().replaced != before.replaced):
            raise Retry("objects were replaced while they were read back")
        log.info("range read back", extra={"objects": count, "topics": len(problems)})
        return problems
