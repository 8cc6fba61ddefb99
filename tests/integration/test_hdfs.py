"""HDFS, on a real name node and data node; ``make store-suite`` has more."""

import os
import signal
import subprocess
import sys
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any, cast
from urllib.parse import urlsplit

import pytest
from hdfs_native import Client, WriteOptions

import landfall
from dev.servers.hdfs import HDFS
from dev.servers.server import Server, ServerKind
from landfall.api.contract import ExitCode
from landfall.api.spec import HdfsAccess, Output
from landfall.errors import Stalled, StoreAway, StoreDenied
from landfall.objects import FileChanged, UploadLost
from landfall.store import Created
from landfall.store.hdfs.client import client
from landfall.store.hdfs.store import HdfsStore, UploadOwner
from landfall.store.probe import probe
from landfall.store.urls import open_store
from landfall_audit.buckets import open_bucket
from tests.support.audit.audited_spec import for_auditor
from tests.support.audit.independent_audit import EXACT, events
from tests.support.kafka.broker import Broker
from tests.support.landing.group import Scene, land
from tests.support.places import Place
from tests.support.places import hdfs as hdfs_places
from tests.support.stores.every_store import concurrently, content, uploaded
from tests.support.stores.s3 import Bucket
from tests.support.stores.source_files import check_versions, files_of
from tests.support.waiting import PATIENCE, wait_for

pytestmark = pytest.mark.xdist_group("hdfs")

OWNERS = ".landfall-staging/owners"


@pytest.fixture
def place(hdfs: str) -> Place:
    return hdfs_places.place(hdfs)


@pytest.fixture
def store(place: Place) -> HdfsStore:
    return store_at(place)


def store_at(place: Place, **access: Any) -> HdfsStore:
    store = open_store(Output.model_validate({**place.output, "hdfs": access}))
    assert isinstance(store, HdfsStore)
    return store


def client_of(place: Place) -> tuple[Client, str]:
    """A client, and the path of the output root."""
    url = urlsplit(place.output["url"])
    return Client(f"hdfs://{url.netloc}"), url.path


@pytest.fixture
def no_user() -> Iterator[None]:
    """No user remains set for the other tests of this process."""
    yield
    os.environ.pop("HADOOP_USER_NAME", None)


def test_it_keeps_its_promises(place: Place, store: HdfsStore) -> None:
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


LEAVES_REQUESTS = """
import asyncio, faulthandler, os, sys
faulthandler.dump_traceback_later(200, exit=True)
from landfall.api.spec import HdfsAccess
from landfall.store.hdfs import client, requests
from landfall.store.hdfs.files import HdfsFiles
for _ in range(200):
    HdfsFiles(sys.argv[1], "landfall", HdfsAccess()).find("a")
async def ask():
    await client.client(sys.argv[1], HdfsAccess()).get_file_info("/landfall/a")
for _ in range(20):
    asyncio.run_coroutine_threadsafe(ask(), requests._loop(os.getpid()))
"""


@pytest.mark.full
def test_a_process_ends_while_requests_have_no_answer(hdfs: str) -> None:
    """Its client must neither hang when a store is dropped, nor be in Python at the end."""
    argv = [sys.executable, "-c", LEAVES_REQUESTS, urlsplit(hdfs).netloc]

    ended = subprocess.run(argv, check=False, timeout=PATIENCE, capture_output=True, text=True)

    assert ended.returncode == 0, ended.stderr


def test_a_client_is_kept_for_all_that_need_the_same(hdfs: str, no_user: None) -> None:
    authority = urlsplit(hdfs).netloc

    made = client(authority, HdfsAccess())

    assert client(authority, HdfsAccess()) is made
    assert client(authority, HdfsAccess(read_timeout="7s")) is not made
    assert client(authority, HdfsAccess(user="kim")) is not made


def test_files_of_others_are_read_by_their_version(place: Place) -> None:
    check_versions(place)


