"""``python -m tests.bench.ledger``: what a ledger of a million slots costs to open and to check.

Writes the ledger to a folder, in segments as a driver does, with a tail of live slots, and counts
the calls of the store: each is a request on S3. Nothing but the ledger is written. Each COMMIT has
three ranges and names one object of the first; the store lists those objects without having them.
"""

import argparse
import json
import os
import shutil
import subprocess
import sys
import tempfile
import time
from collections import Counter
from collections.abc import Callable, Iterator
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any

from landfall import ledger
from landfall.checks.locate import find_offset
from landfall.cli.group_store import GroupStore
from landfall.cli.objects.fsck import examine
from landfall.lane import Lane, records_in_segments, store_segment
from landfall.ledger import Header, Record, State
from landfall.ledger.names import object_names
from landfall.ledger.offsets import OffsetRange, Slice, TopicPartition
from landfall.ledger.snapshot import encode_state
from landfall.ledger.task_results import LandedObject, LandedSlice, ObjectKind
from landfall.objects import ObjectStat, Part, Upload, multipart_etag
from landfall.store.memory import MemoryStore
from tests.support.driver.fakes import group

GROUP, LANE, WRITER, TIME = group().metadata.name, "0", "w", "2026-11-21T12:00:00+00:00"
TPS = [TopicPartition(f"topic-{n // 10}", n % 10) for n in range(200)]
SLICES, OFFSETS, EVERY, TAIL = 3, 1000, 5000, 400
PARTS = (Part("0" * 32, 200_000),)
ETAG = multipart_etag(PARTS)


def object_key(tp: TopicPartition, start: int) -> str:
    """The key of a topic partition's object."""
    return object_names.ObjectName(tp.topic, "all", 1, tp.partition, start, ".txt").key


