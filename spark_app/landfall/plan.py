"""Deciding which offset ranges to land next. Pure: no I/O, no clock, no randomness, no logging.

A topic partition is *due* when what is unlanded of it is estimated to make ``maxBytes`` of objects,
or when its oldest record has waited for ``maxAge``, less a share that is always the same for this
topic partition, so that work does not come in bursts. Due backlogs are cut into slices of about
``maxBytes``, and the slices are packed into bins, one task each.

When a round cannot hold all that is due, one half of it goes to whoever is most pressed, so that
nobody starves, and the other half to the smallest backlogs, so that a huge one makes nobody else
late. The same question always has the same answer.

What a round may read is known (``Backlog``); what it will cost is guessed from rounds before
(``Sizes``). Only the shape of the work hangs on the guess, never what is landed.
"""

import heapq
import re
from collections.abc import Collection, Iterable, Iterator, Mapping
from dataclasses import dataclass, field
from datetime import timedelta
from zlib import crc32

from landfall.api.spec import UploadPolicy
from landfall.ledger.offsets import OffsetRange, Slice, TopicPartition
from landfall.ledger.task_results import LandedSlice

STAGGER = 0.2
"""The largest share of ``maxAge`` by which a topic partition is due early."""
FIRST_OFFSETS = 100_000
"""Offsets taken of a topic partition that nothing is known about: a wrong guess costs no more than
this.
"""
ESTIMATE_TRUST_FACTOR = 10
"""How many times what was landed before an estimate is trusted for."""
BINS_PER_SLOT = 3
"""More tasks than slots, so that a slot that got an easy one takes another."""
LEAST_TASK_SECONDS = 2.0
"""Work below this is not worth a task of its own."""
MOST_SLICE_SECONDS = 300.0
"""What is lost with a task is read again: no slice is worth more work than this."""
SLICE_SECONDS = 0.02
"""What a slice costs however short it is: the first fetch, the upload's begin and end."""
ESTIMATE_WINDOW_OFFSETS = 20_000
"""Past offsets outweigh new ones up to this many: a full slice is believed at once, a handful of
records hardly.
"""
PRIOR_OFFSETS = 1_000
"""What the fall-back is worth, in offsets, when a topic partition is learned for the first time."""


@dataclass(frozen=True, slots=True)
class Backlog:
    """What is unlanded of one topic partition, from its checkpoint on, and how long its oldest record has waited."""

    topic_partition: TopicPartition
    offsets: OffsetRange
    age: timedelta


@dataclass(frozen=True, slots=True)
class Limits:
    """One topic's upload policy: due at this many landed bytes or this age, whichever comes first."""

    max_bytes: int
    max_age: timedelta


@dataclass(frozen=True, slots=True)
class Policy:
    """The group's upload policy, ready to be asked topic by topic."""

    default: Limits
    overrides: tuple[tuple[re.Pattern[str], Limits], ...] = ()

    @classmethod
    def of(cls, spec: UploadPolicy) -> "Policy":
        """The policy of the resource; what an override leaves out is inherited."""
        overrides = tuple(
            (re.compile(o.topics), Limits(o.max_bytes or spec.max_bytes, o.max_age or spec.max_age))
            for o in spec.overrides
        )
        return cls(Limits(spec.max_bytes, spec.max_age), overrides)

    def for_topic(self, topic: str) -> Limits:
        """The limits of the first override whose pattern matches the whole name, else the group's."""
        return next(
            (limits for pattern, limits in self.overrides if pattern.fullmatch(topic)), self.default
        )


@dataclass(frozen=True, slots=True)
class Estimate:
    """What one offset costs on average. Invisible and filtered offsets count too, which makes them cheap.

    Attributes:
        landed_bytes: bytes in objects.
        input_bytes: payload bytes.
        seconds: CPU seconds of a task.
        offsets: how many offsets this was learned from.
    """

    landed_bytes: float
    input_bytes: float
    seconds: float
    offsets: int = 0

    def learn(self, seen: "Estimate") -> "Estimate":
        """The weighted mean of both, the past weighing at most ``ESTIMATE_WINDOW_OFFSETS``."""
        past = min(max(self.offsets, PRIOR_OFFSETS), ESTIMATE_WINDOW_OFFSETS)
        gain = seen.offsets / (past + seen.offsets)
        return Estimate(
            self.landed_bytes + gain * (seen.landed_bytes - self.landed_bytes),
            self.input_bytes + gain * (seen.input_bytes - self.input_bytes),
            self.seconds + gain * (seen.seconds - self.seconds),
            self.offsets + seen.offsets,
        )


