"""Publishes by steps that may each be repeated, such as adding a partition to a table.

A step is taken for each stretch of the ledger, then the cursor advances. A publisher that is killed
in between, or two at once, repeat it, which leaves the destination as it was. Where that is not so,
as with a message, the destination gets it again, with the same id.
"""

from collections.abc import Iterator
from dataclasses import dataclass, replace
from typing import Protocol

from landfall.errors import Stalled
from landfall.publish import Published, Stretch
from landfall.publish.context import Context
from landfall.publish.cursor import Position, PublisherCursor
from landfall.publish.following import Follower


class Step(Protocol):
    """Applies a stretch to a destination.

    ``objects`` includes replacements, and has nothing that is replaced.
    """

    def take(self, stretch: Stretch) -> int:
        """Apply the stretch, and return how many objects it concerned.

        Raises:
            Retry: the destination does not answer, or the outcome is unknown; again is safe.
            Stalled: a user has to change something.
        """
        ...

    def preview(self, stretch: Stretch) -> Iterator[str]:
        """Describe what ``take`` would do, one line for each change."""
        ...


@dataclass(frozen=True)
class StepPublisher:
    """Publishes by steps; see ``Publisher``.

    Attributes:
        context: what the publisher is built from.
        cursor: the hint at the position.
        step: applied to each stretch. It sees published topics only.
        goes_on: whether steps after one that stalled are taken all the same, such as those for
            other tables; the position stays before it, so they are repeated.
    """

    context: Context
    cursor: PublisherCursor
    step: Step
    goes_on: bool = False

    def publish(self, follower: Follower) -> Published:
        """See ``Publisher``."""
        done = Published(self.cursor.read().through)
        stalled: Stalled | None = None
        for stretch in follower.remaining(done.through):
            try:
                objects = self.step.take(self._published(stretch))
            except Stalled as error:
                if not self.goes_on:
                    raise
                stalled = stalled or error
            if stalled is None:
                self.cursor.write(Position(stretch.through))
                done.objects = done.objects + objects
                done.through = stretch.through
                done.slots += stretch.through - stretch.after
        if stalled is not None:
            raise stalled
        return done

    def position(self) -> int:
        """See ``Publisher``."""
        return self.cursor.read().through

    def preview(self, follower: Follower) -> Iterator[str]:
        """See ``Publisher``."""
        for stretch in follower.remaining(self.cursor.read().through):
            yield from self.step.preview(self._published(stretch))

    def reset(self, follower: Follower) -> None:  # noqa: ARG002  # of the protocol
        """See ``Publisher``."""
        self.cursor.write(Position())

    def _published(self, stretch: Stretch) -> Stretch:
        """The stretch with the objects of published topics."""
        objects = (o for o in stretch.objects if self.context.object_name(o.key))
        finished = (
            horizon for horizon in stretch.finished if self.context.is_published(horizon.topic)
        )
        return replace(stretch, objects=tuple(objects), finished=tuple(finished))
