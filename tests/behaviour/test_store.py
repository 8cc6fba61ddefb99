"""One suite for every store. S3 is a real server; the others must do what it does."""

import hashlib
from collections.abc import Callable, Iterator
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass, replace
from datetime import UTC, datetime, timedelta
from pathlib import Path
from threading import Barrier
from typing import Any
from uuid import uuid4

import pytest

from landfall.api import spec
from landfall.api.spec import SecretRef
from landfall.errors import Reason, Retry, Stalled
from landfall.objects import ObjectStat, Part, Upload, UploadLost, multipart_etag
from landfall.store import Created, Store
from landfall.store.file import FileStore
from landfall.store.memory import MemoryStore
from landfall.store.probe import probe
from landfall.store.s3 import S3Store
from tests.chaos.proxy import FaultProxy
from tests.support.s3 import Bucket, S3Server
from tests.support.stores import content, uploaded

ODD_KEYS = sorted(
    [
        "a",
        "a-b/c",
        "a/b",
        "a/b c",
        "a/b+c",
        "a/ä/ö",
        "a/日本/ﬀ",
        "a/dt=2026-11-21/hr=04/1_0_00000000000000000007.json.gz",
        "a/100%25",
        "a/%2F",
        "a/q?x=1&y=2#z",
        "a/'\"<>&",
        "a/*",
        "a0/b",
        "b/~!@$^(){}[],;:",
    ]
)


@dataclass(frozen=True)
class Place:
    """A store, and how a stranger deletes one of its objects."""

    store: Store
    delete: Callable[[str], None]


@pytest.fixture(scope="session")
def shared_bucket(s3: S3Server) -> Bucket:
    return s3.create_bucket()


@pytest.fixture(scope="session")
def proxied_bucket(
    shared_bucket: Bucket, tmp_path_factory: pytest.TempPathFactory
) -> Iterator[Bucket]:
    """The same by way of chaos' proxy, without a fault: it passes on whatever a store asks and
    answers.
    """
    server = shared_bucket.server
    proxy = FaultProxy(
        server.endpoint, "127.0.0.1:0", seed=0, folder=tmp_path_factory.mktemp("proxy")
    )
    yield Bucket(S3Server(proxy.endpoint, server.env), shared_bucket.name)
    assert (proxy.counts().faults, proxy.stop()) == ({}, 0)