def _usual_seconds(records: int, input_bytes: int) -> float:
    """CPU seconds where nobody measured: 1 µs a record and 10 ns a byte, as date-partitioned JSON with gzip takes."""
    return 1e-6 * records + 1e-8 * input_bytes


UNKNOWN = Estimate(landed_bytes=1_000, input_bytes=1_000, seconds=_usual_seconds(1, 1_000))
"""Rather too much than too little: what is unknown is due early and cut small."""


@dataclass(frozen=True, slots=True)
class Sizes:
    """What was learned from landed slices, by topic partition and by topic."""

    by_topic_partition: Mapping[TopicPartition, Estimate] = field(default_factory=dict)
    by_topic: Mapping[str, Estimate] = field(default_factory=dict)

    def of(self, tp: TopicPartition) -> Estimate:
        """What is known of this topic partition, else of its topic (learned from no offset of its own), else ``UNKNOWN``."""
        known = self.by_topic_partition.get(tp)
        if known:
            return known
        topic = self.by_topic.get(tp.topic, UNKNOWN)
        return Estimate(topic.landed_bytes, topic.input_bytes, topic.seconds)

    def learn(self, slices: Iterable[LandedSlice]) -> "Sizes":
        """Return what is known after these slices as well."""
        by_topic_partition, by_topic = dict(self.by_topic_partition), dict(self.by_topic)
        for landed in slices:
            tp = landed.piece.topic_partition
            if len(landed.piece.offsets):
                seen = _seen(landed)
                by_topic_partition[tp] = Sizes(by_topic_partition, by_topic).of(tp).learn(seen)
                by_topic[tp.topic] = by_topic.get(tp.topic, UNKNOWN).learn(seen)
        return Sizes(by_topic_partition, by_topic)


def _seen(landed: LandedSlice) -> Estimate:
    offsets = len(landed.piece.offsets)
    usual = _usual_seconds(offsets - landed.invisible, landed.input_bytes)
    seconds = max(landed.cpu_seconds - SLICE_SECONDS, 0.0) if landed.cpu_seconds else usual
    landed_bytes = sum(o.upload.size for o in landed.objects)
    return Estimate(
        landed_bytes / offsets, landed.input_bytes / offsets, seconds / offsets, offsets
    )


@dataclass(frozen=True, slots=True)
class Capacity:
    """What a round may take.

    Attributes:
        slots: tasks that can run at once.
        most_bytes: landed bytes a round may hold; a single slice may be more.
        busy: never planned: in a round already, stopped, or waiting before another try.
        alone: planned in a round of their own, because they failed before and should hold nobody
            up.
    """

    slots: int
    most_bytes: int
    busy: Collection[TopicPartition] = frozenset()
    isolated: Collection[TopicPartition] = frozenset()


@dataclass(frozen=True, slots=True)
class Round:
    """What to land as one batch: a task for each bin, heaviest first. Slices of a topic partition join without a gap."""

    bins: tuple[tuple[Slice, ...], ...]

    @property
    def slices(self) -> tuple[Slice, ...]:
        """All slices, by topic partition and offset."""
        return tuple(sorted(piece for b in self.bins for piece in b))

    @property
    def topic_partitions(self) -> frozenset[TopicPartition]:
        """Everything this round makes busy."""
        return frozenset(piece.topic_partition for b in self.bins for piece in b)


def phase(tp: TopicPartition) -> float:
    """A number in [0, 1) that is always the same for this topic partition and differs between them."""
    return crc32(str(tp).encode()) / 2**32


def is_due(backlog: Backlog, policy: Policy, sizes: Sizes) -> bool:
    """Whether there is something to land, and it is big enough or old enough."""
    tp, limits = backlog.topic_partition, policy.for_topic(backlog.topic_partition.topic)
    big = len(backlog.offsets) * sizes.of(tp).landed_bytes >= limits.max_bytes
    old = backlog.age >= limits.max_age * (1 - STAGGER * phase(tp))
    return len(backlog.offsets) > 0 and (big or old)


def overdue(backlog: Backlog, policy: Policy) -> timedelta:
    """For how long this should have been landed already; zero when it is in time or there is nothing to land."""
    late = backlog.age - policy.for_topic(backlog.topic_partition.topic).max_age
    return max(late, timedelta(0)) if len(backlog.offsets) else timedelta(0)