def test_a_topic_lands_and_is_read(kafka: Broker, place: Place, tmp_path: Path) -> None:
    scene = Scene(kafka, cast("Bucket", place))  # it has what is used of a bucket
    kafka.produce(scene.topic(), events(range(500)))

    assert land(scene.group(), None).code is ExitCode.OK

    assert scene.audit() == EXACT
    assert scene.faults() == []
    group = landfall.open(scene.file(tmp_path))
    assert group.scan(*group.topics()).rows == 500
    by_url = landfall.open(place.output["url"], group="scene")
    assert by_url.topics() == group.topics()


def test_what_objects_and_slots_cost(store: HdfsStore) -> None:
    def calls(run: Callable[[], Any]) -> int:
        before = store.requests.count
        run()
        return store.requests.count - before

    store.create("slots/0", b"{}")
    store.begin("orders/0", "token")  # it looks for abandoned files once

    assert calls(lambda: store.create("slots/1", b"{}")) == 7
    assert calls(lambda: store.read("slots/1")) == 4
    assert calls(lambda: store.complete(uploaded(store, "orders/1"))) == 17
    of_two, of_three = (
        calls(lambda n=n: store.complete(uploaded(store, f"orders/{n}", [b"part"] * n)))  # type: ignore[misc]
        for n in (2, 3)
    )
    assert (of_two, of_three) == (14 + 2 * 9, 14 + 3 * 9)


def test_a_name_that_hdfs_does_not_take_is_refused(store: HdfsStore) -> None:
    for key in ("orders/dt=05:00/1", f"orders/{'x' * 256}", f"orders/{'ä' * 128}"):
        with pytest.raises(StoreDenied, match=r"no name with a colon, or of more than 255 bytes"):
            store.begin(key, "token")


def test_a_user_without_rights_is_denied(place: Place, no_user: None) -> None:
    store = store_at(place, user="somebody")

    with pytest.raises(StoreDenied, match=r"^create hdfs://\S+: .*AccessControlException") as found:
        store.create("slots/0", b"first")

    assert "\n" not in str(found.value)
    assert "FSPermissionChecker" not in str(found.value)


