"""Google Cloud Storage, on a real server: what users meet first; ``make store-suite`` has more."""

import json
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest
from cryptography.hazmat.primitives.asymmetric.rsa import generate_private_key
from cryptography.hazmat.primitives.serialization import Encoding, NoEncryption, PrivateFormat

from landfall.api.spec import Output
from landfall.errors import Retry, StoreDenied
from landfall.objects import UploadLost
from landfall.store.gcs.store import GcsStore
from landfall.store.probe import probe
from landfall.store.urls import open_store
from landfall_audit.buckets import open_bucket
from tests.support.audit.audited_spec import for_auditor
from tests.support.places import Place
from tests.support.places import gcs as gcs_places
from tests.support.stores.every_store import concurrently, content, uploaded
from tests.support.stores.scripted import Answer, scripted
from tests.support.stores.source_files import check_versions

pytestmark = pytest.mark.xdist_group("gcs")

REFUSED = Answer(400, b'{"error": "invalid_grant", "error_description": "Invalid JWT Signature."}')
TOKEN = Answer(200, b'{"access_token": "a-token", "expires_in": 3600, "token_type": "Bearer"}')


@pytest.fixture
def place(gcs: str) -> Place:
    return gcs_places.place(gcs)


@pytest.fixture
def store(place: Place) -> GcsStore:
    return store_at(place)


def store_at(place: Place, **access: Any) -> GcsStore:
    output = {**place.output, "gcs": {**place.output["gcs"], **access}}
    store = open_store(Output.model_validate(output))
    assert isinstance(store, GcsStore)
    return store


def test_it_keeps_its_promises(place: Place, store: GcsStore) -> None:
    probe(store)
    upload = uploaded(store, "orders/1", [b"one ", b"object"])
    bucket = open_bucket(for_auditor(Output.model_validate(place.output)))
    before = (place.keys("orders/"), list(bucket.visible("orders/")), place.open_uploads())
    store.complete(upload)

    assert before == ([], [], ["orders/1"])
    assert place.open_uploads() == []
    assert content(store, "orders/1") == place.read("orders/1") == b"one object"
    assert list(bucket.visible("orders/")) == [("orders/1", 10)]
    with bucket.open("orders/1") as stream:
        assert stream.read() == b"one object"
    with pytest.raises(FileNotFoundError):
        bucket.open("orders/2")


def test_files_of_others_are_read_by_their_version(place: Place) -> None:
    check_versions(place)


def test_an_object_of_one_part_costs_two_requests_and_a_free_one(store: GcsStore) -> None:
    store.complete(uploaded(store, "orders/1"), is_fresh=True)
    store.create("_landfall/slot", b"{}")

    assert store.requests == {"objects.insert": 2, "objects.compose": 1, "objects.delete": 1}


def test_a_large_part_is_uploaded_in_one_session(store: GcsStore) -> None:
    body = bytes(range(256)) * (48 << 10)  # 12 MiB: the client sends up to 8 MiB by one request

    store.complete(uploaded(store, "orders/1", [body]), is_fresh=True)

    assert content(store, "orders/1") == body
    assert store.requests["objects.insert (data)"] == store.requests["objects.insert"] == 1


def test_parts_are_no_data_for_anybody(place: Place, store: GcsStore) -> None:
    uploaded(store, "orders/1")
    store.create("orders/0", b"x")
    bucket = open_bucket(for_auditor(Output.model_validate(place.output)))

    assert [found.key for found in store.list_after("")] == ["orders/0"]
    assert list(bucket.visible()) == [("orders/0", 1)]
    assert [upload.key for upload in store.open_uploads("")] == ["orders/1"]


def test_many_parts_are_joined_in_steps(place: Place, store: GcsStore) -> None:
    bodies = [f"part {number}\n".encode() for number in range(70)]
    upload = uploaded(store, "orders/1", bodies)

    store.complete(upload)

    assert content(store, "orders/1") == b"".join(bodies)
    assert store.requests["objects.compose"] == 4
    assert place.open_uploads() == []


@pytest.mark.full
@pytest.mark.parametrize("attempt", range(5))
def test_racing_completions_of_many_parts_leave_one_object_and_no_part(
    place: Place, store: GcsStore, attempt: int
) -> None:
    bodies = [f"part {number} of {attempt}\n".encode() for number in range(70)]
    upload = uploaded(store, "orders/1", bodies)
    stores = [store, *(store_at(place) for _ in range(3))]

    concurrently(*(lambda each=each: each.complete(upload) for each in stores))  # type: ignore[misc]

    assert content(store, "orders/1") == b"".join(bodies)
    assert (place.keys("orders/"), place.open_uploads()) == (["orders/1"], [])


class KilledBeforeDeleting(GcsStore):
    """A driver that ends when an object is visible and its parts are still there."""

    def _delete(self, key: str) -> None:
        raise Retry(f"{key}: the driver was killed")


