"""Two-phase uploads of every store. S3 is a real server; the others must behave as it does."""

import hashlib
from concurrent.futures import ThreadPoolExecutor
from datetime import UTC, datetime, timedelta

import pytest
from msgspec.structs import replace

from landfall.errors import Reason, Retry, Stalled
from landfall.objects import ObjectStat, Part, Upload, UploadLost, multipart_etag
from landfall.store import Store
from tests.support.stores.every_store import StoreUnderTest, concurrently, content, uploaded


def test_an_upload_is_invisible_until_it_is_completed(store: Store) -> None:
    upload = uploaded(store, "data/1")
    before = (store.stat("data/1"), store.read("data/1"), list(store.list_after("")))

    store.complete(upload)

    assert before == (None, None, [])
    assert content(store, "data/1") == b"body"
    assert store.stat("data/1") == ObjectStat("data/1", 4, multipart_etag(upload.parts), "token-1")


def test_parts_join_in_order_whatever_order_they_came_in(store: Store) -> None:
    minimum = store.least_part_bytes
    bodies = [bytes([n]) * minimum for n in range(1, 4)] + [b"tail"]
    upload_id = store.begin("data/1", "token-1")
    with ThreadPoolExecutor(4) as threads:
        numbered = [(4, bodies[3]), (2, bodies[1]), (1, bodies[0]), (3, bodies[2])]
        parts = dict(
            zip(
                (4, 2, 1, 3),
                threads.map(lambda p: store.put_part("data/1", upload_id, *p), numbered),
                strict=True,
            )
        )
    upload = Upload("data/1", upload_id, tuple(parts[n] for n in range(1, 5)), "token-1")

    store.complete(upload)

    assert content(store, "data/1") == b"".join(bodies)


def test_a_large_object_is_read_back_in_chunks(store: Store) -> None:
    body = b"".join(
        hashlib.sha256(bytes([n, m])).digest() * 512 for n in range(32) for m in range(64)
    )
    store.complete(uploaded(store, "data/big", [body]))

    with store.open("data/big") as stream:
        chunks = list(iter(lambda: stream.read(1_000_003), b""))

    assert {len(chunk) for chunk in chunks[:-1]} == {1_000_003}
    assert hashlib.sha256(b"".join(chunks)).digest() == hashlib.sha256(body).digest()


def test_a_part_put_again_replaces_the_first(store: Store) -> None:
    upload_id = store.begin("data/1", "token-1")
    store.put_part("data/1", upload_id, 1, b"first try")
    part = store.put_part("data/1", upload_id, 1, b"second try")

    store.complete(Upload("data/1", upload_id, (part,), "token-1"))

    assert content(store, "data/1") == b"second try"


def test_completing_again_changes_nothing(store: Store) -> None:
    upload = uploaded(store, "data/1")

    for _ in range(3):
        store.complete(upload)

    assert content(store, "data/1") == b"body"


@pytest.mark.parametrize("attempt", range(5))
def test_of_four_racing_completions_all_succeed(store: Store, attempt: int) -> None:
    upload = uploaded(store, "data/1", [b"p" * store.least_part_bytes, b"tail"])

    concurrently(*[lambda: store.complete(upload)] * 4)

    assert store.stat("data/1") == ObjectStat(
        "data/1", upload.size, multipart_etag(upload.parts), "token-1"
    )
    assert list(store.open_uploads("")) == []


def test_an_aborted_upload_is_discarded_if_the_store_can(store: Store) -> None:
    upload = uploaded(store, "data/1")

    store.abort("data/1", upload.upload_id)
    store.abort("data/1", upload.upload_id)

    assert list(store.open_uploads("")) == []
    if store.discards_uploads:
        with pytest.raises(UploadLost):
            store.complete(upload)
    else:
        store.complete(upload)
        assert content(store, "data/1") == b"body"


def test_a_lost_upload_is_reported(tested: StoreUnderTest) -> None:
    upload = uploaded(tested.store, "data/1")

    tested.lose(upload)

    with pytest.raises(UploadLost, match=r"^data/1: upload .* is gone and there is no object$"):
        tested.store.complete(upload)
    assert tested.store.stat("data/1") is None


def test_aborting_does_not_touch_a_completed_object(store: Store) -> None:
    upload = uploaded(store, "data/1")
    store.complete(upload)

    store.abort("data/1", upload.upload_id)

    assert content(store, "data/1") == b"body"


def test_a_late_part_of_an_aborted_upload_is_refused_or_is_an_upload_to_discard(
    store: Store,
) -> None:
    aborted = uploaded(store, "data/1")
    store.abort("data/1", aborted.upload_id)
    refusal = ""

    try:
        store.put_part("data/1", aborted.upload_id, 2, b"late")
    except Retry as error:
        refusal = str(error)

    assert not refusal or "it was aborted" in refusal
    found = [upload.upload_id for upload in store.open_uploads("")]
    assert found == ([aborted.upload_id] if store.discards_uploads and not refusal else [])
    assert store.stat("data/1") is None