def test_a_secret_that_is_not_there_is_named(
    place: Place, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    secret = {"credentialsSecretRef": {"name": "hadoop"}}
    with pytest.raises(StoreDenied, match=r"no secret 'hadoop'"):
        store_at(place, **secret)
    monkeypatch.setenv("LANDFALL_SECRETS", str(tmp_path))
    (tmp_path / "hadoop").mkdir()
    with pytest.raises(StoreDenied, match=r"there is no \S+/hadoop/keytab"):
        store_at(place, **secret, principal="landfall@EXAMPLE.COM")


def test_files_that_may_not_be_read_are_denied(place: Place, no_user: None) -> None:
    place.write("a", b"x")
    client, root = client_of(place)
    client.set_permission(root, 0o700)
    source = files_of(place, hdfs={"user": "somebody"})

    with pytest.raises(StoreDenied, match=r"^list hdfs://\S+: .*AccessControl.*; files are read"):
        list(source.files())


def test_a_name_service_comes_from_the_files_of_the_secret(
    place: Place, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    url = urlsplit(place.output["url"])
    (tmp_path / "hadoop").mkdir()
    properties = {
        "dfs.ha.namenodes.logs": "first,second",
        "dfs.namenode.rpc-address.logs.first": "127.0.0.1:1",
        "dfs.namenode.rpc-address.logs.second": url.netloc,
    }
    lines = "".join(
        f"<property><name>{name}</name><value>{value}</value></property>"
        for name, value in properties.items()
    )
    (tmp_path / "hadoop" / "hdfs-site.xml").write_text(f"<configuration>{lines}</configuration>")
    (tmp_path / "hadoop" / "core-site.xml").write_text("<configuration></configuration>")
    monkeypatch.setenv("LANDFALL_SECRETS", str(tmp_path))
    output = {"url": f"hdfs://logs{url.path}", "hdfs": {"credentialsSecretRef": {"name": "hadoop"}}}

    store = open_store(Output.model_validate(output))

    assert store.create("slots/0", b"first") is Created.WON
    assert place.read("slots/0") == b"first"
    bucket = open_bucket(for_auditor(Output.model_validate(output)))
    assert list(bucket.visible()) == [("slots/0", 5)]


def test_a_claim_of_a_lost_upload_is_taken_over(place: Place, store: HdfsStore) -> None:
    """A driver may be killed between the claim and the rename, and its upload discarded."""
    lost, made = (uploaded(store, "orders/1", [body], body.hex()) for body in (b"lost", b"made"))
    client, root = client_of(place)
    store.complete(lost)
    place.delete("orders/1")  # as if it had never been renamed

    concurrently(lambda: store.complete(made), lambda: store_at(place).complete(made))

    assert content(store, "orders/1") == b"made"
    (claim,) = client.list_status(f"{root}/{OWNERS}/orders/1")
    assert made.upload_id in claim.path
    with pytest.raises(Stalled, match="orders/1"):
        store.complete(lost)


def test_two_drivers_take_over_a_claim_for_the_same_upload(place: Place, store: HdfsStore) -> None:
    """The slower one finds its own claim there, and goes on."""
    lost, made = (uploaded(store, "orders/1", [body], body.hex()) for body in (b"lost", b"made"))
    store.complete(lost)
    place.delete("orders/1")
    slow, quick = (store_at(place)._owners for _ in range(2))

    def taken_over_meanwhile(_: str) -> bool:
        quick.claim(
            "orders/1", UploadOwner.of(made), is_open=lambda _: False, is_visible=lambda: False
        )
        return False

    slow.claim(
        "orders/1", UploadOwner.of(made), is_open=taken_over_meanwhile, is_visible=lambda: False
    )

    assert slow.of("orders/1") == UploadOwner.of(made)
    store.complete(made)
    assert content(store, "orders/1") == b"made"


def test_a_claim_of_an_open_upload_stalls(place: Place, store: HdfsStore) -> None:
    first, second = (uploaded(store, "orders/1", [body], body.hex()) for body in (b"a", b"bc"))
    client, root = client_of(place)
    store.complete(first)
    place.delete("orders/1")
    client.mkdirs(f"{root}/.landfall-staging/uploads/{first.upload_id}", create_parent=True)

    with pytest.raises(Stalled, match=f"claimed by upload {first.upload_id}"):
        store.complete(second)

    assert place.keys("orders/") == []


def test_an_upload_that_is_gone_is_lost(place: Place, store: HdfsStore) -> None:
    upload = uploaded(store, "orders/1", [b"one ", b"object"])
    place.lose(upload)

    with pytest.raises(UploadLost):
        store.complete(upload)

    assert (place.keys(), place.open_uploads()) == ([], [])


@pytest.mark.full
def test_a_file_that_is_being_written_is_another_version_once_it_is_closed(place: Place) -> None:
    client, root = client_of(place)
    source = files_of(place)
    writing = client.create(f"{root}/a", WriteOptions(block_size=1 << 20))
    (empty,) = source.files()
    writing.write(b"x" * (5 << 19))
    wait_for(lambda: [file.size for file in source.files()] == [2 << 20], "two blocks are full")
    (begun,) = source.files()
    assert (empty.size, begun.modified) == (0, empty.modified)  # so settle cannot tell

    assert source.read(begun, 0, 2 << 20) == b"x" * (2 << 20)
    writing.close()

    (ended,) = source.files()
    assert ended.size == 5 << 19
    with pytest.raises(FileChanged):
        source.read(begun, 0, 1)


@pytest.mark.full
def test_a_name_node_that_answers_nothing_is_away(
    own_server: Callable[[ServerKind], Server],
) -> None:
    status = own_server(HDFS).up()
    assert status.pid
    assert status.address
    place = hdfs_places.place(status.address)
    store = store_at(place, readTimeout="2s", maxAttempts=2)
    store.create("slots/0", b"first")
    os.kill(status.pid, signal.SIGSTOP)
    try:
        with pytest.raises(StoreAway, match=r"^create hdfs://\S+: no answer within 2 s"):
            store.create("slots/1", b"second")
    finally:
        os.kill(status.pid, signal.SIGCONT)

    assert store.create("slots/1", b"again") is Created.WON
    assert store.read("slots/1") == b"again"
