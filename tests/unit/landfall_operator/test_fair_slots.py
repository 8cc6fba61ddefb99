"""The slots of passes: no namespace keeps the other ones waiting."""

import asyncio
from collections import Counter, defaultdict
from dataclasses import dataclass, field
from itertools import pairwise

import pytest
from hypothesis import given
from hypothesis import strategies as st

from landfall_operator.runtime.fair_slots import FairSlots

NAMESPACES = "abc"
TURNS = 4
"""Turns of the event loop in which all tasks do what they can."""


@dataclass
class Holder:
    """A task that takes a slot, and holds it until its event is set."""

    namespace: str
    holds: bool = False
    end: asyncio.Event = field(default_factory=asyncio.Event)
    task: asyncio.Task[None] | None = None

    async def run(self, slots: FairSlots) -> None:
        async with slots.of(self.namespace):
            self.holds = True
            try:
                await self.end.wait()
            finally:
                self.holds = False


class Play:
    """Tasks of some namespaces, and what must be true of them after each step."""

    def __init__(self, total: int) -> None:
        self.total, self.limit = total, total - total // 4
        self.slots = FairSlots(total)
        self.tasks: dict[str, list[Holder]] = defaultdict(list)

    async def step(self, action: str, namespace: str, index: int) -> None:
        alive = self.tasks[namespace]
        if action == "take":
            holder = Holder(namespace)
            holder.task = asyncio.create_task(holder.run(self.slots))
            alive.append(holder)
        elif alive:
            holder = alive.pop(index % len(alive))
            assert holder.task
            if action == "end" and holder.holds:
                holder.end.set()
            else:
                holder.task.cancel()
        if index % 2:  # else the next step happens in the same turn of the loop
            await self.settle()

    async def settle(self) -> None:
        for _ in range(TURNS):
            await asyncio.sleep(0)
        alive = [holder for holders in self.tasks.values() for holder in holders]
        held = Counter(holder.namespace for holder in alive if holder.holds)
        waiting = {holder.namespace for holder in alive if not holder.holds}
        assert held.total() <= self.total
        assert max(held.values(), default=0) <= self.limit
        if held.total() < self.total:
            assert all(held[namespace] >= self.limit for namespace in waiting)
        for holders in self.tasks.values():  # in the order of the calls
            turns = [holder.holds for holder in holders]
            assert turns == sorted(turns, reverse=True)

    async def finish(self) -> None:
        """End all tasks; then all slots are free."""
        alive = [holder for holders in self.tasks.values() for holder in holders]
        for holder in alive:
            holder.end.set()
        async with asyncio.timeout(60):
            await asyncio.gather(*(holder.task for holder in alive if holder.task))
            for number in range(self.total):
                await self.slots.of(f"namespace-{number}").__aenter__()


STEPS = st.lists(
    st.tuples(
        st.sampled_from(["take", "take", "end", "cancel"]),
        st.sampled_from(NAMESPACES),
        st.integers(0, 9),
    ),
    max_size=60,
)


@given(total=st.integers(1, 9), steps=STEPS)
def test_a_free_slot_is_taken_by_whichever_namespace_may_have_it(
    total: int, steps: list[tuple[str, str, int]]
) -> None:
    async def play() -> None:
        one = Play(total)
        for action, namespace, index in steps:
            await one.step(action, namespace, index)
        await one.settle()
        await one.finish()

    asyncio.run(play())


@given(waiting=st.dictionaries(st.sampled_from(NAMESPACES), st.integers(1, 9), min_size=2))
def test_namespaces_take_turns(waiting: dict[str, int]) -> None:
    async def play() -> list[str]:
        slots, order = FairSlots(1), list[str]()

        async def take(namespace: str) -> None:
            async with slots.of(namespace):
                order.append(namespace)
                await asyncio.sleep(0)

        async with asyncio.TaskGroup() as group:
            for namespace, number in waiting.items():
                for _ in range(number):
                    group.create_task(take(namespace))
        return order

    order = asyncio.run(play())

    left = Counter(waiting)
    for number, (turn, following) in enumerate(pairwise(order)):
        left[turn] -= 1
        # The first one had its turn before the other ones came.
        assert not number or turn != following or set(+left) == {turn}


@pytest.mark.asyncio
async def test_the_next_slot_is_for_the_namespace_that_holds_the_fewest() -> None:
    one = Play(8)
    for namespace in "aaaaabbbab":  # the last two wait
        await one.step("take", namespace, 1)

    await one.step("end", "a", 0)
    await one.settle()

    assert [holder.holds for holder in one.tasks["a"]] == [True] * 4 + [False]
    assert all(holder.holds for holder in one.tasks["b"])
    await one.finish()


@pytest.mark.asyncio
@pytest.mark.parametrize("is_late", [False, True], ids=["before", "after"])
async def test_who_is_canceled_while_a_slot_becomes_free_keeps_none(is_late: bool) -> None:
    slots = FairSlots(1)
    held = slots.of("a")
    await held.__aenter__()
    waits, next_ = Holder("b"), Holder("c")
    task = asyncio.create_task(waits.run(slots))
    following = asyncio.create_task(next_.run(slots))
    await asyncio.sleep(0)

    if not is_late:
        task.cancel()
    await held.__aexit__(None, None, None)  # hands the slot out at once
    if is_late:
        task.cancel()

    next_.end.set()
    async with asyncio.timeout(60):
        await following
    assert task.cancelled()