def test_an_upload_without_its_recorded_parts_is_lost(store: Store) -> None:
    upload_id = store.begin("data/1", "token-1")
    store.put_part("data/1", upload_id, 1, b"other bytes")
    recorded = Part(hashlib.md5(b"body").hexdigest(), 4)

    with pytest.raises(UploadLost):
        store.complete(Upload("data/1", upload_id, (recorded,), "token-1"))


def test_a_deleted_object_is_lost_and_not_made_again(tested: StoreUnderTest) -> None:
    upload = uploaded(tested.store, "data/1")
    tested.store.complete(upload)
    tested.delete("data/1")

    with pytest.raises(UploadLost):
        tested.store.complete(upload)
    assert tested.store.stat("data/1") is None


def test_a_lost_object_is_made_again_by_another_upload(tested: StoreUnderTest) -> None:
    tested.store.complete(uploaded(tested.store, "data/1", [b"first"], "token-1"))
    tested.delete("data/1")

    tested.store.complete(uploaded(tested.store, "data/1", [b"again"], "token-2"))

    assert content(tested.store, "data/1") == b"again"
    assert tested.store.stat("data/1").token == "token-2"  # type: ignore[union-attr]  # it exists


def test_another_uploads_object_in_place_of_a_lost_one_stalls(tested: StoreUnderTest) -> None:
    store = tested.store
    lost = uploaded(store, "data/1", [b"mine"], "token-1")
    tested.lose(lost)
    store.complete(uploaded(store, "data/1", [b"theirs"], "token-2"))

    with pytest.raises(Stalled, match="another object is there: token token-2, 6 bytes") as stalled:
        store.complete(lost)
    assert stalled.value.reason is Reason.LEDGER_BROKEN
    assert content(store, "data/1") == b"theirs"


def test_a_fresh_upload_is_completed(store: Store) -> None:
    for number in range(2):
        upload = uploaded(store, f"data/{number}")

        store.complete(upload, is_fresh=True)

        expected = ObjectStat(upload.key, 4, multipart_etag(upload.parts), "token-1")
        assert store.stat(upload.key) == expected
    assert list(store.open_uploads("")) == []


def test_a_fresh_upload_that_is_lost_is_not_taken_for_another_object(
    tested: StoreUnderTest,
) -> None:
    """versitygw confirms its completion, because an object is at the key."""
    store = tested.store
    lost = uploaded(store, "data/1", [b"mine"], "token-1")
    tested.lose(lost)
    store.complete(uploaded(store, "data/1", [b"mine"], "token-2"))

    with pytest.raises(Stalled, match="another object is there"):
        store.complete(lost, is_fresh=True)


def test_an_object_not_made_by_landfall_in_place_of_a_lost_one_stalls(
    tested: StoreUnderTest,
) -> None:
    store = tested.store
    lost = uploaded(store, "data/1", [b"mine"])
    tested.lose(lost)
    store.create("data/1", b"them")

    with pytest.raises(Stalled, match="another object is there: token none, 4 bytes") as stalled:
        store.complete(lost)
    assert stalled.value.reason is Reason.OBJECT_LOST


def test_the_same_token_with_other_bytes_is_another_object(store: Store) -> None:
    upload = uploaded(store, "data/1", [b"body"])
    store.complete(upload)
    changed = replace(
        upload, upload_id=uploaded(store, "other").upload_id, parts=(Part("0" * 32, 4),)
    )

    with pytest.raises(Stalled, match="another object is there"):
        store.complete(changed)


def test_open_uploads_are_listed_by_prefix_with_their_age(store: Store) -> None:
    began = datetime.now(UTC)
    ids = {key: uploaded(store, key).upload_id for key in ("data/b", "data/a", "other/c")}

    listed = list(store.open_uploads("data/"))

    expected = ("data/a", "data/b") if store.discards_uploads else ()
    assert [(upload.key, upload.upload_id) for upload in listed] == [(k, ids[k]) for k in expected]
    assert all(abs(upload.begun - began) < timedelta(minutes=1) for upload in listed)


def test_more_than_a_thousand_open_uploads_are_listed_once_each(store: Store) -> None:
    # The first page of a listing ends among the five uploads of data/0998.
    keys = [f"data/{n:04d}" for n in range(1050)] + ["data/0998"] * 4
    with ThreadPoolExecutor(16) as threads:
        ids = list(threads.map(lambda key: uploaded(store, key).upload_id, keys))

    listed = [(upload.key, upload.upload_id) for upload in store.open_uploads("data/")]

    expected = sorted(zip(keys, ids, strict=True)) if store.discards_uploads else []
    assert sorted(listed) == expected
    assert [key for key, _ in listed] == [key for key, _ in expected]


def test_uploads_of_one_key_are_independent(store: Store) -> None:
    first = uploaded(store, "data/1", [b"first"])
    second = uploaded(store, "data/1", [b"second"], "token-2")

    store.abort("data/1", first.upload_id)
    store.complete(second)

    assert content(store, "data/1") == b"second"


def test_an_absent_object_cannot_be_opened(store: Store) -> None:
    with pytest.raises(FileNotFoundError):
        store.open("data/1")
