"""Azure Blob Storage, on a real server: what users meet first; ``make store-suite`` has more."""

import base64
from collections.abc import Callable
from datetime import UTC, datetime, timedelta
from pathlib import Path
from typing import cast

import pytest
from azure.storage.blob import ContainerSasPermissions, generate_container_sas

import landfall
from dev.servers.azure import KEY
from landfall.api.contract import ExitCode
from landfall.api.spec import Output
from landfall.errors import StoreDenied
from landfall.objects import UploadLost
from landfall.store import Store
from landfall.store.azure.store import AzureStore
from landfall.store.probe import probe
from landfall.store.urls import open_store
from landfall_audit.buckets import open_bucket
from tests.support.audit.audited_spec import for_auditor
from tests.support.audit.independent_audit import EXACT, events
from tests.support.kafka.broker import Broker
from tests.support.landing.group import Scene, land
from tests.support.places import Place
from tests.support.places import azure as azure_places
from tests.support.stores.every_store import content, uploaded
from tests.support.stores.s3 import Bucket
from tests.support.stores.source_files import check_versions

pytestmark = pytest.mark.xdist_group("azure")

WRONG = base64.b64encode(b"not the key of this account").decode()


@pytest.fixture
def place(azure: str) -> Place:
    return azure_places.place(azure)


@pytest.fixture
def secret(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Callable[[str], None]:
    """Writes the Secret's key."""
    monkeypatch.setenv("LANDFALL_SECRETS", str(tmp_path))
    (tmp_path / "azure").mkdir()

    def write(key: str) -> None:
        (tmp_path / "azure" / "AZURE_STORAGE_KEY").write_text(f"{key}\n")

    write(KEY)
    return write


def store_at(place: Place) -> AzureStore:
    store = open_store(Output.model_validate(place.output))
    assert isinstance(store, AzureStore)
    return store


def test_it_keeps_its_promises(place: Place, secret: Callable[[str], None]) -> None:
    store = store_at(place)

    probe(store)
    store.complete(uploaded(store, "orders/1", [b"one ", b"object"]))

    assert content(store, "orders/1") == place.read("orders/1") == b"one object"
    bucket = open_bucket(for_auditor(Output.model_validate(place.output)))
    assert list(bucket.visible("orders/")) == [("orders/1", 10)]
    with bucket.open("orders/1") as stream:
        assert stream.read() == b"one object"
    with pytest.raises(FileNotFoundError):
        bucket.open("orders/2")


def test_files_of_others_are_read_by_their_version(
    place: Place, secret: Callable[[str], None]
) -> None:
    check_versions(place)


def test_a_topic_lands_and_is_read(
    kafka: Broker, place: Place, secret: Callable[[str], None], tmp_path: Path
) -> None:
    scene = Scene(kafka, cast("Bucket", place))  # it has what is used of a bucket
    kafka.produce(scene.topic(), events(range(500)))

    assert land(scene.group(), None).code is ExitCode.OK

    assert scene.audit() == EXACT
    assert scene.faults() == []
    group = landfall.open(scene.file(tmp_path))
    assert group.scan(*group.topics()).rows == 500
    output = Output.model_validate(place.output)
    by_url = landfall.open(output.url, group="scene", azure=output.azure)
    assert by_url.topics() == group.topics()


def test_an_object_of_one_part_costs_two_requests(
    place: Place, secret: Callable[[str], None]
) -> None:
    store = store_at(place)

    store.complete(uploaded(store, "orders/1"), is_fresh=True)
    store.create("_landfall/slot", b"{}")

    assert store.requests == {"PutBlock": 1, "PutBlockList": 1, "PutBlob": 1}


def test_a_rotated_key_is_read_again(place: Place, secret: Callable[[str], None]) -> None:
    secret(WRONG)
    store = store_at(place)
    with pytest.raises(StoreDenied, match=r"Auth\w+Fail\w+ \(403\)") as denied:
        store.create("slots/0", b"first")
    assert WRONG not in str(denied.value)

    secret(KEY)

    store.create("slots/0", b"first")
    assert store.read("slots/0") == b"first"


def test_a_listing_with_a_rotated_key_fails_once(
    place: Place, secret: Callable[[str], None]
) -> None:
    store_at(place).create("slots/0", b"first")
    secret(WRONG)
    store = store_at(place)
    secret(KEY)

    with pytest.raises(StoreDenied, match=r"^list abfss://.*Auth\w+Fail"):
        list(store.list_after("slots/"))

    assert [found.key for found in store.list_after("slots/")] == ["slots/0"]


def test_of_two_uploads_of_a_key_one_becomes_the_object(
    place: Place, secret: Callable[[str], None]
) -> None:
    """The other one's blocks are gone then; the ledger never decides both."""
    store = store_at(place)
    first, second = (uploaded(store, "orders/1", [body], body.hex()) for body in (b"a", b"bc"))

    store.complete(second)
    place.delete("orders/1")

    with pytest.raises(UploadLost):
        store.complete(first)


def test_a_container_that_is_not_there_is_named(
    azure: str, place: Place, secret: Callable[[str], None]
) -> None:
    account = place.output["url"].partition("@")[2]
    output = {**place.output, "url": f"abfss://absent@{account}"}

    with pytest.raises(StoreDenied, match=r"^create abfss://absent@\S+: ContainerNotFound \(404\)"):
        open_store(Output.model_validate(output)).create("slots/0", b"first")


def test_a_token_is_not_sent_without_https(
    azure: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("LANDFALL_SECRETS", str(tmp_path))
    (tmp_path / "application").mkdir()
    for name in ("AZURE_TENANT_ID", "AZURE_CLIENT_ID", "AZURE_CLIENT_SECRET"):
        (tmp_path / "application" / name).write_text("00000000-0000-0000-0000-000000000000")
    access = {"endpoint": azure, "credentialsSecretRef": {"name": "application"}}
    output = Output.model_validate({"url": "abfss://logs@account/parsed", "azure": access})

    with pytest.raises(StoreDenied, match=r"is not https, which tokens need"):
        open_store(output)


def test_a_shared_access_signature_is_enough(
    place: Place, tmp_path: Path, azure: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    container = place.output["url"].partition("://")[2].partition("@")[0]
    signature = generate_container_sas(
        azure.rpartition("/")[2],
        container,
        account_key=KEY,
        permission=ContainerSasPermissions(
            read=True, create=True, write=True, list=True, delete=True
        ),
        expiry=datetime.now(UTC) + timedelta(hours=1),
    )
    monkeypatch.setenv("LANDFALL_SECRETS", str(tmp_path))
    (tmp_path / "azure").mkdir()
    (tmp_path / "azure" / "AZURE_STORAGE_SAS_TOKEN").write_text(f"?{signature}\n")
    store = store_at(place)

    probe(store)
    with pytest.raises(StoreDenied, match=r"ContainerNotFound|Auth\w+Fail") as denied:
        other_container(place).read("slots/0")
    assert "sig=" not in str(denied.value)


def other_container(place: Place) -> Store:
    """A store in a container that a signature is not for."""
    _, _, account = place.output["url"].partition("@")
    output = {**place.output, "url": f"abfss://other@{account}"}
    return open_store(Output.model_validate(output))