def plan(
    backlogs: Iterable[Backlog],
    policy: Policy,
    sizes: Sizes,
    capacity: Capacity,
    *,
    flush: bool = False,
) -> Round | None:
    """The next round, or None when nothing is due that is not busy. With ``flush`` all that is unlanded is due.

    The most pressed due topic partition is always in the round.
    """
    due = [
        b
        for b in backlogs
        if b.topic_partition not in capacity.busy
        and (is_due(b, policy, sizes) or (flush and len(b.offsets) > 0))
    ]
    pressed_first = sorted(due, key=lambda b: (-_overdue_by(b, policy), b.topic_partition))
    if not pressed_first:
        return None
    company = _eligible(pressed_first, capacity.isolated)
    pieces = [list(_cut(b, policy.for_topic(b.topic_partition.topic), sizes)) for b in company]
    return Round(_pack(_chosen(pieces, capacity), capacity.slots))


def _overdue_by(backlog: Backlog, policy: Policy) -> timedelta:
    return backlog.age - policy.for_topic(backlog.topic_partition.topic).max_age


def _eligible(pressed_first: list[Backlog], isolated: Collection[TopicPartition]) -> list[Backlog]:
    if pressed_first[0].topic_partition in isolated:
        return pressed_first[:1]
    return [b for b in pressed_first if b.topic_partition not in isolated]


@dataclass(frozen=True, slots=True)
class _Piece:
    piece: Slice
    landed_bytes: float
    seconds: float


def _cut(backlog: Backlog, limits: Limits, sizes: Sizes) -> Iterator[_Piece]:
    """Slices of nearly equal length, about ``max_bytes`` landed each, from the checkpoint as far as the estimate is trusted."""
    tp, estimate = backlog.topic_partition, sizes.of(backlog.topic_partition)
    trusted = max(FIRST_OFFSETS, ESTIMATE_TRUST_FACTOR * estimate.offsets)
    start, end = backlog.offsets.start, min(backlog.offsets.end, backlog.offsets.start + trusted)
    pieces = max(
        round((end - start) * estimate.landed_bytes / limits.max_bytes),
        round((end - start) * estimate.seconds / MOST_SLICE_SECONDS),
        1,
    )
    for offsets in OffsetRange(start, end).cut(-(-(end - start) // pieces)):
        length = len(offsets)
        yield _Piece(
            Slice(tp, offsets),
            length * estimate.landed_bytes,
            SLICE_SECONDS + length * estimate.seconds,
        )


def _chosen(pieces: list[list[_Piece]], capacity: Capacity) -> list[_Piece]:
    """What fits into a round, given each backlog's pieces, the most pressed backlog first.

    Backlogs take turns, a piece each, so that what is chosen of one starts at its checkpoint and
    has no gap.
    """
    turns = [
        (turn, place, p) for place, backlog in enumerate(pieces) for turn, p in enumerate(backlog)
    ]
    pressed_first = sorted(turns, key=lambda t: (t[0], t[1]))
    smallest_first = sorted(turns, key=lambda t: (t[0], len(pieces[t[1]]), t[2].seconds, t[1]))
    most_seconds = capacity.slots * MOST_SLICE_SECONDS

    def share(p: _Piece) -> float:
        return max(p.landed_bytes / capacity.most_bytes, p.seconds / most_seconds)

    chosen: dict[Slice, _Piece] = {}
    taken = 0.0
    for order, full in ((pressed_first, 0.5), (smallest_first, 1.0)):
        for _, _, p in order:
            if p.piece in chosen:
                continue
            if chosen and taken + share(p) > full:
                break
            chosen[p.piece] = p
            taken += share(p)
    return list(chosen.values())


def _pack(pieces: list[_Piece], slots: int) -> tuple[tuple[Slice, ...], ...]:
    """Heaviest first into the least loaded bin; as many bins as give each enough to do, and the slots a choice."""
    worth = int(sum(p.seconds for p in pieces) / LEAST_TASK_SECONDS)
    count = max(1, min(worth, slots * BINS_PER_SLOT, len(pieces)))
    bins: list[list[Slice]] = [[] for _ in range(count)]
    loads = [(0.0, i) for i in range(count)]
    for p in sorted(pieces, key=lambda p: (-p.seconds, p.piece)):
        load, i = loads[0]
        bins[i].append(p.piece)
        heapq.heapreplace(loads, (load + p.seconds, i))
    heaviest_first = (i for _, i in sorted(loads, key=lambda load: (-load[0], load[1])))
    return tuple(tuple(sorted(bins[i])) for i in heaviest_first)
