"""Files of other programs in a schedule, and the tasks that read them.

A row says of which file, which version and which line it is, so that what was read under an offset
can be compared with what belongs there. A row that begins with ``DAMAGE`` cannot be read, nor can
anything behind it.
"""

from collections import Counter, defaultdict
from collections.abc import Callable, Iterator, Mapping
from contextlib import contextmanager
from dataclasses import dataclass, field
from functools import cache

import pytest

from landfall.api.contract import LANE
from landfall.api.spec import ConsumerGroup
from landfall.discovery import index, known, looker
from landfall.formats.line_parts import LinesReader
from landfall.formats.parts import FileBytes, FilePart, FileRecords, ReadLimits, UnreadableFileError
from landfall.ledger.feeds import number_of
from landfall.ledger.offsets import OffsetRange, Slice
from landfall.ledger.task_results import LandedObject, ObjectKind, PartRows
from landfall.objects import ListedFile
from landfall.source import EndsEarly
from landfall.source.files_log import topic_id
from landfall.store.memory import MemoryFiles
from landfall.task import Batch
from landfall.task.feed_reader import FeedReader, ReadableFeed
from tests.crashes.world import ODD_RANGES, SHORT_SLICES, ReadingRunner
from tests.support.driver.fakes import group

TOPICS = ("a", "b")
EXTERNAL = "x"
"""The feed whose files takers process."""
DAMAGE = b"!"
PART_BYTES = 40
"""So small that most files have several parts."""
MAX_ATTEMPTS = 3


SMALL = ReadLimits(window_bytes=16, chunk_rows=2)


@dataclass(frozen=True)
class Breakable(LinesReader):
    """Lines up to the first damaged one."""

    limits: ReadLimits = SMALL

    def read(self, file: FileBytes, part: FilePart) -> Iterator[FileRecords]:
        for found in super().read(file, part):
            values = found.values.to_pylist()
            bad = next((n for n, value in enumerate(values) if value.startswith(DAMAGE)), None)
            if bad is None:
                yield found
                continue
            if bad:
                kept = found.values[:bad]
                yield FileRecords(found.positions[:bad], lambda: kept)  # noqa: B023  # read at once
            raise UnreadableFileError(file.name, int(found.positions[bad]), "damaged")


def is_filtered(offset: int) -> bool:
    """Whether a transform leaves the row out."""
    return offset % 7 == 4


@dataclass
class Folder:
    """The files of a feed, and every version that it ever had.

    Attributes:
        gate: called before each answer to a driver or a task.
        files: as they are.
        versions: bodies, by name and ETag.
    """

    gate: Callable[[str], None]
    files: MemoryFiles
    versions: dict[tuple[str, str], bytes] = field(default_factory=dict)

    def write(self, name: str, body: bytes) -> None:
        """Write a file, as another program does."""
        self.files.write(name, body)
        found = self.files.find(name)
        assert found
        self.versions[name, found.etag] = body

    def listing(self) -> list[ListedFile]:
        """The files as they are now, for the test itself."""
        return list(self.files.files())

    def current(self, name: str) -> str | None:
        """The ETag that a file has now."""
        found = self.files.find(name)
        return found.etag if found else None


@dataclass(frozen=True)
class GatedFiles:
    """``SourceFiles`` of a folder that calls its gate before each answer."""

    folder: Folder

    def files(self, prefix: str = "", after: str = "") -> Iterator[ListedFile]:
        self.folder.gate("list files")
        yield from self.folder.files.files(prefix, after)

    def find(self, name: str) -> ListedFile | None:
        self.folder.gate(f"find {name}")
        return self.folder.files.find(name)

    def read(self, file: ListedFile, start: int, end: int) -> bytes:
        self.folder.gate(f"read {file.name}")
        return self.folder.files.read(file, start, end)


