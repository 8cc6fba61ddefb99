"""Follows the ledger, and knows the visible objects of output partitions that are to be merged.

Kept are the objects of folders whose hour or day is not complete yet or that are not merged yet,
and what is left in folders that were merged, for objects that come late. Folders that no hour or
day stands for, by the group's present routes, are never complete and left out.

Where it is read from is kept as a hint, as publishers do: without one, folders that are complete
by then stay as they are.
"""

import logging
from collections import defaultdict
from collections.abc import Collection, Iterable, Iterator, Mapping
from dataclasses import dataclass, field, replace
from datetime import UTC, datetime, timedelta

from landfall.api.spec import Compact, ConsumerGroup, TopicSpecs
from landfall.driver.core.merged_first import ExpectedTopic
from landfall.errors import Reason, Stalled
from landfall.lane import Lane
from landfall.lane.replacements import read_replace
from landfall.ledger import Purpose, Replace, State, Visible
from landfall.ledger.names.object_names import parse_key
from landfall.ledger.offsets import TopicPartition
from landfall.ledger.opened import overlap
from landfall.ledger.replace.merged_objects import Mergeable
from landfall.ledger.replace.replacement_lists import ReplacementList
from landfall.ledger.task_results import ObjectKind
from landfall.publish.choice import TableChoice
from landfall.publish.cursor import Position, PublisherCursor
from landfall.publish.finished import Calendars

log = logging.getLogger(__name__)

LATE_PAUSE, LONGEST_LATE = timedelta(minutes=10), timedelta(hours=6)
"""How long the first object that comes late to a complete output partition waits for more. It
doubles with each merge of late ones, up to the second.
"""
LONGEST_DEDUPED = timedelta(days=1)
"""The same, where duplicates are left out: each merge writes the whole folder again. So late rows
wait about as long as late ones have been coming, and a folder is written a few times, and then once
a day, however often rows come late. Longer, the small objects would become many.
"""
AHEAD = timedelta(days=2)
"""A folder whose hour or day ends later than this from now is left out: a wrong clock wrote it, and
each driver that starts would have to read the ledger from its first object.
"""
MAX_OBJECTS = 500_000
"""How many objects are kept at most, a kilobyte or so each; the folders with the oldest go."""
MAX_SETTLED = 10_000
"""How many folders with nothing to do are kept for objects that come late."""
HINT = "compaction-of-complete-output-partitions"
"""The name of the hint, among the hints of publishers; too long to be the name of one."""


@dataclass
class CompactionFolder:
    """A folder with objects that are visible.

    Attributes:
        path: relative to the output root.
        topic: its topic.
        end: when its hour or day is over, ms since 1970-01-01 UTC.
        first_seen: the slot that called the first of its objects visible.
        due: when it may be merged at the earliest, once it is complete.
        objects: by key.
        is_settled: there is nothing to do until another object comes.
        failures: how often in a row its objects could not be merged.
        late_since: when the first object was seen that came late and is not merged; None if none.
        late_merges: how often late objects were merged, the last time at ``merged_at``.
        longest_wait: how long an object that comes late waits for more at most.
    """

    path: str
    topic: str
    end: int
    first_seen: int
    due: datetime | None = None
    objects: dict[str, Mergeable] = field(default_factory=dict)
    is_settled: bool = False
    failures: int = 0
    late_since: datetime | None = None
    late_merges: int = 0
    merged_at: datetime | None = None
    longest_wait: timedelta = LONGEST_LATE

    def wait_for_late(self, now: datetime) -> None:
        """Let an object that comes late wait for more, but not each for the next one."""
        if self.late_since is None:
            # Asked for the first one only: while late objects wait, they have not stopped coming.
            if self.merged_at is not None and now - self.merged_at >= self.longest_wait:
                self.late_merges = 0
            self.late_since = now
        doublings = min(self.late_merges, 10)
        self.due = self.late_since + min(LATE_PAUSE * 2**doublings, self.longest_wait)

    def merge_late(self, now: datetime) -> None:
        """Take note that objects were merged; more may have come since that was planned."""
        if self.late_since is not None:
            self.late_merges = self.late_merges + 1
            self.merged_at = now
            self.late_since = self.due = None
            if any(object_.plan < 0 for object_ in self.objects.values()):
                self.wait_for_late(now)


