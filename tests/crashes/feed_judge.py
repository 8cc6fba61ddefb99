"""What must hold after a schedule of files.

Each version of a file that has numbers is in them once and as a whole, each row of it is landed
once, under the number of its part and as the file has it, or is in a part that is parked or was
replaced. Parked are the parts that nobody can read, and no others. Every file that is there has
numbers, unless ``onChange`` says to leave it out.
"""

from collections import Counter
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from functools import partial
from typing import TYPE_CHECKING

from landfall.discovery import part_lists
from landfall.discovery.feed_keys import FeedKeys
from landfall.discovery.file_rows import FeedRows
from landfall.ledger import Commit, Discover, FeedState, Hole, Lost, Record
from landfall.ledger.feeds import SPAN, number_of, part_offsets
from landfall.ledger.feeds.part_lists import ListedPart
from landfall.ledger.offsets import TopicPartition
from landfall.source.files_log import topic_id
from tests.crashes.feed_world import DAMAGE, MAX_ATTEMPTS, TOPICS, Folder, is_filtered
from tests.crashes.judge import (
    Offsets,
    common_findings,
    folded_records,
    landed,
    lost,
    still_busy,
    way_out,
)

if TYPE_CHECKING:
    from tests.crashes.feeds import FeedSchedule
    from tests.crashes.process import Process

Rows = Sequence[bytes]


@dataclass
class Numbers:
    """What the ledger says of the parts of a feed.

    Attributes:
        parts: by number, as the lists have them.
        holes: the first row that was not landed, by the number of a part that was parked.
        again: the number that a parked part got, by the one that it had.
        taken: parked parts that were replaced.
        landed_to: up to which offset COMMITs and HOLEs go.
    """

    parts: dict[int, ListedPart] = field(default_factory=dict)
    holes: dict[int, int] = field(default_factory=dict)
    again: dict[int, int] = field(default_factory=dict)
    taken: set[int] = field(default_factory=set)
    landed_to: int = 0

    def versions(self) -> dict[tuple[str, str], list[tuple[int, int]]]:
        """The bytes that new parts have, by the name and the ETag of their file."""
        found = dict[tuple[str, str], list[tuple[int, int]]]()
        for part in self.parts.values():
            if part.is_new:
                found.setdefault((part.name, part.etag), []).append((part.start, part.end))
        return found

    def parked(self) -> set[int]:
        """Parts that are parked now."""
        return self.holes.keys() - self.again.keys() - self.taken

    def last_version(self, name: str) -> str:
        """The ETag of the last version of a file that has numbers; empty for none."""
        new = (part for part in self.parts.values() if part.is_new and part.name == name)
        return next((part.etag for part in reversed([*new])), "")


def findings(schedule: "FeedSchedule") -> Iterator[str]:
    """What is missing, repeated, changed or against the ledger, and drivers that ended wrongly."""
    yield from common_findings(schedule)
    folded = list(folded_records(schedule))
    records = [record for _, record in folded]
    found, given_up = landed(schedule, records), lost(schedule, folded)
    if given_up and not any(isinstance(record, Lost) for record in records):
        yield f"lost {sorted(given_up)}"
    feeds = schedule.lane.read().feeds
    for one in schedule.group(1).spec.source.files:
        if one.is_external:
            continue
        tp, folder = TopicPartition(one.topic, 0), schedule.folders[one.topic]
        numbers = numbers_of(schedule, tp, records)
        known = {o: n for (t, _, o), n in (found + given_up).items() if t == topic_id(one)}
        wrong = (
            *_wrong_rows(numbers, folder, known),
            *_wrong_texts(schedule, one.topic, numbers, folder),
            *_wrong_parked(numbers, folder, feeds[tp]),
            *_wrong_versions(numbers, folder),
            *_wrong_counts(schedule, tp, records, (numbers, known)),
            *without_numbers(schedule, numbers, folder),
        )
        yield from (f"{tp}: {each}" for each in wrong)
    yield from _miscounted(schedule, records, found)


