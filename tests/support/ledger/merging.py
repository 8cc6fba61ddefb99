"""Objects of any format in a store in memory, to be merged, and what is in them."""

import zlib
from collections.abc import Iterable, Sequence
from dataclasses import dataclass, field

import numpy as np

from landfall.api.spec import Keep, Output, RowDedupe
from landfall.formats import Block, Format, Row
from landfall.ledger.names.object_names import ObjectName
from landfall.ledger.offsets import Slice, TopicPartition
from landfall.ledger.replace.merged_objects import Mergeable
from landfall.ledger.task_results import LandedObject, ObjectKind
from landfall.objects import Upload
from landfall.pipeline.records import Records
from landfall.registry import output_format
from landfall.store.memory import MemoryStore
from landfall.task.merging import Merge, Merged, MergeResult, MergeShare, merge_share
from tests.support.driver.slice_landing import group, records_of

TOPIC, FOLDER = "clicks", "dt=2026-11-21/hr=04"
READ_THROUGH = 977


@dataclass
class MergedFolder:
    """A folder whose objects are merged.

    Attributes:
        output: how its objects are made.
        dedupe: how duplicates are left out.
        sort: the field by which rows are sorted; empty if they are not.
        ranges: of these the only object is cut; none if it is not.
        spec: what the group has besides.
        store: where it is.
        sources: its objects, in order.
    """

    output: Output
    dedupe: RowDedupe | None = None
    store: MemoryStore = field(default_factory=MemoryStore)
    sources: list[Mergeable] = field(default_factory=list)
    sort: str = ""
    ranges: tuple[Slice, ...] = ()
    spec: dict[str, object] = field(default_factory=dict)

    @classmethod
    def of(cls, format_: str, **output: object) -> "MergedFolder":
        """A folder without objects; ``output`` has the fields of ``spec.output``."""
        made = {"url": "s3://bucket/root", "format": format_, **output}
        return cls(Output.model_validate(made))

    def deduped(self, key: str, keep: Keep = Keep.FIRST) -> "MergedFolder":
        """The same folder, in which duplicates are left out."""
        self.dedupe = RowDedupe(key=key, keep=keep)
        return self

    def sorted(self, field: str) -> "MergedFolder":
        """The same folder, in which rows of merged objects are sorted."""
        self.sort = field
        return self

    @property
    def format(self) -> Format:
        return output_format(self.output)

    def land(
        self, partition: int, start: int, *values: bytes | None, gap: int = 1
    ) -> "MergedFolder":
        """Land rows as one object, whose offsets are ``gap`` apart."""
        offsets = range(start, start + gap * len(values), gap)
        records = records_of(TopicPartition(TOPIC, partition), offsets, values)
        return self.add(partition, start, offsets, [Block(records)])

    def add(
        self, partition: int, start: int, offsets: Sequence[int], blocks: Iterable[Block]
    ) -> "MergedFolder":
        """Land blocks as one object."""
        name = ObjectName(TOPIC, FOLDER, 4, partition, start, self.format.extension)
        encoder = self.format.encoder()
        body = b"".join([*map(encoder.encode, blocks), encoder.finish()])
        landed = LandedObject(
            self.upload(name.key, body),
            ObjectKind.DATA,
            len(offsets),
            offsets[0],
            offsets[-1],
            zlib.crc32(body),
        )
        self.sources.append(Mergeable(len(self.sources), landed))
        return self

    def upload(self, key: str, body: bytes) -> Upload:
        """Make an object visible, also in the place of another."""
        upload_id = self.store.begin(key, "landed")
        upload = Upload(key, upload_id, (self.store.put_part(key, upload_id, 1, body),), "landed")
        self.store.complete(upload)
        return upload

    def results(self) -> list[MergeResult]:
        """What becomes of a merge of all."""
        return list(merge_share(self.store, self.share()))

    def share(self) -> MergeShare:
        """What a task is given to merge all."""
        sort = tuple(self.sort.split(".")) if self.sort else ()
        merge = Merge(self.output, tuple(self.sources), self.dedupe, sort, self.ranges)
        return MergeShare(group(**self.spec), "token", READ_THROUGH, (merge,))

    def merged(self) -> Merged:
        """What all are merged into, which is completed."""
        (result,) = self.results()
        assert isinstance(result, Merged), result
        self.store.complete(result.new.landed.upload)
        return result

    def halves(self, *ranges: Slice) -> tuple[Merged, ...]:
        """What the only object is cut into, which is completed."""
        self.ranges = ranges
        made = tuple(each for each in self.results() if isinstance(each, Merged))
        for each in made:
            self.store.complete(each.new.landed.upload)
        return made

    def body(self, landed: LandedObject) -> bytes:
        with self.store.open(landed.upload.key) as stream:
            return stream.read()

    def rows(self, landed: LandedObject) -> list[Row]:
        with self.store.open(landed.upload.key) as stream:
            return list(self.format.rows(stream))

    def all_rows(self) -> list[Row]:
        """The rows of all objects, one after the other."""
        return [row for source in self.sources for row in self.rows(source.landed)]


def blocks_of(records: Records, rows: int) -> list[Block]:
    """Records in blocks of at most so many rows."""
    return [
        Block(records.take(np.arange(at, min(at + rows, len(records)))))
        for at in range(0, len(records), rows)
    ]
