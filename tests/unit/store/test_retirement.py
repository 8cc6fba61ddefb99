"""Objects retire in one order, and a completion at any moment brings none back."""

from collections.abc import Callable
from contextlib import suppress
from dataclasses import dataclass

import pytest

from landfall.errors import Reason, Retry, Stalled
from landfall.objects import ObjectStat, Part, Upload, UploadLost
from landfall.store.memory import Call, CallFault, MemoryStore, NoFaults, Operation, Scripted
from landfall.store.retirement import ensure_retired
from tests.support.stores.every_store import uploaded

UPLOAD = Upload("data/1", "id-1", (Part("etag", 4),), "token-1")
MADE = ObjectStat("data/1", 4, "", "token-1")
OTHER = ObjectStat("data/1", 4, "", "token-2")
NAMELESS = ObjectStat("data/1", 4, "")


def retired(*looks: ObjectStat | None) -> list[str]:
    """What is done, in order, if these looks find this."""
    done: list[str] = []
    answers = iter(looks)

    def stat(key: str) -> ObjectStat | None:
        done.append(f"look at {key}")
        return next(answers)

    ensure_retired(
        UPLOAD,
        drop=lambda upload: done.append(f"drop {upload.upload_id}"),
        stat=stat,
        delete=lambda found: done.append(f"delete {found.key}"),
    )
    return done


def test_what_is_left_of_the_upload_goes_first() -> None:
    assert retired(MADE) == ["drop id-1", "look at data/1", "delete data/1"]


def test_nothing_is_deleted_where_nothing_is() -> None:
    assert retired(None) == ["drop id-1", "look at data/1"]


@pytest.mark.parametrize(
    ("found", "reason"), [(OTHER, Reason.LEDGER_BROKEN), (NAMELESS, Reason.OBJECT_LOST)]
)
def test_another_object_stays(found: ObjectStat, reason: Reason) -> None:
    with pytest.raises(Stalled, match="another object is there") as stalled:
        retired(found, found)
    assert stalled.value.reason is reason


def test_an_object_that_loses_its_token_while_it_is_deleted_is_no_other() -> None:
    assert retired(NAMELESS, None) == ["drop id-1", "look at data/1", "look at data/1"]


@dataclass
class Interrupted(NoFaults):
    """Does something else before one of the store's calls."""

    number: int
    other: Callable[[], object] = lambda: None
    reached: bool = False

    def before(self, call: Call) -> CallFault | None:
        if call.number == self.number and not self.reached:
            self.reached = True
            self.other()
        return None


STORES = [{"keeps_parts": keeps, "repeat_completes": not keeps} for keeps in (False, True)]


@pytest.mark.parametrize("settings", STORES, ids=["used up", "keeps parts"])
@pytest.mark.parametrize("was_completed", [False, True])
@pytest.mark.parametrize("retires_within", [False, True])
def test_a_completion_at_any_moment_brings_nothing_back(
    settings: dict[str, bool], was_completed: bool, retires_within: bool
) -> None:
    moments = 0
    while True:
        plan = Interrupted(-1)
        store = MemoryStore(plan, **settings)
        upload = uploaded(store, "data/1", [b"one ", b"object"])
        if was_completed:
            store.complete(upload)

        def complete(store: MemoryStore = store, upload: Upload = upload) -> None:
            with suppress(Retry, UploadLost):
                store.complete(upload)

        def retire(store: MemoryStore = store, upload: Upload = upload) -> None:
            store.retire(upload)

        first, plan.other = (complete, retire) if retires_within else (retire, complete)
        plan.number = sum(store.requests.values()) + moments
        first()
        if not plan.reached:
            break
        moments += 1
        assert store.stat("data/1") is None
        with pytest.raises(UploadLost):
            store.complete(upload)
    assert moments >= 2


@pytest.mark.parametrize("settings", STORES, ids=["used up", "keeps parts"])
@pytest.mark.parametrize("fault", [*CallFault])
@pytest.mark.parametrize("operation", [Operation.DROP, Operation.STAT, Operation.RETIRE])
def test_a_retirement_that_fails_is_repeated(
    settings: dict[str, bool], fault: CallFault, operation: Operation
) -> None:
    plan = Scripted()
    store = MemoryStore(plan, **settings)
    upload = uploaded(store, "data/1")
    store.complete(upload)
    plan.script = {operation: [fault]}

    with suppress(Retry):
        store.retire(upload)
    store.retire(upload)
    store.deliver()

    assert store.stat("data/1") is None
    with pytest.raises(UploadLost):
        store.complete(upload)


def test_a_store_that_keeps_parts_makes_an_object_again_until_they_are_dropped() -> None:
    plan = Scripted({Operation.DROP: [CallFault.REQUEST_LOST]})
    store = MemoryStore(plan, keeps_parts=True)
    upload = uploaded(store, "data/1")
    store.complete(upload)
    store.delete("data/1")

    store.complete(upload)

    assert store.read("data/1") == b"body"
    store.delete("data/1")
    with pytest.raises(UploadLost):
        store.complete(upload)