class Folders:
    """The folders of a lane. One thread uses it."""

    def __init__(self, lane: Lane, group: ConsumerGroup) -> None:
        """Read nothing yet."""
        self._lane = lane
        root = group.spec.output.url
        self._choices = [
            (entry.name, TableChoice.of_entry(entry, root)) for entry in group.spec.publish
        ]
        self._specs = TopicSpecs.of(group.spec)
        self._calendars = Calendars(group.spec)
        self._cursor = PublisherCursor.of(lane.slots, (lane.group, lane.name), HINT, "")
        self._written: int | None = None
        self._after = -1
        self._is_begun = False
        self._is_new = False
        self.state = State()
        """The state up to which the ledger was read."""
        self.expected: Mapping[str, ExpectedTopic] = {}
        """By topic, what is called complete once it is merged."""
        self.folders: dict[str, CompactionFolder] = {}

    def rules(self, topic: str) -> Compact | None:
        """Return how objects of a topic are merged; None if they are not."""
        return self._specs.for_topic(topic).compact

    def follow(self, now: datetime) -> None:
        """Read the ledger to its end.

        Raises:
            Stalled: LEDGER_BROKEN, a slot is missing or violates a rule, or a list is damaged.
            Retry: the store does not answer.
        """
        self._begin()
        for state, visible in self._folded():
            if state.seq > self._after:
                self._take(self.state, state, visible, now)
            # Only now: a slot whose list could not be read is read again, or what has retired by
            # it would retire twice.
            self.state = state
        if self._is_new:
            over = [folder.path for folder in self.folders.values() if self._is_complete(folder)]
            for path in over:
                del self.folders[path]
            self._is_new = False
        self._forget()

    def due(self, now: datetime) -> list[CompactionFolder]:
        """The folders that are to be merged now, the oldest first, but those that failed last."""
        found = [
            folder
            for folder in self.folders.values()
            if not folder.is_settled
            and self._is_over(folder)
            and (folder.due is None or folder.due <= now)
        ]
        return sorted(found, key=lambda each: (each.failures, each.end, each.path))

    @property
    def waiting(self) -> tuple[int, int]:
        """Folders with something to do, now or once they are complete; objects of complete ones.

        Objects that come late count at once, and are merged only when nothing more has come.
        """
        open_ = [folder for folder in self.folders.values() if not folder.is_settled]
        return len(open_), sum(len(folder.objects) for folder in open_ if self._is_over(folder))

    def next_due(self) -> datetime | None:
        """Return when a complete folder is due next, without anything new in the ledger."""
        times = (
            folder.due or datetime.min.replace(tzinfo=UTC)
            for folder in self.folders.values()
            if not folder.is_settled and self._is_over(folder)
        )
        return min(times, default=None)

    def remember(self) -> None:
        """Keep where a later driver begins to read: before all folders that are not settled.

        Raises:
            Retry: the store does not answer.
        """
        unsettled = (folder.first_seen for folder in self.folders.values() if not folder.is_settled)
        through = min(unsettled, default=self.state.seq + 1) - 1
        if through != self._written and through >= 0:
            self._cursor.write(Position(through))
            self._written = through

    def _begin(self) -> None:
        if self._is_begun:
            return
        self._after = self._written = self._cursor.read().through
        self._is_new = self._after < 0
        # The last one is mostly of after the hour that is landed now, which is read again.
        self.state = (
            self._lane.snapshot_before(self._after) if self._after >= 0 else None
        ) or State()
        self._is_begun = True

    def _folded(self) -> Iterator[tuple[State, Visible]]:
        """Yield the state after each slot that was not read yet."""
        begun = self.state.seq
        try:
            yield from self._lane.folded(self.state)
        except Stalled as error:
            if begun < 0 or error.reason is not Reason.LEDGER_BROKEN:
                raise
            # What followed may have been rolled up since, as in ``Lane.follow``.
            self._after, self.state = max(self._after, self.state.seq), State()
            yield from self._lane.folded(State())

    def _take(self, before: State, state: State, visible: Visible, now: datetime) -> None:
        """Take note of what a slot is the first to call visible."""
        for landed, slot in zip(visible.objects, visible.due, strict=True):
            if landed.kind is ObjectKind.DATA:
                out = self._left_out_by(landed.key, slot)
                made = Mergeable(slot, landed, before.specs.get(slot, ""), left_out_by=out)
                self._add(made, before, now)
        for slot, _ in visible.replacements:
            self._replace(slot, state, now)
        if before.members is not state.members:
            self._leave_former(before.members.keys() - state.members.keys())

    def _left_out_by(self, key: str, slot: int) -> tuple[str, ...]:
        return tuple(name for name, choice in self._choices if choice.leaves_out(key, slot))

    def _leave_former(self, gone: Collection[TopicPartition]) -> None:
        """Merge nothing of topic partitions that leave.

        Offsets may begin again when they re-enter, and nothing in a merged object would distinguish
        the rows of both.
        """
        for folder in self.folders.values() if gone else ():
            folder.objects = {
                key: object_
                for key, object_ in folder.objects.items()
                if not any(
                    TopicPartition(folder.topic, section.partition) in gone
                    for section in object_.own_sections
                )
            }

    def _add(self, found: Mergeable, before: State, now: datetime) -> None:
        """Take note of an object that the slot after a state is the first to call visible."""
        seq = before.seq + 1
        name, rules = parse_key(found.key), self.rules(parse_key(found.key).topic)
        if rules is None or not (rules.dedupe or found.landed.upload.size < rules.below):
            return
        folder = self.folders.get(found.folder)
        if folder is None:
            periods = tuple(self._calendars.of(name.topic).periods(name.output_partition))
            if not periods or periods[-1].end > (now + AHEAD).timestamp() * 1000:
                return
            longest = LONGEST_DEDUPED if rules.dedupe else LONGEST_LATE
            folder = CompactionFolder(
                found.folder, name.topic, periods[-1].end, seq, longest_wait=longest
            )
            self.folders[folder.path] = folder
        if folder.is_settled:
            folder.is_settled = False
            folder.first_seen = seq
            folder.late_since = None
        folder.objects[found.key] = found
        # The last objects of a period are often called visible by the record that completes it.
        expected = self.expected.get(name.topic)
        is_late = expected and found.slot > expected.through and expected.until >= folder.end
        if is_late or before.horizons.get(name.topic, -1) >= folder.end:
            folder.wait_for_late(now)

    def _replace(self, slot: int, state: State, now: datetime) -> None:
        """Replace objects, as a REPLACE that is applied now records."""
        record, listed = read_replace(self._lane, state, slot)
        retired = {object_.key for object_ in listed.retire}
        if record.purpose is not Purpose.COMPACT:
            self._leave(record, listed, now)
            return
        gone = defaultdict[str, list[Mergeable]](list)
        for path in listed.folders & self.folders.keys():
            objects = self.folders[path].objects
            gone[path] += [objects.pop(key) for key in sorted(retired & objects.keys())]
        for new in listed.objects:
            made = Mergeable(
                slot=slot,
                landed=new.landed,
                spec="",
                sections=new.sections,
                is_mixed=new.mixed,
                is_sorted=new.sorted,
            )
            # A generation may have landed by several specs, whose objects are merged apart.
            source = next(
                (candidate for candidate in gone[made.folder] if _is_made_of(made, candidate)), None
            )
            if source is not None:
                made = replace(made, spec=source.spec, left_out_by=source.left_out_by)
                self.folders[made.folder].objects[made.key] = made
        for path in (path for path, objects in gone.items() if objects):
            self.folders[path].is_settled = False
            self.folders[path].merge_late(now)

    def _leave(self, record: Replace, listed: ReplacementList, now: datetime) -> None:
        """Merge nothing that a REPLACE has brought, which is no merge.

        A user who took a merge back, or gave one up, does not want it again, and other REPLACEs
        bring objects of specs that this ledger does not name. But what a driver gave up is merged,
        later: an upload was lost.
        """
        for path in listed.folders:
            self.folders.pop(path, None)
        if record.instead == -1 or record.decision is not None:
            return
        for path in self.folders.keys() & {*record.folders}:
            folder = self.folders[path]
            folder.is_settled, folder.due = False, now + LATE_PAUSE
            folder.failures += 1

    @property
    def left(self) -> frozenset[str]:
        """The topics with folders to merge but for what came late, now or when they can be."""
        return frozenset(
            folder.topic
            for folder in self.folders.values()
            if not folder.is_settled and folder.late_since is None and self._is_over(folder)
        )

    def _is_over(self, folder: CompactionFolder) -> bool:
        expected = self.expected.get(folder.topic)
        return self._is_complete(folder) or (expected is not None and expected.until >= folder.end)

    def _is_complete(self, folder: CompactionFolder) -> bool:
        return self.state.horizons.get(folder.topic, -1) >= folder.end

    def _forget(self) -> None:
        """Drop the folders that were settled first, and the oldest of all if there are too many."""
        settled = [folder for folder in self.folders.values() if folder.is_settled]
        self._drop(settled[: max(0, len(settled) - MAX_SETTLED)])
        extra = sum(len(folder.objects) for folder in self.folders.values()) - MAX_OBJECTS
        if extra > 0:
            oldest = sorted(self.folders.values(), key=lambda each: each.first_seen)
            log.warning(
                "small objects dropped from the merge: too many wait", extra={"objects": extra}
            )
            while extra > 0:
                extra -= len(oldest[0].objects)
                self._drop([oldest.pop(0)])

    def _drop(self, folders: Iterable[CompactionFolder]) -> None:
        for folder in folders:
            del self.folders[folder.path]


def _is_made_of(new: Mergeable, old: Mergeable) -> bool:
    """Return whether an object has the rows of one that has retired in its folder."""
    is_alike = new.name.generation == old.name.generation
    return is_alike and overlap(new.sections, old.own_sections)
