"""The probe refuses stores on which two drivers could both believe that they committed."""

from collections.abc import Iterator, Sequence
from threading import Barrier

import pytest

from landfall.errors import Reason, Stalled, StoreDenied
from landfall.lane.stores import with_ledger
from landfall.objects import ObjectStat, Part, Upload
from landfall.store import Created
from landfall.store.memory import CallFault, MemoryStore, Operation, Scripted
from landfall.store.probe import PREFIX, probe
from landfall.store.routed import RoutedStore


class IgnoresTheCondition(MemoryStore):
    """As rclone does."""

    def create(self, key: str, body: bytes) -> Created:
        self.overwrite(key, body)
        return Created.WON


class ChecksThenActs(MemoryStore):
    """As s3mock does: right for one writer, wrong for two at once."""

    def __init__(self) -> None:
        super().__init__()
        self._together, self._first = Barrier(2), iter(range(2))

    def create(self, key: str, body: bytes) -> Created:
        if self.stat(key):
            return Created.TAKEN
        if next(self._first, None) is not None:  # nobody has written yet, so a second one comes
            self._together.wait(60)
        self.overwrite(key, body)
        return Created.WON


class ReplacesAndSaysTaken(MemoryStore):
    def create(self, key: str, body: bytes) -> Created:
        answer = super().create(key, body)
        if answer is Created.TAKEN:
            self.overwrite(key, body)
        return answer


class NobodyWins(MemoryStore):
    def create(self, key: str, body: bytes) -> Created:
        del key, body
        return Created.TAKEN


class ShowsUploadsAtOnce(MemoryStore):
    def put_part(self, key: str, upload_id: str, number: int, body: bytes) -> Part:
        self.overwrite(key, body)
        return super().put_part(key, upload_id, number, body)


class ForgetsMetadata(MemoryStore):
    def begin(self, key: str, token: str) -> str:
        return super().begin(key, token[:0])

    def complete(self, upload: Upload, *, is_fresh: bool = False) -> None:  # noqa: ARG002  # it knows no better
        if self._is_open(upload):
            self._finish(upload)


class DoesNotAbort(MemoryStore):
    def abort(self, key: str, upload_id: str) -> None:
        pass


class ListsNothing(MemoryStore):
    def list_after(self, prefix: str, after: str = "") -> Iterator[ObjectStat]:
        return super().list_after(f"nothing/{prefix}", after)


class ListsFoldersFirst(MemoryStore):
    """As a store with a tree of folders may do, instead of comparing the bytes of whole keys."""

    def list_after(self, prefix: str, after: str = "") -> Iterator[ObjectStat]:
        found = sorted(super().list_after(prefix), key=lambda each: each.key.split("/"))
        return (each for each in found if each.key.split("/") > after.split("/"))


@pytest.mark.parametrize(
    ("broken", "message"),
    [
        (IgnoresTheCondition, r"8 of 8 racing creates of one key won, not one"),
        (ChecksThenActs, r"\d of 8 racing creates of one key won, not one"),
        (ReplacesAndSaysTaken, "a create won, but its body was not what was read back"),
        (NobodyWins, "0 of 8 racing creates of one key won"),
        (ShowsUploadsAtOnce, "an upload was visible before it was completed"),
        (ForgetsMetadata, "a completed object has lost its size or its metadata"),
        (DoesNotAbort, "an aborted upload is still there"),
        (ListsNothing, "a created key is not in the listing"),
        (ListsFoldersFirst, "a listing is not in the order of keys"),
    ],
)
def test_a_broken_store_is_refused(broken: type[MemoryStore], message: str) -> None:
    with pytest.raises(Stalled, match=f"^this store cannot keep a ledger: {message}") as stalled:
        probe(broken())

    assert stalled.value.reason is Reason.STORE_UNSAFE


def test_a_good_store_is_not_refused_for_a_lost_answer() -> None:
    probe(
        MemoryStore(
            Scripted(
                {
                    Operation.CREATE: [CallFault.REPEATED] * 8,
                    Operation.COMPLETE: [CallFault.REPEATED],
                }
            )
        )
    )


def test_a_probe_leaves_nothing() -> None:
    store = MemoryStore()

    probe(store)

    assert list(store.list_after("")) == []


def test_a_probe_leaves_nothing_in_two_stores() -> None:
    store = with_ledger(MemoryStore(), MemoryStore())
    assert isinstance(store, RoutedStore)

    probe(store)

    assert [*store.ledger.list_after(""), *store.objects.list_after("")] == []


class Undeletable(MemoryStore):
    """A store that lets nobody delete."""

    def delete_slots(self, keys: Sequence[str]) -> None:
        raise StoreDenied(f"delete {keys}: AccessDenied")

    def retire(self, upload: Upload) -> None:
        raise StoreDenied(f"delete {upload.key}: AccessDenied")


def test_without_the_right_to_delete_it_leaves_little_and_only_in_its_own_place() -> None:
    store = Undeletable()

    probe(store)

    left = list(store.list_after(""))
    assert all(found.key.startswith(PREFIX) for found in left)
    assert (len(left), sum(found.size for found in left) < 1000) == (8, True)


def test_probes_do_not_meet() -> None:
    store = MemoryStore()

    probe(store)
    probe(store)
