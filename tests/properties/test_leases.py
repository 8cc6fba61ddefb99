"""Whatever takers do, no file is two takers', and each is done once, waits, or is given up."""

from collections.abc import Callable

from hypothesis import settings
from hypothesis import strategies as st
from hypothesis.stateful import RuleBasedStateMachine, invariant, precondition, rule

from landfall import ledger
from landfall.checks.chain import Chain
from landfall.errors import Stalled
from landfall.ledger import Header, PartList, Record, State
from landfall.ledger.feeds.leases import unfinished
from landfall.ledger.offsets import TopicPartition
from landfall.ledger.snapshot import decode_state, encode_state
from tests.support.examples import share

TP = TopicPartition("files", 0)
NUMBERS = st.sets(st.integers(0, 12), min_size=1, max_size=4)


class Takers(RuleBasedStateMachine):
    """A ledger, what takers believe to hold, and what fsck counts."""

    def __init__(self) -> None:
        super().__init__()
        self.state, self.chain = State(), Chain("g")
        header = Header(0, "", 1, "w", "t")
        self.write(ledger.Open(header=header, group="g", lane="0", generation=1, software="0"))
        entry = ledger.Entry(TP, "id", 0, feed=True, external=True)
        self.append(lambda h: ledger.Add(header=h, entries=(entry,)))
        self.holders: dict[int, int] = {}
        self.ever: list[int] = []
        self.done: set[int] = set()
        self.gone: set[int] = set()

    def write(self, record: Record) -> None:
        body = ledger.encode(record)
        self.state = ledger.fold(self.state, body)
        self.chain.append(body)

    def append(self, make: Callable[[Header], Record]) -> bool:
        """Whether the ledger takes the record."""
        try:
            self.write(make(ledger.next_header(self.state, "w", "t", -1)))
        except Stalled:
            return False
        return True

    @property
    def feed(self) -> ledger.FeedState:
        return self.state.feeds[TP]

    @property
    def leasing(self) -> ledger.Leasing:
        assert self.feed.leasing
        return self.feed.leasing

    @rule(count=st.integers(1, 4), known=st.booleans())
    def discover(self, count: int, known: bool) -> None:
        first = self.feed.end
        listed = PartList(f"l{first}", "0" * 64, first, first + count, count, 0)
        index = ledger.KnownFiles("k", "0" * 64, first + count, 1) if known else None
        assert self.append(
            lambda h: ledger.Discover(header=h, topic_partition=TP, listed=listed, known=index)
        )

    @rule(numbers=NUMBERS)
    def take(self, numbers: set[int]) -> None:
        fresh = numbers - self.feed.parked.keys()
        from_ = self.leasing.leased_to
        may = fresh == {*range(from_, from_ + len(fresh))} and from_ + len(fresh) <= self.feed.end
        taken = self.append(
            lambda h: ledger.Lease(
                header=h, topic_partition=TP, numbers=(*sorted(numbers),), holder="t", until=10
            )
        )
        assert taken == may
        if taken:
            assert not numbers & (self.holders.keys() | self.done | self.gone)
            self.holders |= dict.fromkeys(numbers, self.state.seq)
            self.ever.append(self.state.seq)

    @precondition(lambda self: self.ever)
    @rule(data=st.data(), parts=NUMBERS, how=st.sampled_from(["done", "failed", "returned"]))
    def say(self, data: st.DataObject, parts: set[int], how: str) -> None:
        slot = data.draw(st.sampled_from(self.ever))
        may = {self.holders.get(number) for number in parts} == {slot}
        what = {how: (*sorted(parts),)}
        said = self.append(
            lambda h: ledger.LeaseOutcome(
                header=h, topic_partition=TP, lease=slot, at=5, why="because", **what
            )
        )
        assert said == may
        if said:
            self.holders = {n: at for n, at in self.holders.items() if n not in parts}
            self.done |= parts if how == "done" else set()

    @precondition(lambda self: self.leasing.open)
    @rule(data=st.data(), at=st.sampled_from([9, 10]))
    def expire(self, data: st.DataObject, at: int) -> None:
        slot = data.draw(st.sampled_from(sorted(self.leasing.open)))
        parts = (*self.leasing.open[slot].parts,)
        before = {n: part.attempt for n, part in self.leasing.open[slot].parts.items()}
        expired = self.append(
            lambda h: ledger.LeaseOutcome(
                header=h, topic_partition=TP, lease=slot, at=at, expired=parts
            )
        )
        assert expired == (at >= 10)
        if expired:
            assert {n: self.feed.parked[n].attempt - 1 for n in parts} == before
            self.holders = {n: held for n, held in self.holders.items() if held != slot}

    @precondition(lambda self: self.feed.parked)
    @rule(data=st.data())
    def replace_file(self, data: st.DataObject) -> None:
        number = data.draw(st.sampled_from(sorted(self.feed.parked)))
        assert self.append(
            lambda h: ledger.Discover(header=h, topic_partition=TP, replaced=(number,))
        )
        self.gone.add(number)

    @invariant()
    def every_number_is_somewhere(self) -> None:
        held = {n: slot for slot, each in self.leasing.open.items() for n in each.parts}
        assert held == self.holders
        places = (held.keys(), self.feed.parked.keys(), self.done, self.gone)
        assert sum(map(len, places)) == self.leasing.leased_to
        assert set().union(*places) == {*range(self.leasing.leased_to)}
        assert unfinished(self.feed) == len(held) + len(self.feed.parked)
        assert self.leasing.done == len(self.done)

    @invariant()
    def a_snapshot_is_the_same_state(self) -> None:
        assert decode_state(encode_state(self.state)) == self.state

    @invariant()
    def fsck_counts_the_same(self) -> None:
        assert self.chain.check_end(-1) is None
        assert self.chain.state == self.state


TestTakers = Takers.TestCase
TestTakers.settings = settings(max_examples=share(60), stateful_step_count=30, deadline=None)
