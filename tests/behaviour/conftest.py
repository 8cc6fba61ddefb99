"""The stores that the tests of this folder run on: memory, files, S3, S3 through a proxy, and those
that only ``make store-suite`` runs.
"""

from collections.abc import Callable, Iterator, Mapping
from pathlib import Path
from uuid import uuid4

import pytest

from landfall.api import spec
from landfall.lane.stores import with_ledger
from landfall.store import Store
from landfall.store.file import FileStore
from landfall.store.measured import StoreCalls, measured
from landfall.store.memory import MemoryStore
from landfall.store.urls import open_store
from tests.chaos.proxy import FaultProxy
from tests.support.places import save_secrets
from tests.support.places.kinds import KINDS, SECRETS
from tests.support.stores.every_store import StoreUnderTest, s3_store
from tests.support.stores.s3 import Bucket, S3Server


@pytest.fixture(scope="session")
def shared_bucket(s3: S3Server) -> Bucket:
    return s3.create_bucket()


@pytest.fixture(scope="session")
def proxied_bucket(
    shared_bucket: Bucket, tmp_path_factory: pytest.TempPathFactory
) -> Iterator[Bucket]:
    """The same bucket through the proxy of the chaos run, which injects no fault here."""
    server = shared_bucket.server
    proxy = FaultProxy(
        server.endpoint, "127.0.0.1:0", seed=0, folder=tmp_path_factory.mktemp("proxy")
    )
    yield Bucket(S3Server(proxy.endpoint, server.env), shared_bucket.name)
    assert (proxy.counts().faults, proxy.stop()) == ({}, 0)


def _memory() -> StoreUnderTest:
    memory = MemoryStore()
    return StoreUnderTest(memory, memory.delete)


def _that_discards_nothing() -> StoreUnderTest:
    memory = MemoryStore()
    memory.discards_uploads = False
    return StoreUnderTest(memory, memory.delete, lambda upload: memory.expire(upload.key))


def _with_the_ledger_elsewhere() -> StoreUnderTest:
    memory = MemoryStore()
    return StoreUnderTest(with_ledger(MemoryStore(), memory), memory.delete)


def _that_keeps_parts() -> StoreUnderTest:
    memory = MemoryStore(keeps_parts=True)
    return StoreUnderTest(memory, memory.delete)


def _measured() -> StoreUnderTest:
    memory = MemoryStore()
    return StoreUnderTest(measured(memory, ["memory"], StoreCalls()), memory.delete)


MEMORIES: Mapping[str, Callable[[], StoreUnderTest]] = {
    "memory": _memory,
    "memory, which discards no uploads": _that_discards_nothing,
    "memory, which keeps parts": _that_keeps_parts,
    "memory, the ledger elsewhere": _with_the_ledger_elsewhere,
    "memory, measured": _measured,
}


@pytest.fixture(
    params=[
        *(*MEMORIES, "file", "s3", "proxied"),
        *(pytest.param(kind, marks=pytest.mark.full) for kind in KINDS),
    ]
)
def tested(
    request: pytest.FixtureRequest, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> StoreUnderTest:
    match request.param:
        case kind if kind in MEMORIES:
            return MEMORIES[kind]()
        case "file":
            root = tmp_path / "root"
            return StoreUnderTest(FileStore(root), lambda key: (root / key).unlink())
        case kind if kind in KINDS:
            place = KINDS[kind](request.getfixturevalue(kind))
            save_secrets(tmp_path, SECRETS)
            monkeypatch.setenv("LANDFALL_SECRETS", str(tmp_path))
            store = open_store(spec.Output.model_validate(place.output))
            refused = ":" if kind == "hdfs" else ""
            return StoreUnderTest(store, place.delete, place.lose, refused)
        case _:
            bucket: Bucket = request.getfixturevalue(
                "shared_bucket" if request.param == "s3" else "proxied_bucket"
            )
            prefix = f"roots/{uuid4().hex}"
            return StoreUnderTest(
                s3_store(bucket, prefix, tmp_path, monkeypatch),
                lambda key: (
                    bucket.server.client.delete_object(Bucket=bucket.name, Key=f"{prefix}/{key}")
                    and None
                ),
            )


@pytest.fixture
def store(tested: StoreUnderTest) -> Store:
    return tested.store