class FileRunner(ReadingRunner):
    """A runner whose tasks read files by the lists that the ledger names.

    Attributes:
        folders: by topic.
        texts: what tasks have read under each offset of a topic; more than one text is wrong.
    """

    folders: Mapping[str, Folder]
    texts: defaultdict[tuple[str, int], set[bytes]]

    def _read(self, batch: Batch, piece: Slice) -> tuple[str, Slice, tuple[int, ...]]:
        if batch.dead_letters:
            return super()._read(batch, piece)
        topic = piece.topic_partition.topic
        opened = {t: ReadableFeed(GatedFiles(f), Breakable()) for t, f in self.folders.items()}
        reader = FeedReader(self.store, batch.group.metadata.name, LANE, opened)
        reader.expect(batch.lists)
        found, piece = _rows(reader, piece)
        offsets = sorted(found)
        if batch.limits and len(offsets) > 1:
            if self.dice.random() < SHORT_SLICES:
                piece = _between(piece, piece.offsets.start, self.dice.choice(offsets[1:]))
            if self.dice.random() < ODD_RANGES:
                piece = _between(piece, self.dice.choice(offsets), piece.offsets.end)
        for offset, text in found.items():
            self.texts[topic, offset].add(text)
        feed = next(f for f in batch.group.spec.source.files if f.topic == topic)
        return topic_id(feed), piece, tuple(o for o in offsets if o in piece.offsets)

    @staticmethod
    def _parts(
        read: tuple[int, ...], objects: Mapping[LandedObject, tuple[int, ...]]
    ) -> tuple[PartRows, ...]:
        seen = Counter(map(number_of, read))
        rows = {kind: Counter[int]() for kind in ObjectKind}
        for landed, offsets in objects.items():
            rows[landed.kind].update(map(number_of, offsets))
        data, letters = rows[ObjectKind.DATA], rows[ObjectKind.DEAD_LETTERS]
        return tuple(
            PartRows(n, data[n], seen[n] - data[n] - letters[n], letters[n]) for n in sorted(seen)
        )

    @staticmethod
    def _is_filtered(offset: int) -> bool:
        return is_filtered(offset)

    @staticmethod
    def _latest_ms(_: tuple[int, ...]) -> int:
        return -1


def _between(piece: Slice, start: int, end: int) -> Slice:
    is_some = piece.offsets.start <= start < end
    return Slice(piece.topic_partition, OffsetRange(start, end)) if is_some else piece


def _rows(reader: FeedReader, piece: Slice) -> tuple[dict[int, bytes], Slice]:
    """The rows of a slice, by offset, and the slice as far as it can be read."""
    found = dict[int, bytes]()
    try:
        for records in reader.read(piece):
            values = records.values.to_pylist()
            found.update(zip(records.offsets.tolist(), values, strict=True))
    except EndsEarly as early:
        piece = _between(piece, piece.offsets.start, early.offset)
    return found, piece


@cache
def group_of_files(
    generation: int,
    snapshot_every: int,
    segment_every: int,
    on_change: str,
    *,
    publishes: bool,
    external: bool,
) -> ConsumerGroup:
    """The group of a schedule of files, perhaps with a feed that others process."""
    times = {"settle": "20s", "discoveryInterval": "5s", "relist": "60s", "retryInterval": "30s"}
    rules = {"onChange": on_change, "maxAttempts": MAX_ATTEMPTS, "reader": "Lines"}
    feeds = [{"topic": t, "url": f"file:///{t}", **times, **rules} for t in TOPICS]
    others = {"topic": EXTERNAL, "url": f"file:///{EXTERNAL}", "process": "External"}
    feeds += [{**others, **times, **rules}] * external
    tuning = {"pollInterval": "5ms", "snapshotEvery": snapshot_every, "segmentEvery": segment_every}
    entry = {"name": "lake", "type": "tests.crashes.publishing:Lake", "minInterval": "10s"}
    made = group(
        generation=generation,
        source={"files": feeds},
        tuning=tuning,
        badRecords={"maxRatio": "1"},
        publish=[entry] * publishes,
    )
    # The spec allows no parts that are as small as these.
    files = made.spec.source.files
    small = tuple(feed.model_copy(update={"part_bytes": PART_BYTES}) for feed in files)
    source = made.spec.source.model_copy(update={"files": small})
    return made.model_copy(update={"spec": made.spec.model_copy(update={"source": source})})


@contextmanager
def small_lists() -> Iterator[None]:
    """Inside, lists and indexes of few files are as those of very many."""
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(looker, "MAX_LISTED", 4)
        patch.setattr(known, "PIECE_FILES", 3)
        for module in (looker, index):
            patch.setattr(module, "MAX_MERGED", 2)
        yield
