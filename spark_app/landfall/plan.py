"""Decides which offset ranges to land next. Pure: no I/O, no clock, no randomness, no logging.

A topic partition is *due* when its backlog is estimated to make ``maxBytes`` of objects, or when
its oldest record has waited for ``maxAge``. The age is reduced by a fraction that is constant for
the topic partition and differs between them, so that work does not come in bursts. Due backlogs are
cut into slices of about ``maxBytes``, and the slices are packed into bins, one task each.

When a batch cannot hold everything that is due, one half of it goes to the most overdue topic
partitions, so that none starves, and the other half to the smallest backlogs, so that a huge
backlog does not delay the other ones. The same input always gives the same plan.

Which offsets may be read is known (``Backlog``); what they will cost is estimated from earlier
batches (``landfall.estimates``), or for files from their sizes.
"""

import heapq
import re
from collections.abc import Collection, Iterable, Iterator
from dataclasses import dataclass
from datetime import timedelta
from itertools import pairwise
from zlib import crc32

from msgspec import Struct
from msgspec.structs import replace

from landfall.api.spec import UploadPolicy
from landfall.estimates import SLICE_SECONDS, UNKNOWN, SizeEstimates
from landfall.ledger.offsets import OffsetRange, Slice, TopicPartition

STAGGER = 0.2
"""The largest fraction of ``maxAge`` by which a topic partition is due early."""
FIRST_OFFSETS = 100_000
"""Offsets planned of a topic partition without an estimate, so that a wrong guess stays cheap."""
ESTIMATE_TRUST_FACTOR = 10
"""An estimate is trusted for at most this many times the offsets it was learned from."""
SMALL_BATCH_TOPIC_PARTITIONS = 4
"""Topic partitions that share a batch of limited offsets, if their backlogs are longer."""
BINS_PER_SLOT = 3
"""Tasks per Spark task slot at most: a slot whose task was quick takes another one."""
MIN_TASK_SECONDS = 2.0
"""Less work than this does not justify another task."""
MAX_FINER = 4
"""Slices are cut at most so many times finer than ``maxBytes``, so that no slot is idle."""
ENOUGH = 1.01
"""Slices of so many batches to choose from fill one, in any order."""
MAX_SLICE_SECONDS = 300.0
"""Upper bound of the work in a slice, since a task that is lost has to do all of it again."""
FILE_BYTE_SECONDS = 1e-7
"""CPU seconds for a byte of a file, which may be compressed to a tenth."""
PART_SECONDS = 0.05
"""Fixed cost of a part of a file: its first request."""


class PartSize(Struct, frozen=True, gc=False):
    """A part of a file: the offset at which its span ends, and the bytes it has in the file."""

    end: int
    size: int


class Backlog(Struct, frozen=True, gc=False):
    """The unlanded offsets of a topic partition, from its checkpoint on.

    ``age`` is how long the oldest record has waited. Of a feed, ``parts`` are all parts that the
    offsets are of, and slices end where parts end.
    """

    topic_partition: TopicPartition
    offsets: OffsetRange
    age: timedelta
    parts: tuple[PartSize, ...] = ()

    def up_to(self, end: int) -> "Backlog":
        """Return the part below an offset; the age stays."""
        offsets = OffsetRange(self.offsets.start, max(self.offsets.start, end))
        within = tuple(part for part in self.parts if part.end <= end)
        inside = next((part for part in self.parts if part.end > end), None)
        if inside and end > (within[-1].end if within else self.offsets.start):
            within = (*within, replace(inside, end=end))
        return replace(self, offsets=offsets, parts=within)


@dataclass(frozen=True, slots=True)
class UploadLimits:
    """A topic's upload policy: due at this many object bytes or this age, if earlier."""

    max_bytes: int
    max_age: timedelta


