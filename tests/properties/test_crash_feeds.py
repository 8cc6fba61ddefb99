"""The real loop and files of other programs, under all that may become of both."""

from collections.abc import Callable, Sequence

import msgspec
import pytest

from landfall.discovery import looker, part_lists
from landfall.discovery.feed_keys import FeedKeys
from landfall.discovery.index import KnownIndex, read_manifest
from landfall.driver.landing import recovery
from landfall.driver.process.loop import Driver
from landfall.errors import LandfallError, Retry
from landfall.ledger import KnownFiles, PartList, feeds
from landfall.ledger.feeds.part_lists import ListedPart, encode_list
from landfall.objects import ListedFile
from landfall.store import Slots
from landfall.store.memory import MemoryFiles
from tests.crashes.feeds import FeedSchedule
from tests.crashes.playing import play_feeds
from tests.crashes.process import no_waiting
from tests.support.driver.feed_mutants import AdoptsUnrecorded, ParksAndForgets
from tests.support.examples import schedules

Patch = pytest.MonkeyPatch
SCHEDULES, CHUNKS = schedules(60), 3
SEARCHED = 250
"""Schedules in one of which a broken rule must show."""


@pytest.mark.law
@pytest.mark.parametrize("chunk", range(CHUNKS))
def test_each_row_of_each_version_is_landed_once_or_is_parked(chunk: int) -> None:
    play_feeds(chunk * SCHEDULES // CHUNKS, (chunk + 1) * SCHEDULES // CHUNKS)


@pytest.mark.rest
@pytest.mark.parametrize("kind", [AdoptsUnrecorded, ParksAndForgets])
def test_each_rule_of_drivers_is_needed(kind: type[Driver]) -> None:
    with pytest.raises(AssertionError, match="make crash-hunt"):
        play_feeds(0, SEARCHED, kind)


def _stores_no_list(patch: Patch) -> None:
    """A DISCOVER names a list that nobody has stored."""

    def unstored(_: Slots, keys: FeedKeys, first: int, parts: Sequence[ListedPart]) -> PartList:
        return encode_list(keys.group, keys.lane, keys.topic, first, parts)[0]

    patch.setattr(part_lists, "write", unstored)


def _reads_any_version(patch: Patch) -> None:
    """A part is read from whatever the file is now."""
    read = MemoryFiles.read

    def read_now(self: MemoryFiles, file: ListedFile, start: int, end: int) -> bytes:
        return read(self, self.find(file.name) or file, start, end)

    patch.setattr(MemoryFiles, "read", read_now)


def _forgets_what_is_landed(patch: Patch) -> None:
    """A part that is tried again is landed from its first row."""
    tried_again = looker.tried_again
    forget = msgspec.structs.replace
    patch.setattr(looker, "tried_again", lambda *of: forget(tried_again(*of), skip=0))


def _forgets_lists(patch: Patch) -> None:
    """Lists go although what is lost of them must be made again."""
    patch.setattr(feeds, "_is_any_invisible", lambda *_: False)


def _tries_for_ever(patch: Patch) -> None:
    """What is lost is tried again and again, although the version of the file is gone."""
    gone = recovery._gone

    def not_yet(lost: recovery.LostSlice, why: str) -> LandfallError:
        return Retry(why) if "part" in why or "from offset" in why else gone(lost, why)

    patch.setattr(recovery, "_gone", not_yet)


def _knows_no_lists(patch: Patch) -> None:
    """A driver that starts knows the stored index, and no list after it."""

    def indexed(slots: Slots, _: FeedKeys, last: KnownFiles | None, __: object) -> KnownIndex:
        return KnownIndex(slots, read_manifest(slots, last))

    patch.setattr(looker, "open_index", indexed)


FIRST_SEEDS: dict[Callable[[Patch], None], int] = {
    _reads_any_version: 20,
    _forgets_lists: 75,
    _tries_for_ever: 159,
}
"""Where the search begins for a rule that few schedules need."""


@pytest.mark.rest
@pytest.mark.parametrize(
    "without",
    [
        _stores_no_list,
        _reads_any_version,
        _forgets_what_is_landed,
        _forgets_lists,
        _tries_for_ever,
        _knows_no_lists,
    ],
)
def test_each_rule_of_feeds_is_needed(without: Callable[[Patch], None], monkeypatch: Patch) -> None:
    without(monkeypatch)
    first = FIRST_SEEDS.get(without, 0)

    with pytest.raises(AssertionError, match="make crash-hunt"):
        play_feeds(first, first + SEARCHED)


def test_a_seed_gives_the_same_schedule_again() -> None:
    steps: list[list[str]] = [[], []]
    for lines in steps:
        with no_waiting():
            FeedSchedule(7, tell=lines.append).run()

    assert steps[0] == steps[1]
    assert len(steps[0]) > 50