def object_keys(commits: int) -> Iterator[str]:
    """The keys of all objects that so many COMMITs name, in order.

    Range ``p`` of all is of topic partition ``p % len(TPS)``; each third one has an object.
    """
    for n in sorted(range(len(TPS)), key=lambda n: object_key(TPS[n], 0)):
        ranges = range(n, commits * SLICES, len(TPS))
        yield from (object_key(TPS[n], p // len(TPS) * OFFSETS) for p in ranges if not p % SLICES)


class FolderStore(MemoryStore):
    """A folder of files without a sync, and a count of the calls."""

    def __init__(self, root: Path) -> None:
        super().__init__()
        self.root, self.calls = root, Counter[str]()
        self.commits = 0
        """How many COMMITs' objects a listing of everything shows."""

    def create(self, key: str, body: bytes) -> Any:
        path = self.root / key
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_bytes(body)

    overwrite = create

    def read(self, key: str) -> bytes | None:
        self.calls["read"] += 1
        path = self.root / key
        return path.read_bytes() if path.is_file() else None

    def read_range(self, key: str, start: int, length: int) -> bytes | None:
        self.calls["read range"] += 1
        with (self.root / key).open("rb") as stream:
            size = stream.seek(0, 2)
            stream.seek(max(size + start, 0) if start < 0 else start)
            return stream.read(length)

    def list_after(self, prefix: str, after: str = "") -> Any:
        if not prefix:
            self.calls["list"] += self.commits // 1000 + 1
            return (ObjectStat(key, PARTS[0].size, ETAG) for key in object_keys(self.commits))
        found = sorted(
            path.relative_to(self.root).as_posix()
            for path in (self.root / prefix).rglob("*")
            if path.is_file()
        )
        keys = [key for key in found if key > after]
        self.calls["list"] += len(keys) // 1000 + 1
        return iter([ObjectStat(key, 0, "") for key in keys])


@dataclass
class Writer:
    """Makes records, folds them, and keeps the bytes that no segment holds yet."""

    store: FolderStore

    def __post_init__(self) -> None:
        self.state = State()
        self.pending: list[bytes] = []
        self.turn = 0

    def append(self, make: Callable[[Header], Record]) -> None:
        header = ledger.next_header(self.state, WRITER, TIME, self.state.seq)
        body = ledger.encode(make(header))
        epoch, index = self.state.epoch, self.state.next_index
        self.state = ledger.fold(self.state, body)
        is_seal = self.state.epoch != epoch
        if index == 0 or is_seal:
            self.store.create(object_names.slot_key(GROUP, LANE, epoch, index), body)
        self.pending.append(body)

    def open(self) -> None:
        def make(header: Header) -> Record:
            header = Header(
                header.seq,
                header.prev,
                header.epoch + 1,
                WRITER,
                TIME,
                header.applied_through,
            )
            return ledger.Open(
                header=header, group=GROUP, lane=LANE, generation=1, software="bench"
            )

        self.append(make)

    def commit(self) -> None:
        slices, token = list[LandedSlice](), f"token-{self.turn:032d}"
        for n in range(SLICES):
            tp = TPS[(self.turn + n) % len(TPS)]
            start = self.state.checkpoint[tp]
            piece, last = Slice(tp, OffsetRange(start, start + OFFSETS)), start + OFFSETS - 1
            if n:
                slices.append(LandedSlice(piece, (), 0, 0, 0, OFFSETS, 0))
                continue
            upload = Upload(object_key(tp, start), f"upload-{self.turn:025d}", PARTS, token)
            landed = LandedObject(upload, ObjectKind.DATA, OFFSETS, start, last, self.turn)
            slices.append(LandedSlice(piece, (landed,), OFFSETS, 0, 0, 0, PARTS[0].size))
        self.turn += SLICES
        self.append(lambda h: ledger.Commit(header=h, token=token, slices=tuple(slices)))

    def snapshot(self) -> None:
        body, seq = encode_state(self.state), self.state.seq + 1
        place = (self.state.epoch, self.state.next_index)
        key = object_names.snapshot_key(GROUP, LANE, seq)
        self.store.create(key, body)
        self.append(lambda h: ledger.Snapshot(header=h, key=key, sha256=ledger.digest(body)))
        if place[1]:
            self.store.create(object_names.slot_key(GROUP, LANE, *place), self.pending[-1])
        hint = {"seq": seq, "epoch": place[0], "index": place[1]}
        head = object_names.head_key(GROUP, LANE)
        self.store.create(head, json.dumps(hint).encode())

    def roll(self) -> None:
        sealed = self.state.epochs[-1] - self.state.epochs[0]
        bodies, self.pending = self.pending[:sealed], self.pending[sealed:]
        rolled = store_segment(self.store, GROUP, LANE, self.state, bodies)
        self.append(lambda h: ledger.Segment(header=h, rolled=rolled))


def write(root: Path, slots: int) -> None:
    """Write a ledger of so many slots, the last ``TAIL`` of them live."""
    writer = Writer(FolderStore(root))
    writer.open()
    entries = tuple(ledger.Entry(tp, "id", 0) for tp in TPS)
    writer.append(lambda h: ledger.Add(header=h, entries=entries))
    while writer.state.seq < slots - TAIL:
        if writer.state.next_index >= EVERY:
            writer.open()
            writer.snapshot()
            writer.roll()
        writer.commit()
    writer.open()
    writer.snapshot()
    writer.roll()
    state, first = writer.state, writer.state.epochs[-1]
    while writer.state.seq < slots:
        writer.commit()
    state = replace(state, seq=first - 1)
    for index, body in enumerate(writer.pending):
        writer.store.create(object_names.slot_key(GROUP, LANE, state.epoch, index), body)


def measure(root: Path) -> dict[str, Any]:
    """Open the lane and locate offsets; seconds and calls."""
    store = FolderStore(root)
    lane = Lane(store, GROUP, LANE)
    began, cpu_before = time.perf_counter(), time.process_time()
    state = lane.read()
    found: dict[str, Any] = {
        "slots": state.seq + 1,
        "open seconds": time.perf_counter() - began,
        "open CPU seconds": time.process_time() - cpu_before,
    }
    found["open calls"] = dict(store.calls)
    rolled = state.segments[-1].last * SLICES // len(TPS) * OFFSETS
    for name, offset in (
        ("first", 5),
        ("middle", rolled // 2),
        ("last", state.checkpoint[TPS[7]] - 100 * OFFSETS),
    ):
        store.calls.clear()
        began = time.perf_counter()
        records = records_in_segments(lane, TPS[7], offset)
        what = type(find_offset(records or (), TPS[7], offset)).__name__
        seconds = time.perf_counter() - began
        found[f"locate {name}"] = f"{what}, {store.calls.total()} calls, {seconds:.2f} s"
    sizes = [path.stat().st_size for path in root.rglob("*.seg")]
    found["segments"], found["segment bytes"] = len(sizes), sum(sizes)
    found["files"] = sum(path.is_file() for path in root.rglob("*"))
    return found


def peak_mib() -> float:
    """The most memory that this process ever had; ``getrusage`` would count its parent's, too."""
    lines = Path("/proc/self/status").read_text().splitlines()
    return next(int(line.split()[1]) for line in lines if line.startswith("VmHWM:")) / 1024


def check(root: Path) -> dict[str, Any]:
    """The whole of ``fsck``: seconds, CPU seconds, and the peak memory of this process."""
    store = FolderStore(root)
    store.commits = Lane(store, GROUP, LANE).read().totals.commits
    store.calls.clear()
    opened = GroupStore(group(), store)
    before = peak_mib()
    began, cpu_before = time.perf_counter(), time.process_time()
    report = examine(opened, deep=False)
    seconds, cpu = time.perf_counter() - began, time.process_time() - cpu_before
    assert not report.findings, report.findings[:3]
    return {
        "slots": report.chain.slots,
        "objects": report.named,
        "visible": report.visible,
        "fsck seconds": seconds,
        "fsck CPU seconds": cpu,
        "MiB before": before,
        "MiB at the peak": peak_mib(),
        "calls": dict(store.calls),
        "load": os.getloadavg()[0],
    }


def main() -> None:
    """Write the ledger if the folder has none, then measure each in a process of its own."""
    parser = argparse.ArgumentParser(prog="python -m tests.bench.ledger", description=__doc__)
    parser.add_argument("--slots", type=int, default=1_000_000)
    parser.add_argument("--folder", type=Path, help="keep the ledger there, or use the one there")
    parser.add_argument("--only", choices=("write", "measure", "check"))
    arguments = parser.parse_args()
    folder = arguments.folder or Path(tempfile.mkdtemp())
    try:
        if arguments.only == "measure":
            print(json.dumps(measure(folder), indent=1))
        elif arguments.only == "check":
            print(json.dumps(check(folder), indent=1))
        else:
            if not (folder / "_landfall").is_dir():
                write(folder, arguments.slots)
            for part in () if arguments.only else ("measure", "check"):
                command = [sys.executable, "-m", "tests.bench.ledger", "--folder", str(folder)]
                subprocess.run([*command, "--only", part], check=True)
    finally:
        if arguments.folder is None:
            shutil.rmtree(folder)


if __name__ == "__main__":
    main()
