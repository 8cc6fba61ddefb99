"""Short slices are fetched many at once, before they are read one after the other.

To assign a topic partition and to wait for its first messages takes ten times as long as reading a
few of them. So a reader that knows which slices it will read next (``FetchedAhead.expect``) assigns
several short ones together and keeps what it gets until each is read.

Only whole slices are kept. A failure of a slice here, such as an error, no answer, or
too many bytes, is no error yet: that slice is then read alone, and fails by itself if it must.
"""

import time
from collections.abc import Iterable, Sequence
from contextlib import suppress
from dataclasses import dataclass, field

from landfall.errors import LandfallError
from landfall.ledger.offsets import Slice, TopicPartition
from landfall.source.clients import Client
from landfall.source.messages import NO_MESSAGES, Messages, Place
from landfall.source.progress import CHUNK_BYTES, ExpiredBeforeSlice, ReadProgress

MAX_SLICES = 32
"""Slices fetched at once: a fetch returns up to 2 MiB of each, 64 MiB in all."""
MAX_OFFSETS = 100
"""The most offsets of a slice that is fetched together with other slices."""
PATIENCE_SECONDS = 5.0
"""Without progress for so long, what is not finished is left to be read alone."""
_MESSAGES_AT_ONCE = 1_000


@dataclass
class FetchedAhead:
    """The short slices that will be read, and what was fetched of them."""

    _expected: list[Slice] = field(default_factory=list)
    _found: dict[Slice, Messages] = field(default_factory=dict)

    def expect(self, slices: Sequence[Slice]) -> None:
        """Forget what was fetched so far; these will be read next, in this order."""
        self._expected = [s for s in slices if 0 < len(s.offsets) <= MAX_OFFSETS]
        self._found = {}

    def company(self, slice_: Slice) -> list[Slice]:
        """The slice with those to fetch at once with it; empty if it is to be read alone.

        They are of different topic partitions, and none of them is given again.
        """
        if slice_ not in self._expected:
            return []
        del self._expected[: self._expected.index(slice_)]
        together: dict[TopicPartition, Slice] = {}
        for expected in self._expected[:MAX_SLICES]:
            if expected.topic_partition in together:
                break
            together[expected.topic_partition] = expected
        del self._expected[: len(together)]
        return list(together.values()) if len(together) > 1 else []

    def keep(self, found: dict[Slice, Messages]) -> None:
        """Keep whole slices until they are taken."""
        self._found.update(found)

    def take(self, slice_: Slice) -> Messages | None:
        """All visible messages of the slice; None if it was not fetched."""
        return self._found.pop(slice_, None)


def fetch_together(client: Client, progresses: Iterable[ReadProgress]) -> dict[Slice, Messages]:
    """All visible messages of those slices that could be read to their end.

    Their topic partitions must have been assigned. Returns early if nothing more arrives, or if
    there is more than a chunk of it.
    """
    waiting: dict[Place, ReadProgress] = {progress.place: progress for progress in progresses}
    parts = {progress.slice_: NO_MESSAGES for progress in waiting.values()}
    whole: dict[Slice, Messages] = {}
    room, deadline = CHUNK_BYTES, time.monotonic() + PATIENCE_SECONDS
    while waiting and room > 0 and time.monotonic() < deadline:
        fetch = client.fetch(_MESSAGES_AT_ONCE)
        room -= sum(int(messages.sizes.sum()) for messages in fetch.messages.values())
        for place in fetch.places():
            # What is not waited for lies beyond the end of a slice, or is left over from a previous
            # assignment.
            if (wanted := waiting.pop(place, None)) is None:
                continue
            deadline = time.monotonic() + PATIENCE_SECONDS
            with suppress(LandfallError, ExpiredBeforeSlice):
                parts[wanted.slice_] += wanted.admit(fetch.at(place))
                if wanted.finished:
                    whole[wanted.slice_] = parts[wanted.slice_]
                else:
                    waiting[place] = wanted
    return whole
