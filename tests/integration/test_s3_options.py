"""What landed objects and the ledger are created with, on a real server: tags, ACL, Object Lock.

The server is versitygw with versions, as AWS requires for Object Lock. It accepts storage classes
and ignores them.
"""

from collections.abc import Callable
from dataclasses import replace
from datetime import UTC, datetime, timedelta
from pathlib import Path
from uuid import uuid4

import pytest
from botocore.exceptions import ClientError

from dev.servers import s3 as dev_s3
from dev.servers.s3 import S3
from dev.servers.server import Server, ServerKind
from landfall.api import spec
from landfall.errors import StoreDenied
from landfall.store import Created
from landfall.store.probe import probe
from landfall.store.s3.store import S3Store
from tests.support.stores.every_store import uploaded
from tests.support.stores.s3 import Bucket, S3Server

DAY = timedelta(days=1)


def _command(
    programs: Path, home: Path, host: str, ports: tuple[int, ...]
) -> tuple[list[str], str]:
    argv, data = S3.command(programs, home, host, ports)
    versions = home / "versions"
    versions.mkdir(exist_ok=True)
    return [*argv[:-1], "--versioning-dir", str(versions), argv[-1]], data


S3_WITH_VERSIONS: ServerKind = replace(S3, existing="LANDFALL_S3_WITH_VERSIONS", command=_command)


@pytest.fixture
def locked(own_server: Callable[[ServerKind], Server], monkeypatch: pytest.MonkeyPatch) -> Bucket:
    """A bucket with Object Lock, in which versions are retained for a day unless said otherwise."""
    endpoint = own_server(S3_WITH_VERSIONS).up().address
    assert endpoint
    server = S3Server(endpoint, dev_s3._env(endpoint))
    for name, value in server.env.items():
        monkeypatch.setenv(name, value)
    bucket = Bucket(server, "locked")
    server.client.create_bucket(Bucket=bucket.name, ObjectLockEnabledForBucket=True)
    default = {"DefaultRetention": {"Mode": "GOVERNANCE", "Days": 1}}
    server.client.put_object_lock_configuration(
        Bucket=bucket.name,
        ObjectLockConfiguration={"ObjectLockEnabled": "Enabled", "Rule": default},  # type: ignore[typeddict-item]  # a literal dict
    )
    return bucket


def store_in(bucket: Bucket, **settings: object) -> S3Store:
    s3 = {"endpoint": bucket.server.endpoint, "pathStyle": True, "maxAttempts": 1, **settings}
    return S3Store(bucket.name, "root", spec.S3.model_validate(s3))


def test_a_group_lands_in_a_bucket_with_object_lock(locked: Bucket) -> None:
    lock = {"mode": "Compliance", "retain": "30d"}
    store = store_in(
        locked,
        tags={"team": "logs", "cost center": "a/b"},
        acl="bucket-owner-full-control",
        storageClass="STANDARD_IA",
        objectLock=lock,
    )
    client, at = locked.server.client, {"Bucket": locked.name}

    probe(store)
    upload = uploaded(store, "data/1")
    store.complete(upload, is_fresh=True)
    store.complete(upload)
    assert store.create("_landfall/g/0/1", b"slot") is Created.WON
    store.overwrite("_landfall/g/0/HEAD", b"first")
    store.overwrite("_landfall/g/0/HEAD", b"second")
    store.delete_slots(["_landfall/g/0/1"])

    assert store.read("_landfall/g/0/1") is None
    assert store.read("_landfall/g/0/HEAD") == b"second"
    tags = client.get_object_tagging(**at, Key="root/data/1")["TagSet"]
    assert {tag["Key"]: tag["Value"] for tag in tags} == {"team": "logs", "cost center": "a/b"}
    retained = client.get_object_retention(**at, Key="root/data/1")["Retention"]
    assert retained["Mode"] == "COMPLIANCE"
    assert abs(retained["RetainUntilDate"] - datetime.now(UTC) - 30 * DAY) < timedelta(minutes=5)
    with pytest.raises(ClientError, match="NoSuchObjectLockConfiguration"):
        client.get_object_retention(**at, Key="root/_landfall/g/0/HEAD")
    assert client.get_object_tagging(**at, Key="root/_landfall/g/0/HEAD")["TagSet"] == []


def test_a_lock_without_versions_keeps_the_object_that_is_there(
    s3: S3Server, monkeypatch: pytest.MonkeyPatch
) -> None:
    # Such a server refuses a repeated completion, because it would replace a locked object.
    for name, value in s3.env.items():
        monkeypatch.setenv(name, value)
    bucket = Bucket(s3, f"locked-{uuid4().hex}")
    s3.client.create_bucket(Bucket=bucket.name, ObjectLockEnabledForBucket=True)
    store = store_in(bucket, objectLock={"mode": "Governance", "retain": "1d"})

    probe(store)


def test_a_lock_in_a_bucket_without_names_the_field(
    s3: S3Server, monkeypatch: pytest.MonkeyPatch
) -> None:
    for name, value in s3.env.items():
        monkeypatch.setenv(name, value)
    store = store_in(s3.create_bucket(), objectLock={"mode": "Governance", "retain": "1d"})

    with pytest.raises(StoreDenied, match=r"; the request has headers for output.s3.objectLock$"):
        store.begin("data/1", "token-1")