@dataclass(frozen=True, slots=True)
class Policy:
    """The group's upload policy with its overrides for some topics."""

    default: UploadLimits
    overrides: tuple[tuple[re.Pattern[str], UploadLimits], ...] = ()

    @classmethod
    def of(cls, spec: UploadPolicy) -> "Policy":
        """The policy in the resource. A limit that an override does not set is the group's."""
        overrides = tuple(
            (
                re.compile(o.topics),
                UploadLimits(o.max_bytes or spec.max_bytes, o.max_age or spec.max_age),
            )
            for o in spec.overrides
        )
        return cls(UploadLimits(spec.max_bytes, spec.max_age), overrides)

    def for_topic(self, topic: str) -> UploadLimits:
        """Limits of the first override whose pattern matches the whole name, else the group's."""
        return next(
            (limits for pattern, limits in self.overrides if pattern.fullmatch(topic)), self.default
        )


@dataclass(frozen=True, slots=True)
class Capacity:
    """Limits of a batch.

    Attributes:
        slots: number of tasks that can run at once.
        max_bytes: estimated object bytes a batch may hold; a single slice may exceed it.
        max_offsets: offsets a batch may hold; None for any number.
        busy: topic partitions not to plan: in another batch, stopped, or waiting for a retry.
        min_tasks: among how many tasks to divide the slices, however little work there is.
    """

    slots: int
    max_bytes: int
    busy: Collection[TopicPartition] = frozenset()
    min_tasks: int = 1
    max_offsets: int | None = None


@dataclass(frozen=True, slots=True)
class BatchPlan:
    """The slices to land as one batch: one task for each bin, heaviest bin first.

    The slices of a topic partition adjoin without a gap, and start at its checkpoint. Of files,
    ``file_bytes`` is the most that any slice has.
    """

    bins: tuple[tuple[Slice, ...], ...]
    file_bytes: int = 0

    @property
    def slices(self) -> tuple[Slice, ...]:
        """All slices, sorted by topic partition and offset."""
        return tuple(sorted(slice_ for b in self.bins for slice_ in b))

    @property
    def topic_partitions(self) -> frozenset[TopicPartition]:
        """The topic partitions in this batch; no other batch may plan any of them."""
        return frozenset(slice_.topic_partition for b in self.bins for slice_ in b)


def stagger_fraction(tp: TopicPartition) -> float:
    """A number in [0, 1) that is constant for a topic partition and spread evenly over them."""
    # Not hash(): Python salts it, so that it would change with every start of the driver.
    return crc32(str(tp).encode()) / 2**32


def is_due(backlog: Backlog, policy: Policy, sizes: SizeEstimates) -> bool:
    """Return whether a backlog is large or old enough to be landed. An empty one never is."""
    tp, limits = backlog.topic_partition, policy.for_topic(backlog.topic_partition.topic)
    is_large = _landed_bytes(backlog, sizes) >= limits.max_bytes
    is_old = backlog.age >= limits.max_age * (1 - STAGGER * stagger_fraction(tp))
    return len(backlog.offsets) > 0 and (is_large or is_old)


def _landed_bytes(backlog: Backlog, sizes: SizeEstimates) -> float:
    """The bytes of objects that a backlog will make; files make as many as they have."""
    if backlog.parts:
        return sum(part.size for part in backlog.parts)
    return len(backlog.offsets) * sizes.of(backlog.topic_partition).landed_bytes


def overdue(backlog: Backlog, policy: Policy) -> timedelta:
    """How long past ``maxAge`` the oldest record is; zero if in time or if there is none."""
    return max(_overdue_by(backlog, policy), timedelta(0)) if len(backlog.offsets) else timedelta(0)


