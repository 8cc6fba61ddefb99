"""A small real ledger with its objects, in memory, for tests that read or damage one."""

import json
import zlib
from collections.abc import Callable, Iterable, Sequence
from dataclasses import dataclass, field
from itertools import accumulate

from msgspec.structs import replace

from landfall import ledger
from landfall.lane import Lane, delete_rolled_slots, sealed_through, store_segment
from landfall.ledger import Header, Record, State
from landfall.ledger.names import object_names
from landfall.ledger.offsets import OffsetRange, Slice, TopicPartition
from landfall.ledger.replace.replacement_lists import NewObject
from landfall.ledger.snapshot import encode_state
from landfall.ledger.task_results import LandedObject, LandedSlice, ObjectKind
from landfall.objects import Upload
from landfall.store import Store
from landfall.store.memory import MemoryStore

GROUP, LANE = "shop", "0"
WRITER = "w1"


@dataclass
class SampleLedger:
    """Appends records with objects of a line per offset, visible unless ``complete=False``."""

    store: Store = field(default_factory=MemoryStore)
    state: State = field(default_factory=State)
    body: Callable[[Sequence[int]], bytes] = lambda offsets: b"".join(
        b'{"o":%d}\n' % o for o in offsets
    )
    writer: str = WRITER
    """Who appends, from the next OPEN on."""
    extension: str = ".json"
    directory: str = "dt=2026-11-21"
    rows: dict[str, tuple[int, ...]] = field(default_factory=dict)
    """By the key of each object that was uploaded, the offsets of its rows."""
    landed: dict[str, LandedObject] = field(default_factory=dict)
    """By key, the objects that were uploaded for COMMITs and REPLAYs."""
    merged: dict[str, NewObject] = field(default_factory=dict)
    """By key, the objects that took the place of others."""

    def append(self, make: Callable[[Header], Record]) -> Record:
        record = make(
            ledger.next_header(
                self.state, self.writer, "2026-11-21T05:00:00+00:00", self.state.applied_through
            )
        )
        self.write(ledger.encode(record))
        self.state = ledger.fold(self.state, ledger.encode(record))
        return record

    def write(self, body: bytes) -> None:
        """Put any bytes into the next slot."""
        self.store.create(self.next_key, body)

    @property
    def next_key(self) -> str:
        return object_names.slot_key(GROUP, LANE, self.state.epoch, self.state.next_index)

    def open(self, generation: int = 1, spec: str = "") -> "SampleLedger":
        header = Header(
            self.state.seq + 1,
            self.state.tip,
            self.state.epoch + 1,
            self.writer,
            "t",
            self.state.applied_through,
        )
        self.append(
            lambda _: ledger.Open(
                header=header,
                group=GROUP,
                lane=LANE,
                generation=generation,
                software="0",
                spec=spec,
            )
        )
        return self

    def add(self, *tps: TopicPartition, start: int = 0) -> "SampleLedger":
        entries = tuple(ledger.Entry(tp, "id", start) for tp in tps)
        self.append(lambda h: ledger.Add(header=h, entries=entries))
        return self

    def drop(self, *tps: TopicPartition) -> "SampleLedger":
        self.append(lambda h: ledger.Drop(header=h, topic_partitions=tps, reason="test"))
        return self

    def land(self, tp: TopicPartition, start: int, end: int, **changes: object) -> LandedSlice:
        """Upload one object with all offsets of the range, and return the landed slice."""
        key = object_names.ObjectName(
            tp.topic,
            self.directory,
            self.state.generation or 1,
            tp.partition,
            start,
            self.extension,
        ).key
        data = self.upload(key, range(start, end))
        landed = LandedSlice(
            Slice(tp, OffsetRange(start, end)), (data,), end - start, 0, 0, 0, 9 * (end - start)
        )
        return replace(landed, **changes)

    def upload(
        self,
        key: str,
        offsets: Sequence[int],
        kind: ObjectKind = ObjectKind.DATA,
        token: str = "",
    ) -> LandedObject:
        token = token or f"token-{self.state.seq + 1}"
        body = self.body(offsets)
        self.rows[key] = (*offsets,)
        upload_id = self.store.begin(key, token)
        part = self.store.put_part(key, upload_id, 1, body)
        upload = Upload(key, upload_id, (part,), token)
        numbers = (len(offsets), offsets[0], offsets[-1], zlib.crc32(body))
        self.landed[key] = LandedObject(upload, kind, *numbers)
        return self.landed[key]

    def commit(self, *slices: LandedSlice, complete: bool = True) -> "SampleLedger":
        commit = self.committing(*slices)
        self.append(commit)
        if complete:
            for s in slices:
                for o in s.objects:
                    self.store.complete(o.upload)
        return self

    def committing(self, *slices: LandedSlice) -> Callable[[Header], Record]:
        token = f"token-{self.state.seq + 1}"
        return lambda h: ledger.Commit(header=h, token=token, slices=slices)

    def applied(self) -> "SampleLedger":
        """Record that everything so far is applied, as the next record of a driver does."""
        applied = self.state.seq
        self.append(lambda h: ledger.Yield(header=replace_header(h, applied), reason="test"))
        return self

    def shown(self) -> "SampleLedger":
        """Record with APPLIED that everything so far is visible."""
        applied = self.state.seq
        self.append(lambda h: ledger.Applied(header=replace_header(h, applied)))
        return self

    def roll(self) -> "SampleLedger":
        """Store all sealed epochs as a segment, record it and delete what it replaces."""
        lane, state = Lane(self.store, GROUP, LANE), self.state
        bodies = lane.slots_to_roll(state, sealed_through(state, 10**6))
        rolled = store_segment(self.store, GROUP, LANE, state, bodies)
        self.append(lambda h: ledger.Segment(header=h, rolled=rolled))
        delete_rolled_slots(self.store, GROUP, LANE, rolled)
        return self

    def snapshot(self) -> "SampleLedger":
        """Store the state and name it in the ledger and its head, as a driver does."""
        state = self.state
        key, body = object_names.snapshot_key(GROUP, LANE, state.seq + 1), encode_state(state)
        self.store.create(key, body)
        self.append(lambda h: ledger.Snapshot(header=h, key=key, sha256=ledger.digest(body)))
        hint = {"seq": state.seq + 1, "epoch": state.epoch, "index": state.next_index}
        self.store.overwrite(object_names.head_key(GROUP, LANE), json.dumps(hint).encode())
        return self

    @property
    def next_header(self) -> Header:
        return ledger.next_header(self.state, WRITER, "t", self.state.applied_through)


def slot_keys(chain: Iterable[bytes]) -> list[str]:
    """The keys of the slots that hold these bytes, which must be sound."""
    states = accumulate(chain, ledger.fold, initial=State())
    return [object_names.slot_key(GROUP, LANE, s.epoch, s.next_index) for s in states][:-1]


def replace_header(header: Header, applied_through: int) -> Header:
    """The header with another ``applied_through``."""
    return Header(
        header.seq, header.prev, header.epoch, header.writer, header.time, applied_through
    )


def bodies(store: Store) -> list[bytes]:
    """The bytes of all slots, in order."""
    return [
        store.read(stat.key) or b""
        for stat in store.list_after(object_names.ledger_prefix(GROUP, LANE))
    ]
