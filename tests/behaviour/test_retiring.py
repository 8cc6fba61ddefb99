"""Copying and retiring objects, the same in every store. S3 is a real server."""

import hashlib
from contextlib import suppress

import pytest
from msgspec.structs import replace

from landfall.errors import Reason, Retry, Stalled
from landfall.objects import Part, Upload, UploadLost, is_made_by
from landfall.store import Store, copying
from landfall.store.copying import copied
from tests.support.stores.every_store import StoreUnderTest, concurrently, content, uploaded

KEPT = "_landfall/clicks/0-retired/00000000000000000007/data/1"


def visible(store: Store, key: str, parts: tuple[bytes, ...] = (b"body",)) -> Upload:
    """An upload that is completed."""
    upload = uploaded(store, key, parts)
    store.complete(upload)
    return upload


# --------------------------------------------------------------------------------------- copying


@pytest.mark.parametrize("body", [b"body", b"", b"x" * 70_000])
def test_a_copy_is_an_upload_like_any_other(store: Store, body: bytes) -> None:
    visible(store, "data/1", (body,))

    copy = copied(store, "data/1", len(body), KEPT, "token-2")
    before = store.stat(KEPT)
    store.complete(copy)

    assert before is None
    assert content(store, KEPT) == content(store, "data/1") == body
    assert (copy.key, copy.token, copy.size) == (KEPT, "token-2", len(body))
    assert is_made_by(copy, store.stat(KEPT))


def test_a_copy_has_the_etags_of_its_parts(store: Store) -> None:
    visible(store, "data/1")

    (part,) = copied(store, "data/1", 4, "copy", "token-2").parts

    assert part == Part(part.etag, 4)
    assert part.etag.strip('"') == hashlib.md5(b"body").hexdigest()