def plan(
    backlogs: Iterable[Backlog],
    policy: Policy,
    sizes: SizeEstimates,
    capacity: Capacity,
    *,
    flush: bool = False,
) -> BatchPlan | None:
    """The next batch, or None if nothing is due that is not busy.

    With ``flush`` every backlog that is not empty is due. The most overdue topic partition is
    always in the batch.
    """
    due = [
        b
        for b in backlogs
        if b.topic_partition not in capacity.busy
        and (is_due(b, policy, sizes) or (flush and len(b.offsets) > 0))
    ]
    # By topic partition among equals, so that the order of the input does not matter.
    overdue_first = sorted(due, key=lambda b: (-_overdue_by(b, policy), b.topic_partition))
    if not overdue_first:
        return None
    most = capacity.max_offsets
    if most is not None:
        most = max(1, most // min(SMALL_BATCH_TOPIC_PARTITIONS, len(overdue_first)))

    def cut(finer: float) -> list[_CutBacklog]:
        cuts = ((b, policy.for_topic(b.topic_partition.topic)) for b in overdue_first)
        return [_cut(b, limits, sizes, _Cut(most, finer, at_all=flush)) for b, limits in cuts]

    chosen = _choose(cut(1), capacity)
    wanted = _wanted(chosen, len(due), capacity)
    if wanted > len(chosen):
        chosen = _choose(cut(wanted / len(chosen)), capacity, wanted)
    return BatchPlan(_pack(chosen, capacity), max(weighed.file_bytes for weighed in chosen))


def _overdue_by(backlog: Backlog, policy: Policy) -> timedelta:
    """Age past ``maxAge``; negative as long as the backlog is in time."""
    return backlog.age - policy.for_topic(backlog.topic_partition.topic).max_age


class _WeighedSlice(Struct, frozen=True, gc=False):
    """A slice with its estimated object bytes and CPU seconds, and how many records it may have."""

    planned: Slice
    landed_bytes: float
    seconds: float
    records: float
    file_bytes: int = 0


@dataclass(frozen=True, slots=True)
class _CutBacklog:
    """The slices of a backlog, made on demand, and their count."""

    count: int
    slices: Iterator[_WeighedSlice]


@dataclass(frozen=True, slots=True)
class _Cut:
    """How backlogs are cut.

    Attributes:
        max_offsets: offsets of a backlog at most; None for any number.
        finer: so many times as many slices, of backlogs that make more than one.
        at_all: also of those that make one.
    """

    max_offsets: int | None
    finer: float
    at_all: bool


def _wanted(chosen: list[_WeighedSlice], due: int, capacity: Capacity) -> int:
    """How many slices leave no slot idle at the end; at most as many as there are.

    A hot topic partition has few slices, and is in one batch at a time. Of other topic partitions
    that are due, the next batch uses the slots.
    """
    if len({weighed.planned.topic_partition for weighed in chosen}) < due:
        return len(chosen)
    turns = -(-len(chosen) // capacity.slots)
    worth = int(sum(weighed.seconds for weighed in chosen) / MIN_TASK_SECONDS)
    return min(turns * capacity.slots, worth, MAX_FINER * len(chosen))


def _cut(backlog: Backlog, limits: UploadLimits, sizes: SizeEstimates, cut: _Cut) -> _CutBacklog:
    """Slices of nearly equal length and about ``max_bytes`` each, or finer.

    They start at the checkpoint and reach as far as the estimate is trusted, ``max_offsets`` at
    most.
    """
    max_offsets = cut.max_offsets
    if backlog.parts:
        whole = list(_cut_at_parts(backlog, limits, max_offsets))
        return _CutBacklog(len(whole), iter(whole))
    tp, estimate = backlog.topic_partition, sizes.of(backlog.topic_partition)
    trusted = max(FIRST_OFFSETS, ESTIMATE_TRUST_FACTOR * estimate.offsets)
    if max_offsets is not None:
        trusted = min(trusted, max_offsets)
    start, end = backlog.offsets.start, min(backlog.offsets.end, backlog.offsets.start + trusted)
    count = max(
        round((end - start) * estimate.landed_bytes / limits.max_bytes),
        round((end - start) * estimate.seconds / MAX_SLICE_SECONDS),
        1,
    )
    if count > 1 or cut.at_all:
        count = round(count * cut.finer)
    count = min(count, end - start)
    bounds = (start + (end - start) * n // count for n in range(count + 1))
    return _CutBacklog(
        count,
        (
            _WeighedSlice(
                Slice(tp, OffsetRange(first, after)),
                (after - first) * estimate.landed_bytes,
                SLICE_SECONDS + (after - first) * estimate.seconds,
                after - first,
            )
            for first, after in pairwise(bounds)
        ),
    )


def _cut_at_parts(
    backlog: Backlog, limits: UploadLimits, max_offsets: int | None
) -> Iterator[_WeighedSlice]:
    """Slices of whole parts, of about ``max_bytes`` each, up to the size of ``max_offsets``."""
    at, left = backlog.offsets.start, max_offsets
    size, seconds = 0, SLICE_SECONDS
    for part in backlog.parts:
        size, seconds = size + part.size, seconds + PART_SECONDS + part.size * FILE_BYTE_SECONDS
        is_last = part is backlog.parts[-1]
        is_full = size >= limits.max_bytes or seconds >= MAX_SLICE_SECONDS
        records = size / UNKNOWN.input_bytes
        is_enough = left is not None and records >= left
        if is_last or is_full or is_enough:
            planned = Slice(backlog.topic_partition, OffsetRange(at, part.end))
            yield _WeighedSlice(
                planned=planned,
                landed_bytes=size,
                seconds=seconds,
                records=records,
                file_bytes=size,
            )
            at = part.end
            size = 0
            seconds = SLICE_SECONDS
            left = None if left is None else left - int(records)
        if is_enough:
            return


def _choose(
    backlogs: list[_CutBacklog], capacity: Capacity, most: int | None = None
) -> list[_WeighedSlice]:
    """The slices that fit into a batch, given the slices of each backlog, the most overdue first.

    At most so many, if a number is given. Backlogs take turns, one slice each. The chosen part of a
    backlog therefore starts at its checkpoint and has no gap.
    """
    max_seconds = capacity.slots * MAX_SLICE_SECONDS

    def share(weighed: _WeighedSlice) -> float:
        return max(
            weighed.landed_bytes / capacity.max_bytes,
            weighed.seconds / max_seconds,
            weighed.records / capacity.max_offsets if capacity.max_offsets else 0.0,
        )

    # Turns after those that fill a batch are never looked at, and a hot backlog has thousands.
    ranked, offered = list[tuple[int, int, _WeighedSlice]](), 0.0
    for turn in range(max(backlog.count for backlog in backlogs)):
        of_turn = ((rank, next(backlog.slices, None)) for rank, backlog in enumerate(backlogs))
        found = [(turn, rank, weighed) for rank, weighed in of_turn if weighed is not None]
        ranked += found
        offered += sum(share(weighed) for _, _, weighed in found)
        if offered > ENOUGH:
            break
    # The turn comes first in both orders: a later slice is never chosen before an earlier one.
    overdue_first = ranked
    smallest_first = sorted(ranked, key=lambda r: (r[0], backlogs[r[1]].count, r[2].seconds, r[1]))
    chosen: dict[Slice, _WeighedSlice] = {}
    taken = 0.0
    for order, full in ((overdue_first, 0.5), (smallest_first, 1.0)):
        for _, _, weighed in order:
            if weighed.planned in chosen:
                continue
            # The first slice is taken regardless of its size: otherwise a slice above the limit
            # would never land.
            if chosen and (taken + share(weighed) > full or len(chosen) == most):
                break
            chosen[weighed.planned] = weighed
            taken += share(weighed)
    return list(chosen.values())


def _pack(slices: list[_WeighedSlice], capacity: Capacity) -> tuple[tuple[Slice, ...], ...]:
    """The slices in bins, heaviest slice first into the least loaded bin.

    There are as many bins as get ``MIN_TASK_SECONDS`` of work each, up to ``BINS_PER_SLOT`` a slot.
    """
    worth = int(sum(weighed.seconds for weighed in slices) / MIN_TASK_SECONDS)
    most = capacity.slots * BINS_PER_SLOT
    count = min(max(capacity.min_tasks, min(worth, most)), len(slices))
    bins: list[list[Slice]] = [[] for _ in range(count)]
    loads = [(0.0, i) for i in range(count)]
    for weighed in sorted(slices, key=lambda w: (-w.seconds, w.planned)):
        load, i = loads[0]
        bins[i].append(weighed.planned)
        heapq.heapreplace(loads, (load + weighed.seconds, i))
    heaviest_first = (i for _, i in sorted(loads, key=lambda load: (-load[0], load[1])))
    return tuple(tuple(sorted(bins[i], key=_in_task)) for i in heaviest_first)


def _in_task(slice_: Slice) -> tuple[float, Slice]:
    """The order of slices in a task: mixed, since a topic's partitions often fail together.

    The first slice that meets an outage fails those after it (``landfall.task.outage``).
    """
    return stagger_fraction(slice_.topic_partition), slice_
