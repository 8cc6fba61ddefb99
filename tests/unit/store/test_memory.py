"""Faults of the store in memory: the caller sees what a caller of S3 would."""

from collections import deque
from collections.abc import Callable
from contextlib import suppress
from typing import TypeVar

import pytest

from landfall.errors import Retry
from landfall.objects import UploadLost
from landfall.store import Created
from landfall.store.memory import Call, CallFault, MemoryStore, Operation, Random, Scripted
from tests.support.stores.every_store import content, uploaded

T = TypeVar("T")
NO_EFFECT = [CallFault.REQUEST_LOST, CallFault.THROTTLED, CallFault.CONFLICT, CallFault.ERROR_BODY]


@pytest.mark.parametrize("fault", NO_EFFECT)
def test_a_create_that_went_nowhere_can_be_tried_again(fault: CallFault) -> None:
    store = MemoryStore(Scripted({Operation.CREATE: [fault]}))

    with pytest.raises(Retry, match=f"^create slots/0: {fault}$"):
        store.create("slots/0", b"mine")

    assert store.create("slots/0", b"mine") is Created.WON


def test_a_create_whose_answer_was_lost_is_there() -> None:
    store = MemoryStore(Scripted({Operation.CREATE: [CallFault.ANSWER_LOST]}))

    with pytest.raises(Retry):
        store.create("slots/0", b"mine")

    assert store.read("slots/0") == b"mine"


def test_a_create_repeated_by_the_client_library_is_taken_by_itself() -> None:
    store = MemoryStore(Scripted({Operation.CREATE: [CallFault.REPEATED]}))

    assert store.create("slots/0", b"mine") is Created.TAKEN
    assert store.read("slots/0") == b"mine"


def test_a_late_create_finds_the_slot_taken() -> None:
    store = MemoryStore(Scripted({Operation.CREATE: [CallFault.LATE]}))
    with pytest.raises(Retry):
        store.create("slots/0", b"zombie")

    answer = store.create("slots/0", b"successor")

    assert (answer, store.deliver(), store.read("slots/0")) == (Created.WON, 1, b"successor")


@pytest.mark.parametrize("repeat_completes", [True, False])
@pytest.mark.parametrize("fault", [CallFault.ANSWER_LOST, CallFault.REPEATED])
def test_a_completion_with_a_lost_answer_is_proven_by_its_object(
    fault: CallFault, repeat_completes: bool
) -> None:
    store = MemoryStore(Scripted({Operation.COMPLETE: [fault]}), repeat_completes=repeat_completes)
    upload = uploaded(store, "data/1")

    store.complete(upload)
    store.complete(upload)

    assert content(store, "data/1") == b"body"


@pytest.mark.parametrize("fault", [*NO_EFFECT, CallFault.LATE])
def test_a_completion_without_effect_is_to_be_tried_again(fault: CallFault) -> None:
    store = MemoryStore(Scripted({Operation.COMPLETE: [fault]}))
    upload = uploaded(store, "data/1")

    with pytest.raises(Retry, match="is not completed yet: complete data/1: "):
        store.complete(upload)
    assert store.stat("data/1") is None

    store.complete(upload)
    store.deliver()
    assert content(store, "data/1") == b"body"


def test_a_decided_upload_that_a_lifecycle_rule_aborts_is_lost() -> None:
    store = MemoryStore(Scripted({Operation.COMPLETE: [CallFault.EXPIRED]}))

    with pytest.raises(UploadLost):
        store.complete(uploaded(store, "data/1"))


def test_parts_below_the_least_size_cannot_be_completed() -> None:
    store = MemoryStore(least_part_bytes=5)

    with pytest.raises(Retry):
        store.complete(uploaded(store, "data/1", [b"tiny", b"tail"]))


class Killed(BaseException):
    """The driver is gone."""


@pytest.mark.parametrize("moment", ["before", "after"])
@pytest.mark.parametrize("last_call", range(5))
def test_a_plan_can_stop_a_driver_at_any_call(moment: str, last_call: int) -> None:
    class Killer(Scripted):
        def before(self, call: Call) -> CallFault | None:
            fault = super().before(call)
            if (moment, call.number) == ("before", last_call):
                raise Killed
            return fault

        def after(self, call: Call) -> None:
            if (moment, call.number) == ("after", last_call):
                raise Killed

    killer = Killer()
    store = MemoryStore(killer)

    with pytest.raises(Killed):
        deque(store.complete(uploaded(store, f"data/{n}")) for n in range(3))

    assert [call.number for call in killer.calls] == list(range(last_call + 1))


def test_random_faults_are_those_of_the_seed() -> None:
    def outcome(seed: int) -> list[str]:
        store = MemoryStore(Random(seed, rate=0.5))
        answers = []
        for n in range(50):
            try:
                answers.append(str(store.create(f"slots/{n}", b"x")))
            except Retry as error:
                answers.append(str(error))
        return answers

    assert outcome(1) == outcome(1) != outcome(2)


@pytest.mark.parametrize("seed", range(20))
def test_tried_again_long_enough_everything_lands_whatever_goes_wrong(seed: int) -> None:
    faults = tuple(fault for fault in CallFault if fault is not CallFault.EXPIRED)
    store = MemoryStore(Random(seed, 0.4, faults), repeat_completes=seed % 2 == 0)

    upload = patiently(lambda: uploaded(store, "data/1", [b"one", b"two"]))
    patiently(lambda: store.complete(upload))
    store.deliver()

    found = patiently(lambda: store.stat("data/1"))
    assert (found.size, found.token) == (6, "token-1")


def patiently(call: Callable[[], T]) -> T:
    for _ in range(100):
        with suppress(Retry):
            return call()
    raise AssertionError("it never worked")