def test_a_large_object_is_copied_in_parts(store: Store, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(copying, "PART_BYTES", 1000)
    step = max(1000, store.least_part_bytes)
    body = b"0123456789" * (step // 5) + b"the tail"
    visible(store, "data/1", (body,))

    copy = copied(store, "data/1", len(body), KEPT, "token-2")
    store.complete(copy)

    assert [part.size for part in copy.parts[:-1]] == [step] * (len(copy.parts) - 1)
    assert len(copy.parts) == 3
    assert content(store, KEPT) == body
    assert is_made_by(copy, store.stat(KEPT))


def test_a_range_within_an_object_is_copied(store: Store) -> None:
    visible(store, "data/1", (b"0123456789",))
    upload_id = store.begin("copy", "token-2")

    part = store.put_copy("copy", upload_id, 1, "data/1", 3, 4)
    store.complete(Upload("copy", upload_id, (part,), "token-2"))

    assert content(store, "copy") == b"3456"


def test_an_object_of_an_unusual_key_is_copied(tested: StoreUnderTest) -> None:
    store = tested.store
    for number, key in enumerate(tested.unusual_keys()):
        source = f"source/{number}/{key}"
        visible(store, source, (key.encode(),))

        store.complete(copied(store, source, len(key.encode()), f"copy/{number}/{key}", "token-2"))

        assert content(store, f"copy/{number}/{key}") == key.encode()


def test_a_missing_object_is_not_copied(store: Store) -> None:
    upload_id = store.begin("copy", "token-2")

    with pytest.raises(FileNotFoundError):
        store.put_copy("copy", upload_id, 1, "data/1", 0, 4)
    store.abort("copy", upload_id)
    with pytest.raises(FileNotFoundError):
        copied(store, "data/1", 4, "copy", "token-2")
    assert list(store.open_uploads("")) == []


def test_an_object_of_another_size_is_not_copied(store: Store) -> None:
    visible(store, "data/1")
    upload_id = store.begin("copy", "token-2")

    with pytest.raises(Retry):
        store.put_copy("copy", upload_id, 1, "data/1", 2, 4)
    store.abort("copy", upload_id)
    with pytest.raises(Stalled, match="data/1: 4 bytes, not 5") as stalled:
        copied(store, "data/1", 5, "copy", "token-2")
    assert stalled.value.reason is Reason.OBJECT_LOST
    assert list(store.open_uploads("")) == []


def test_a_late_copy_into_an_aborted_upload_is_refused_or_is_an_upload_to_discard(
    store: Store,
) -> None:
    visible(store, "data/1")
    upload_id = store.begin("copy", "token-2")
    store.abort("copy", upload_id)
    refusal = ""

    try:
        store.put_copy("copy", upload_id, 1, "data/1", 0, 4)
    except Retry as error:
        refusal = str(error)

    assert not refusal or "it was aborted" in refusal
    found = [upload.upload_id for upload in store.open_uploads("")]
    assert found == ([upload_id] if store.discards_uploads and not refusal else [])


# -------------------------------------------------------------------------------------- retiring


def test_a_retired_object_is_gone_and_does_not_come_back(store: Store) -> None:
    upload = visible(store, "data/1")

    for _ in range(2):
        store.retire(upload)

        assert store.stat("data/1") is None
        assert list(store.list_after("data/")) == []
    with pytest.raises(UploadLost):
        store.complete(upload)
    assert store.stat("data/1") is None
    assert list(store.open_uploads("")) == []


def test_an_empty_object_retires(store: Store) -> None:
    upload = visible(store, "data/1", (b"",))

    store.retire(upload)

    assert store.stat("data/1") is None


def test_an_upload_that_was_not_completed_retires(store: Store) -> None:
    upload = uploaded(store, "data/1")

    store.retire(upload)

    with pytest.raises(UploadLost):
        store.complete(upload)
    assert store.stat("data/1") is None
    assert list(store.open_uploads("")) == []


def test_retiring_what_was_lost_or_deleted_does_nothing(tested: StoreUnderTest) -> None:
    lost, deleted = uploaded(tested.store, "data/1"), visible(tested.store, "data/2")
    tested.lose(lost)
    tested.delete("data/2")

    tested.store.retire(lost)
    tested.store.retire(deleted)

    assert list(tested.store.list_after("")) == []


def test_another_uploads_object_does_not_retire(tested: StoreUnderTest) -> None:
    store = tested.store
    lost = uploaded(store, "data/1", [b"mine"], "token-1")
    tested.lose(lost)
    store.complete(uploaded(store, "data/1", [b"theirs"], "token-2"))

    with pytest.raises(Stalled, match="another object is there: token token-2") as stalled:
        store.retire(lost)
    assert stalled.value.reason is Reason.LEDGER_BROKEN
    assert content(store, "data/1") == b"theirs"


def test_an_object_that_landfall_did_not_make_does_not_retire(tested: StoreUnderTest) -> None:
    store = tested.store
    lost = uploaded(store, "data/1", [b"mine"])
    tested.lose(lost)
    store.create("data/1", b"them")

    with pytest.raises(Stalled, match="another object is there: token none") as stalled:
        store.retire(lost)
    assert stalled.value.reason is Reason.OBJECT_LOST
    assert store.read("data/1") == b"them"


def test_an_object_of_the_same_size_and_other_bytes_does_not_retire(store: Store) -> None:
    upload = visible(store, "data/1")

    with pytest.raises(Stalled, match="another object is there"):
        store.retire(
            replace(
                upload, upload_id=uploaded(store, "other").upload_id, parts=(Part("0" * 32, 4),)
            )
        )
    assert content(store, "data/1") == b"body"


def test_neighbours_stay(store: Store) -> None:
    upload, other = visible(store, "data/1"), visible(store, "data/10")
    waiting = uploaded(store, "data/2")

    store.retire(upload)
    store.complete(waiting)

    assert [found.key for found in store.list_after("")] == ["data/10", "data/2"]
    assert is_made_by(other, store.stat("data/10"))


def test_a_new_object_may_be_made_where_one_retired(store: Store) -> None:
    store.retire(visible(store, "data/1"))

    again = uploaded(store, "data/1", [b"again"], "token-2")
    store.complete(again)

    assert content(store, "data/1") == b"again"
    assert is_made_by(again, store.stat("data/1"))


@pytest.mark.parametrize("attempt", range(2))
def test_of_racing_retirements_all_succeed(store: Store, attempt: int) -> None:
    upload = visible(store, "data/1")

    concurrently(*[lambda: store.retire(upload)] * 4)

    assert store.stat("data/1") is None


@pytest.mark.parametrize("parts", [1, 2])
def test_a_completion_that_races_with_a_retirement_brings_nothing_back(
    store: Store, parts: int
) -> None:
    upload = visible(store, "data/1", (*[b"p" * store.least_part_bytes] * (parts - 1), b"tail"))

    def complete() -> None:
        with suppress(Retry, UploadLost):
            store.complete(upload)

    concurrently(complete, complete, lambda: store.retire(upload), complete)

    assert store.stat("data/1") is None


def test_an_object_is_kept_while_it_retires(store: Store) -> None:
    upload = visible(store, "data/1")

    store.complete(copied(store, "data/1", 4, KEPT, "token-2"))
    store.retire(upload)

    assert [found.key for found in store.list_after("")] == [KEPT]
    assert content(store, KEPT) == b"body"