def stuck(schedule: "FeedSchedule", process: "Process") -> Iterator[str]:
    """What a driver has not found or landed, though it could, and without naming a reason."""
    progress = process.progress
    if progress is None:
        yield f"{process.name} has not said anything"
        return
    if not progress.is_at_rest:
        yield still_busy(process)
        return
    with schedule.judging():
        records = [record for _, record in folded_records(schedule)]
    for topic in TOPICS:
        tp = TopicPartition(topic, 0)
        if stalled := progress.stalled.get(tp):
            if not way_out(schedule, tp, stalled, progress.state):
                yield f"{tp} stands, and nobody can help: {stalled.reason}: {stalled}"
            continue
        with schedule.judging():
            numbers = numbers_of(schedule, tp, records)
        yield from _not_done(numbers, schedule.folders[topic], progress.state.feeds.get(tp))
        yield from without_numbers(schedule, numbers, schedule.folders[topic])


def _not_done(numbers: Numbers, folder: Folder, feed: FeedState | None) -> Iterator[str]:
    """Parts that a driver that lives on should have landed by now."""
    if feed is None or numbers.landed_to != feed.end * SPAN:
        yield f"landed up to {numbers.landed_to} of {feed and feed.end} parts, and nobody says why"
        return
    for number, parked in feed.parked.items():
        part = numbers.parts.get(number)
        if part and parked.attempt < MAX_ATTEMPTS and _is_readable(part, folder):
            yield f"part {number} is not tried again"


def numbers_of(schedule: "FeedSchedule", tp: TopicPartition, records: Sequence[Record]) -> Numbers:
    """What these records say of the parts of a feed."""
    found = Numbers()
    keys = FeedKeys(schedule.lane.group, schedule.lane.name, tp.topic)
    for record in records:
        match record:
            case Discover(topic_partition=of) if of == tp:
                if listed := record.listed:
                    parts = part_lists.read(schedule.store, keys, listed)
                    found.parts |= dict(enumerate(parts, listed.first))
                    found.again |= {p.former: n for n, p in found.parts.items() if not p.is_new}
                found.taken |= {*record.replaced, *record.ignored}
            case Hole(piece=piece) if piece.topic_partition == tp:
                number = number_of(piece.offsets.start)
                found.holes[number] = piece.offsets.start - part_offsets(number).start
                found.landed_to = piece.offsets.end
            case Commit(slices=slices):
                ends = [s.piece.offsets.end for s in slices if s.piece.topic_partition == tp]
                found.landed_to = max([found.landed_to, *ends])
            case _:
                pass
    return found


def rows_of(folder: Folder, part: ListedPart) -> Rows:
    """The lines of a version that begin in a part."""
    found, at = list[bytes](), 0
    for line in folder.versions[part.name, part.etag].splitlines(keepends=True):
        if part.start <= at < part.end:
            found.append(line.rstrip(b"\n"))
        at += len(line)
    return found


def _is_readable(part: ListedPart, folder: Folder) -> bool:
    is_damaged = any(row.startswith(DAMAGE) for row in rows_of(folder, part))
    return folder.current(part.name) == part.etag and not is_damaged


def _wrong_rows(numbers: Numbers, folder: Folder, known: Mapping[int, int]) -> Iterator[str]:
    """Rows that are not where they belong, once, and parts that do not go on where they ended."""
    expected = Counter[int]()
    for number, part in numbers.parts.items():
        rows, first = rows_of(folder, part), part_offsets(number).start
        end = max(part.skip, numbers.holes.get(number, len(rows)))
        offsets = range(first + part.skip, first + end)
        expected.update(offset for offset in offsets if not is_filtered(offset))
        if any(row.startswith(DAMAGE) for row in rows[part.skip : end]):
            yield f"part {number} is landed past the damage"
        following = numbers.parts.get(numbers.again.get(number, -1))
        if following and following.skip != end:
            yield f"part {number} goes on at row {following.skip}, not at {end}"
    if numbers.landed_to != len(numbers.parts) * SPAN:
        yield f"landed up to {numbers.landed_to} of {len(numbers.parts)} parts"
    if expected != known:
        missing, extra = expected - Counter(known), Counter(known) - expected
        yield f"missing {sorted(missing)}, too many {sorted(extra)}"


