"""The ledger of ``tests.model.leasing``: a fold whose rules can be left out, and the product's own.

With all rules, both must say the same of every record, which ``is_refused`` checks.
"""

from dataclasses import dataclass
from functools import cache
from typing import NamedTuple

from landfall import ledger
from landfall.errors import Stalled
from landfall.ledger import Header, PartList, Record, State
from landfall.ledger.offsets import TopicPartition

TP = TopicPartition("files", 0)
FILES = 2


@dataclass(frozen=True, slots=True)
class Rules:
    """What drivers and ledger do; a variant differs in one rule."""

    answers_after_appending: bool = True
    ends_leases_by_records: bool = True
    refuses_late_outcomes: bool = True
    refuses_as_owner: bool = True
    leases_in_order: bool = True
    parks_expired: bool = True
    counts_expired: bool = True
    knows_open_requests: bool = True
    remembers_requests: bool = True


class Slot(NamedTuple):
    """A record.

    Attributes:
        kind: its type: OPEN, LEASE, DONE or EXPIRED.
        writer: the driver that wrote it.
        file: the one that it is about.
        lease: the slot of the lease that it ends.
        request: what asked for it: a taker, and how often that has asked.
    """

    kind: str
    writer: int
    file: int = -1
    lease: int = -1
    request: tuple[int, int] = (-1, -1)


Slots = tuple[Slot, ...]


class Known(NamedTuple):
    """What slots say.

    Attributes:
        leased_to: the file that is leased next.
        parked: files that are free again, with their attempts.
        held: by slot, the file of an open lease, and its attempts before.
        done: files that are done.
        requests: those that were carried out.
    """

    leased_to: int = 0
    parked: tuple[tuple[int, int], ...] = ()
    held: tuple[tuple[int, int, int], ...] = ()
    done: frozenset[int] = frozenset()
    requests: frozenset[tuple[int, int]] = frozenset()


class Refused(Exception):  # noqa: N818  # an outcome
    """The ledger refuses a record."""


@cache
def known(slots: Slots, rules: Rules) -> Known:
    """What these slots say, by the rules.

    Raises:
        Refused: one of them breaks a rule.
    """
    if not slots:
        return Known()
    before, slot = known(slots[:-1], rules), slots[-1]
    match slot.kind:
        case "LEASE":
            after = _lease(before, slot, len(slots) - 1, rules)
        case "DONE" | "EXPIRED":
            after = _end(before, slot, rules)
        case _:
            return before
    requests = {slot.request} if slot.request[0] >= 0 and rules.remembers_requests else set()
    return after._replace(requests=before.requests.union(requests))


def _lease(k: Known, slot: Slot, number: int, rules: Rules) -> Known:
    parked = dict(k.parked)
    attempts = parked.pop(slot.file, 0)
    is_parked = slot.file in dict(k.parked)
    is_next = slot.file == k.leased_to
    if not rules.leases_in_order:
        is_next = slot.file >= k.leased_to
    if not rules.ends_leases_by_records:  # the clock has said that the other lease is over
        is_next |= any(file == slot.file for _, file, _ in k.held)
    if not (is_parked or is_next):
        raise Refused
    leased_to = k.leased_to if is_parked else max(k.leased_to, slot.file + 1)
    held = (*k.held, (number, slot.file, attempts))
    return k._replace(leased_to=leased_to, parked=tuple(sorted(parked.items())), held=held)


def _end(k: Known, slot: Slot, rules: Rules) -> Known:
    mine = next((each for each in k.held if each[0] == slot.lease), None)
    if mine is None and (rules.refuses_late_outcomes or slot.kind == "EXPIRED"):
        raise Refused
    file, attempts = (mine[1], mine[2]) if mine else (slot.file, 0)
    held, parked = tuple(each for each in k.held if each[0] != slot.lease), dict(k.parked)
    if slot.kind == "DONE":
        return k._replace(held=held, done=k.done | {file})
    if rules.parks_expired:
        parked[file] = attempts + 1 if rules.counts_expired else attempts
    return k._replace(held=held, parked=tuple(sorted(parked.items())))


def is_refused(slots: Slots, rules: Rules) -> bool:
    """Whether the last of these slots breaks a rule.

    Raises:
        AssertionError: the product's ledger says something else, with all rules.
    """
    try:
        mine: Known | None = known(slots, rules)
    except Refused:
        mine = None
    if rules == Rules():
        theirs = _product(slots)
        assert mine == theirs, f"the model says {mine}, the ledger {theirs}, of {slots}"
    return mine is None


def _product(slots: Slots) -> Known | None:
    try:
        state, slot_of = _folded(slots)
    except Stalled:
        return None
    feed = state.feeds[TP]
    assert feed.leasing
    model = {at: number for number, at in enumerate(slot_of)}
    held = tuple(
        (model[slot], number, part.attempt)
        for slot, each in sorted(feed.leasing.open.items())
        for number, part in each.parts.items()
    )
    done = frozenset(slot.file for slot in slots if slot.kind == "DONE")
    assert len(done) == feed.leasing.done
    requests = frozenset(tuple(map(int, each.split("/"))) for each in feed.leasing.requests)
    parked = tuple(sorted((number, part.attempt) for number, part in feed.parked.items()))
    return Known(feed.leasing.leased_to, parked, held, done, requests)  # type: ignore[arg-type]  # pairs


@cache
def _folded(slots: Slots) -> tuple[State, tuple[int, ...]]:
    """The product's state after these slots, and the number that each has in its ledger."""
    if not slots:
        return State(), ()
    state, slot_of = _folded(slots[:-1])
    state = ledger.fold(state, ledger.encode(_record(state, slots[-1], slot_of)))
    seq = state.seq
    if slots[-1].kind == "OPEN" and not state.feeds:
        entries = (ledger.Entry(TP, "id", 0, feed=True, external=True),)
        header = _header(state, slots[-1].writer)
        state = ledger.fold(state, ledger.encode(ledger.Add(header=header, entries=entries)))
        listed = PartList("list", "0" * 64, 0, FILES, FILES, 0)
        header = _header(state, slots[-1].writer)
        found = ledger.Discover(header=header, topic_partition=TP, listed=listed)
        state = ledger.fold(state, ledger.encode(found))
    return state, (*slot_of, seq)


def _header(state: State, writer: int) -> Header:
    return ledger.next_header(state, f"D{writer}/{state.epoch}", "t", -1)


def _record(state: State, slot: Slot, slot_of: tuple[int, ...]) -> Record:
    header = _header(state, slot.writer)
    request = f"{slot.request[0]}/{slot.request[1]}" if slot.request[0] >= 0 else ""
    match slot.kind:
        case "OPEN":
            epoch = state.epoch + 1
            header = Header(state.seq + 1, state.tip, epoch, f"D{slot.writer}/{epoch}", "t")
            return ledger.Open(header=header, group="g", lane="0", generation=1, software="0")
        case "LEASE":
            numbers = (slot.file,)
            return ledger.Lease(
                header=header,
                topic_partition=TP,
                numbers=numbers,
                holder="taker",
                until=1,
                request=request,
            )
        case _:
            lease, numbers = slot_of[slot.lease], (slot.file,)
            done = numbers if slot.kind == "DONE" else ()
            return ledger.LeaseOutcome(
                header=header,
                topic_partition=TP,
                lease=lease,
                at=1,
                done=done,
                expired=() if done else numbers,
                request=request,
            )