@pytest.fixture(params=["memory", "file", "s3", "proxied"])
def place(request: pytest.FixtureRequest, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Place:
    match request.param:
        case "memory":
            memory = MemoryStore()
            return Place(memory, memory.delete)
        case "file":
            return Place(
                FileStore(tmp_path / "root"), lambda key: (tmp_path / "root" / key).unlink()
            )
        case _:
            bucket: Bucket = request.getfixturevalue(
                "shared_bucket" if request.param == "s3" else "proxied_bucket"
            )
            root = f"roots/{uuid4().hex}"
            return Place(
                s3_store(bucket, root, tmp_path, monkeypatch),
                lambda key: (
                    bucket.server.client.delete_object(Bucket=bucket.name, Key=f"{root}/{key}")
                    and None
                ),
            )


@pytest.fixture
def store(place: Place) -> Store:
    return place.store


def s3_store(
    bucket: Bucket, root: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, **settings: Any
) -> S3Store:
    secret = tmp_path / "secrets" / "s3"
    secret.mkdir(parents=True, exist_ok=True)
    for name in ("AWS_ACCESS_KEY_ID", "AWS_SECRET_ACCESS_KEY"):
        (secret / name).write_text(bucket.server.env[name] + "\n")
    monkeypatch.setenv("LANDFALL_SECRETS", str(secret.parent))
    reached = spec.S3(
        endpoint=bucket.server.endpoint,
        path_style=True,
        credentials_secret_ref=SecretRef(name="s3"),
        **settings,
    )
    return S3Store(bucket.name, root, reached, pauses=(0.05, 0.1, 0.2, 0.4, 0.8, 1.6))


def at_once(*calls: Callable[[], Any]) -> list[Any]:
    """What the calls return, all begun at the same moment."""
    barrier = Barrier(len(calls))

    def run(call: Callable[[], Any]) -> Any:
        barrier.wait()
        return call()

    with ThreadPoolExecutor(len(calls)) as threads:
        return list(threads.map(run, calls))


# -------------------------------------------------------------------------------------------- slots


def test_a_slot_is_created_once_and_keeps_its_first_body(store: Store) -> None:
    first = store.create("slots/0", b"first")
    second = store.create("slots/0", b"second")

    assert (first, second) == (Created.WON, Created.TAKEN)
    assert store.read("slots/0") == b"first"


def test_creating_the_same_bytes_again_is_still_taken(store: Store) -> None:
    store.create("slots/0", b"same")

    assert store.create("slots/0", b"same") is Created.TAKEN


@pytest.mark.parametrize("round_", range(5))
def test_of_sixteen_racing_writers_one_wins_and_its_body_stays(store: Store, round_: int) -> None:
    bodies = [f"writer {n}".encode() for n in range(16)]

    answers = at_once(*(lambda body=body: store.create("slots/raced", body) for body in bodies))

    winners = [body for body, answer in zip(bodies, answers, strict=True) if answer is Created.WON]
    assert winners == [store.read("slots/raced")]


def test_an_absent_slot_reads_as_none(store: Store) -> None:
    store.create("slots/0", b"")

    assert (store.read("slots/1"), store.read("slots"), store.read("slots/0/x")) == (
        None,
        None,
        None,
    )


def test_an_empty_slot_reads_as_empty(store: Store) -> None:
    store.create("slots/0", b"")

    assert store.read("slots/0") == b""


def test_a_hint_is_overwritten(store: Store) -> None:
    store.overwrite("hints/HEAD", b"1")
    store.overwrite("hints/HEAD", b"2")

    assert store.read("hints/HEAD") == b"2"


# ------------------------------------------------------------------------------------------ listing


def test_odd_keys_come_back_as_they_went_in_and_in_order(store: Store) -> None:
    keys = [key for key in ODD_KEYS if not any(other.startswith(f"{key}/") for other in ODD_KEYS)]
    for key in reversed(keys):
        assert store.create(key, key.encode()) is Created.WON

    assert [found.key for found in store.list_after("")] == keys
    assert [store.read(key) for key in keys] == [key.encode() for key in keys]


def test_odd_keys_can_be_objects_of_two_phases(store: Store) -> None:
    keys = [key for key in ODD_KEYS if key != "a"]
    for key in keys:
        store.complete(uploaded(store, key, [key.encode()]))

    assert [content(store, key) for key in keys] == [key.encode() for key in keys]
    assert list(store.open_uploads("")) == []


def test_a_listing_keeps_to_its_prefix_and_starts_after_a_key(store: Store) -> None:
    keys = [key for key in ODD_KEYS if key != "a"]
    for key in keys:
        store.create(key, b"x")

    for prefix in ("", "a", "a/", "a/b", "a/ä/", "nothing"):
        for after in ("", "0", "a/", "a/b", "a/b!", "a/dt=2026-11-21", "a/zzz", *keys):
            expected = [key for key in keys if key.startswith(prefix) and key > after]
            assert [found.key for found in store.list_after(prefix, after)] == expected, (
                prefix,
                after,
            )


def test_a_listing_tells_sizes_and_nothing_else_of_slots(store: Store) -> None:
    store.create("slots/0", b"")
    store.create("slots/1", b"four")

    assert [(found.key, found.size, found.token) for found in store.list_after("slots/")] == [
        ("slots/0", 0, ""),
        ("slots/1", 4, ""),
    ]


def test_a_listing_of_more_than_a_thousand_keys_has_them_all(store: Store) -> None:
    keys = [f"slots/{n:020d}.json" for n in range(1050)]
    with ThreadPoolExecutor(16) as threads:
        list(threads.map(lambda key: store.create(key, b"x"), keys))

    assert [found.key for found in store.list_after("slots/")] == keys
    assert [found.key for found in store.list_after("slots/", keys[10])] == keys[11:]


def test_a_folder_is_no_object(store: Store) -> None:
    store.create("folder/key", b"x")

    assert (store.stat("folder"), store.read("folder")) == (None, None)
    with pytest.raises(FileNotFoundError):
        store.open("folder")


# ------------------------------------------------------------------------------------------ uploads


def test_an_upload_is_invisible_until_it_is_completed(store: Store) -> None:
    upload = uploaded(store, "data/1")
    before = (store.stat("data/1"), store.read("data/1"), list(store.list_after("")))

    store.complete(upload)

    assert before == (None, None, [])
    assert content(store, "data/1") == b"body"
    assert store.stat("data/1") == ObjectStat("data/1", 4, multipart_etag(upload.parts), "token-1")


def test_parts_join_in_order_whatever_order_they_came_in(store: Store) -> None:
    least = store.least_part_bytes
    bodies = [bytes([n]) * least for n in range(1, 4)] + [b"tail"]
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


def test_a_big_part_is_read_back_in_pieces(store: Store) -> None:
    body = b"".join(
        hashlib.sha256(bytes([n, m])).digest() * 512 for n in range(32) for m in range(64)
    )
    store.complete(uploaded(store, "data/big", [body]))

    with store.open("data/big") as stream:
        pieces = list(iter(lambda: stream.read(1_000_003), b""))

    assert {len(piece) for piece in pieces[:-1]} == {1_000_003}
    assert hashlib.sha256(b"".join(pieces)).digest() == hashlib.sha256(body).digest()


def test_a_part_put_again_counts_as_recorded(store: Store) -> None:
    upload_id = store.begin("data/1", "token-1")
    store.put_part("data/1", upload_id, 1, b"first try")
    part = store.put_part("data/1", upload_id, 1, b"second try")

    store.complete(Upload("data/1", upload_id, (part,), "token-1"))

    assert content(store, "data/1") == b"second try"


def test_completing_again_and_again_changes_nothing(store: Store) -> None:
    upload = uploaded(store, "data/1")

    for _ in range(3):
        store.complete(upload)

    assert content(store, "data/1") == b"body"


@pytest.mark.parametrize("round_", range(5))
def test_of_four_racing_completions_all_succeed(store: Store, round_: int) -> None:
    upload = uploaded(store, "data/1", [b"p" * store.least_part_bytes, b"tail"])

    at_once(*[lambda: store.complete(upload)] * 4)

    assert store.stat("data/1") == ObjectStat(
        "data/1", upload.size, multipart_etag(upload.parts), "token-1"
    )
    assert list(store.open_uploads("")) == []


def test_an_aborted_upload_is_forgotten(store: Store) -> None:
    upload = uploaded(store, "data/1")

    store.abort("data/1", upload.upload_id)
    store.abort("data/1", upload.upload_id)

    assert list(store.open_uploads("")) == []
    with pytest.raises(UploadLost, match=r"^data/1: upload .* is gone and there is no object$"):
        store.complete(upload)


def test_aborting_does_not_touch_a_completed_object(store: Store) -> None:
    upload = uploaded(store, "data/1")
    store.complete(upload)

    store.abort("data/1", upload.upload_id)

    assert content(store, "data/1") == b"body"


def test_a_part_of_an_aborted_upload_is_to_be_retried(store: Store) -> None:
    upload_id = store.begin("data/1", "token-1")
    store.abort("data/1", upload_id)

    with pytest.raises(Retry, match="it was aborted"):
        store.put_part("data/1", upload_id, 1, b"late")


def test_an_upload_without_its_recorded_parts_is_lost(store: Store) -> None:
    upload_id = store.begin("data/1", "token-1")
    store.put_part("data/1", upload_id, 1, b"other bytes")
    recorded = Part(hashlib.md5(b"body").hexdigest(), 4)

    with pytest.raises(UploadLost):
        store.complete(Upload("data/1", upload_id, (recorded,), "token-1"))


def test_an_object_deleted_by_somebody_does_not_rise_again(place: Place) -> None:
    upload = uploaded(place.store, "data/1")
    place.store.complete(upload)
    place.delete("data/1")

    with pytest.raises(UploadLost):
        place.store.complete(upload)
    assert place.store.stat("data/1") is None


def test_a_lost_object_is_made_again_by_another_upload(place: Place) -> None:
    place.store.complete(uploaded(place.store, "data/1", [b"first"], "token-1"))
    place.delete("data/1")

    place.store.complete(uploaded(place.store, "data/1", [b"again"], "token-2"))

    assert content(place.store, "data/1") == b"again"
    assert place.store.stat("data/1").token == "token-2"  # type: ignore[union-attr]  # it is there


def test_another_uploads_object_in_place_of_a_lost_one_stalls(store: Store) -> None:
    lost = uploaded(store, "data/1", [b"mine"], "token-1")
    store.abort("data/1", lost.upload_id)
    store.complete(uploaded(store, "data/1", [b"theirs"], "token-2"))

    with pytest.raises(Stalled, match="another object is there: token token-2, 6 bytes") as stalled:
        store.complete(lost)
    assert stalled.value.reason is Reason.LEDGER_BROKEN
    assert content(store, "data/1") == b"theirs"


def test_a_strangers_object_in_place_of_a_lost_one_stalls(store: Store) -> None:
    lost = uploaded(store, "data/1", [b"mine"])
    store.abort("data/1", lost.upload_id)
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
    ids = {key: store.begin(key, "token-1") for key in ("data/b", "data/a", "other/c")}

    listed = list(store.open_uploads("data/"))

    assert [(upload.key, upload.upload_id) for upload in listed] == [
        (k, ids[k]) for k in ("data/a", "data/b")
    ]
    assert all(abs(upload.begun - began) < timedelta(minutes=1) for upload in listed)


def test_uploads_of_one_key_are_apart(store: Store) -> None:
    first = uploaded(store, "data/1", [b"first"])
    second = uploaded(store, "data/1", [b"second"], "token-2")

    store.abort("data/1", first.upload_id)
    store.complete(second)

    assert content(store, "data/1") == b"second"


def test_an_absent_object_cannot_be_opened(store: Store) -> None:
    with pytest.raises(FileNotFoundError):
        store.open("data/1")


# -------------------------------------------------------------------------------------------- roots


@pytest.fixture
def whole_bucket(bucket: Bucket, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> S3Store:
    return s3_store(bucket, "", tmp_path, monkeypatch)


def test_a_bucket_can_be_a_root_as_a_whole(whole_bucket: S3Store, bucket: Bucket) -> None:
    whole_bucket.create("slots/0", b"x")
    whole_bucket.complete(uploaded(whole_bucket, "data/1"))

    assert (
        bucket.keys()
        == [found.key for found in whole_bucket.list_after("")]
        == ["data/1", "slots/0"]
    )


def test_every_store_passes_the_probe(store: Store) -> None:
    probe(store)

    assert {
        found.key.split("/")[:2] == ["_landfall", "_probe"] for found in store.list_after("")
    } == {True}
    assert list(store.open_uploads("")) == []


def test_bytes_damaged_on_their_way_are_refused(whole_bucket: S3Store) -> None:
    upload_id = whole_bucket.begin("data/1", "token-1")

    def damage(request: Any, **_: Any) -> None:
        request.body = b"B" + request.body[1:]  # as many bytes, and not those that were signed

    whole_bucket._client.meta.events.register("before-send.s3.UploadPart", damage)

    with pytest.raises(Retry, match="XAmzContentSHA256Mismatch"):
        whole_bucket.put_part("data/1", upload_id, 1, b"body")