def test_parts_left_behind_by_a_kill_are_deleted_by_the_next_completion(
    place: Place, store: GcsStore
) -> None:
    output = Output.model_validate(place.output)
    name, _, path = output.url.removeprefix("gs://").partition("/")
    killed = KilledBeforeDeleting(name, path, output.gcs)
    upload = uploaded(killed, "orders/1", [b"one ", b"object"])
    killed.complete(upload)
    left = (place.keys("orders/"), place.open_uploads())

    store.complete(upload)

    assert left == (["orders/1"], ["orders/1"])
    assert content(store, "orders/1") == b"one object"
    assert place.open_uploads() == []
    place.delete("orders/1")
    with pytest.raises(UploadLost):
        store.complete(upload)


def test_parts_left_behind_by_a_kill_make_no_retired_object_again(
    place: Place, store: GcsStore
) -> None:
    output = Output.model_validate(place.output)
    name, _, path = output.url.removeprefix("gs://").partition("/")
    killed = KilledBeforeDeleting(name, path, output.gcs)
    upload = uploaded(killed, "orders/1", [f"part {number}\n".encode() for number in range(40)])
    killed.complete(upload)

    store.retire(upload)

    assert (place.keys("orders/"), place.open_uploads()) == ([], [])
    for each in (killed, store):
        with pytest.raises(UploadLost):
            each.complete(upload)


def test_parts_left_behind_are_an_open_upload_that_can_be_discarded(
    place: Place, store: GcsStore
) -> None:
    upload = uploaded(store, "orders/1", [b"one ", b"object"])
    left = uploaded(store, "orders/1", [b"of a task that ran twice"])
    store.complete(upload)

    (found,) = store.open_uploads("orders/")
    store.abort(found.key, found.upload_id)

    assert found.upload_id == left.upload_id
    assert place.open_uploads() == []
    assert content(store, "orders/1") == b"one object"


def test_a_stream_keeps_to_the_object_it_was_opened_on(place: Place, store: GcsStore) -> None:
    body = b"0123456789abcdef" * (1 << 20)
    store.overwrite("orders/1", body)

    with store.open("orders/1") as stream:
        first = stream.read(16)
        store.overwrite("orders/1", b"other bytes")
        with pytest.raises(Retry, match=r"^read gs://"):
            stream.read()

    assert first == body[:16]


def test_a_bucket_that_is_not_there_is_named(place: Place) -> None:
    output = Output.model_validate({**place.output, "url": "gs://absent/parsed"})

    with pytest.raises(StoreDenied, match=r"^create gs://absent/parsed/slots/0: notFound \(404\)"):
        open_store(output).create("slots/0", b"first")


@pytest.fixture
def secret(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Callable[[str], None]:
    """Writes a Secret with a new key file, whose tokens come from this URL."""
    monkeypatch.setenv("LANDFALL_SECRETS", str(tmp_path))
    (tmp_path / "gcs").mkdir()

    def write(token_uri: str) -> None:
        key = generate_private_key(65537, 2048).private_bytes(
            Encoding.PEM, PrivateFormat.PKCS8, NoEncryption()
        )
        about = {
            "type": "service_account",
            "client_email": "lander@project.iam.gserviceaccount.com",
            "private_key": key.decode(),
            "token_uri": token_uri,
        }
        (tmp_path / "gcs" / "key.json").write_text(json.dumps(about))

    return write


def test_a_rotated_key_is_read_again(place: Place, secret: Callable[[str], None]) -> None:
    with scripted([REFUSED] * 9) as old, scripted([TOKEN]) as new:
        secret(f"{old.endpoint}/token")
        store = store_at(place, credentialsSecretRef={"name": "gcs"})
        with pytest.raises(StoreDenied, match=r"RefreshError: .*invalid_grant") as denied:
            store.create("slots/0", b"first")
        assert "PRIVATE KEY" not in str(denied.value)

        secret(f"{new.endpoint}/token")

        store.create("slots/0", b"first")
        assert store.read("slots/0") == b"first"
        assert len(new.asked) == 1


@pytest.mark.parametrize("key", ["", "{}", '{"type": "service_account", "private_key": "hush"}'])
def test_what_is_no_key_file_is_refused_and_not_quoted(
    place: Place, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, key: str
) -> None:
    monkeypatch.setenv("LANDFALL_SECRETS", str(tmp_path))
    (tmp_path / "gcs").mkdir()
    with pytest.raises(StoreDenied, match=r"secret 'gcs' lacks key\.json"):
        store_at(place, credentialsSecretRef={"name": "gcs"})
    (tmp_path / "gcs" / "key.json").write_text(key)

    with pytest.raises(StoreDenied, match=r"not the key file of a service account$"):
        store_at(place, credentialsSecretRef={"name": "gcs"})