def _wrong_texts(
    schedule: "FeedSchedule", topic: str, numbers: Numbers, folder: Folder
) -> Iterator[str]:
    """Offsets under which a task has read something else than the file has there."""
    for number, part in numbers.parts.items():
        for row, text in enumerate(rows_of(folder, part)):
            offset = part_offsets(number).start + row
            if (read := schedule.texts.get((topic, offset), {text})) != {text}:
                yield f"{sorted(read)} was read at {offset}, which is {text!r}"


def _wrong_parked(numbers: Numbers, folder: Folder, feed: FeedState) -> Iterator[str]:
    parked = numbers.parked()
    if parked != feed.parked.keys():
        yield f"parked are {sorted(feed.parked)}, but {sorted(parked)} are not landed"
    for number in sorted(parked):
        if _is_readable(numbers.parts[number], folder):
            yield f"part {number} is parked, and could be read"


def _wrong_versions(numbers: Numbers, folder: Folder) -> Iterator[str]:
    """Versions that are in lists twice, or not as a whole although nothing replaced them."""
    for (name, etag), spans in numbers.versions().items():
        ends = [0, *(end for _, end in spans)]
        if [start for start, _ in spans] != ends[:-1]:
            yield f"{name}: bytes {spans} of one version have numbers"
        is_last = folder.current(name) == etag
        if is_last and ends[-1] != len(folder.versions[name, etag]):
            yield f"{name}: only {ends[-1]} bytes have numbers"


def _wrong_counts(
    schedule: "FeedSchedule",
    tp: TopicPartition,
    records: Sequence[Record],
    found: tuple[Numbers, Mapping[int, int]],
) -> Iterator[str]:
    """Versions for which COMMITs and REPLAYs count other rows than are in objects."""
    numbers, known = found
    keys = FeedKeys(schedule.lane.group, schedule.lane.name, tp.topic)
    counted = FeedRows(tp, partial(part_lists.read, schedule.store, keys))
    for record in records:
        counted.take(record)
    in_objects = Counter[tuple[str, str]]()
    for offset, count in known.items():
        part = numbers.parts[number_of(offset)]
        in_objects[part.name, part.etag] += count
    for version in numbers.versions():
        own = [n for n, p in numbers.parts.items() if p.is_new and (p.name, p.etag) == version]
        rows = [counted.of(number, number) for number in own]
        total = sum(each.landed + each.dead_letters for each in rows if each)
        if None in rows or total != in_objects[version]:
            yield f"{version}: {in_objects[version]} rows are in objects, counted are {rows}"


def without_numbers(schedule: "FeedSchedule", numbers: Numbers, folder: Folder) -> Iterator[str]:
    """Files that have no numbers, and should."""
    versions = numbers.versions()
    for file in folder.listing():
        if (file.name, file.etag) in versions:
            continue
        before = numbers.last_version(file.name)
        if not before or schedule.on_change == "LandAgain" or _is_unlanded(numbers, file.name):
            yield f"{file.name} has no number"


def _is_unlanded(numbers: Numbers, name: str) -> bool:
    """Whether the last version of a file has numbers as a whole, and none of its rows is landed."""
    etag, parked = numbers.last_version(name), numbers.parked()
    own = {n: p for n, p in numbers.parts.items() if (p.name, p.etag) == (name, etag)}
    last = {n: part for n, part in own.items() if n not in numbers.again}
    is_parked = all(n in parked and not (numbers.holes[n] or p.skip) for n, p in last.items())
    return is_parked and sum(map(len, last.values())) == next(iter(last.values())).size


def _miscounted(
    schedule: "FeedSchedule", records: Sequence[Record], found: Offsets
) -> Iterator[str]:
    """Counters of the ledger that are not what its objects have."""
    counted = schedule.lane.read().totals
    in_objects = counted.landed + counted.dead_lettered - counted.replayed - counted.lost
    if in_objects != found.total():
        yield f"{found.total()} landed; the ledger counts {counted}"
    slices = (s for r in records if isinstance(r, Commit) for s in r.slices)
    for s in slices:
        if len(s.piece.offsets) != s.landed + s.filtered + s.dead_lettered + s.invisible:
            yield f"{s.piece}: counters do not add up"
