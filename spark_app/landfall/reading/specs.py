"""By which spec each object of a group was made: the format, its options and the route.

A driver stores the part of its spec that decides objects' contents next to the ledger, and names it
in its OPEN (``landfall.driver.core.stored_specs``). So a reader needs no group file, and knows how
objects of earlier generations are to be read. Every writer to the bucket can write such a
spec, so of a format that is not built in it names no more than that: see ``allowed``.
"""

from collections.abc import Collection

from landfall.api.spec import GroupSpec, Output, TopicSpecs
from landfall.api.spec.stores import PLACE
from landfall.errors import Reason, Stalled
from landfall.lane.stored_specs import read_spec
from landfall.ledger.names import object_names
from landfall.ledger.opened import OpenedSpecs
from landfall.reading.files import PartitionTimes
from landfall.registry import Allowed, plug_ins
from landfall.store import Slots


class ObjectSpecs:
    """The specs by which objects were made, by the digests of stored ones, which are read once."""

    def __init__(
        self,
        slots: Slots,
        lane: tuple[str, str],
        output: Output,
        present: GroupSpec | None,
        plugins: Collection[str] = (),
    ) -> None:
        """Read nothing yet.

        Args:
            slots: hold the stored specs.
            lane: the group's name and the lane's.
            output: where the objects are.
            present: the spec of the group's file, for objects whose spec is not stored.
            plugins: names that may be imported, besides those that are built in or in ``present``.
        """
        self._plugins = frozenset(plugins) | (plug_ins(present) if present else frozenset())
        self._slots = slots
        self._lane = lane
        self._output = output
        self._present = present
        self.opens = OpenedSpecs()
        """What is known of the ledger; a follower of it fills it."""
        self._read: dict[str, TopicSpecs] = {}
        self._times: dict[tuple[str, str], PartitionTimes] = {}

    def of(self, digest: str, topic: str) -> GroupSpec:
        """A stored spec, as it is for a topic.

        Raises:
            Stalled: SPEC_INVALID, no spec is stored, and there is no group file.
            Retry: the store does not answer.
        """
        if digest not in self._read:
            self._read[digest] = self._stored(digest)
        return self._read[digest].for_topic(topic)

    def allowed(self, digest: str) -> Allowed:
        """Return the modules that may be imported to read objects landed by a stored spec."""
        file = object_names.spec_key(*self._lane, digest) if digest else "the group's file"
        return Allowed(
            self._plugins,
            f"{self._output.url.rstrip('/')}/{file}",
            "and a spec in a bucket names no code; if you trust it, name it in the group's file,"
            " or to the reader: plugins=[…] of landfall.open, the option plugins of spark.read",
        )

    def times(self, digest: str, topic: str) -> PartitionTimes:
        """Reads the times of output partitions of a topic that were landed by a stored spec.

        Raises:
            Stalled, Retry: as ``of``.
        """
        made = self._times.get((digest, topic))
        if made is None:
            made = PartitionTimes(self.of(digest, topic).route)
            self._times[digest, topic] = made
        return made

    def _stored(self, name: str) -> TopicSpecs:
        place = self._output.model_dump(mode="json", by_alias=True, include=set(PLACE))
        if found := read_spec(self._slots, self._lane, name, place):
            return found
        if self._present is None:
            raise Stalled(
                Reason.SPEC_INVALID,
                f"{self._output.url} does not record how its objects are to be read: open the "
                "group's file instead",
            )
        return TopicSpecs.of(self._present)
