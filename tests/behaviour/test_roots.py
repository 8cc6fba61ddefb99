"""A store at the root of a bucket, the probe, and damaged requests."""

from pathlib import Path
from typing import Any

import pytest

from landfall.errors import Retry
from landfall.store import Store
from landfall.store.probe import probe
from landfall.store.s3.store import S3Store
from tests.support.stores.every_store import s3_store, uploaded
from tests.support.stores.s3 import Bucket


@pytest.fixture
def whole_bucket(bucket: Bucket, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> S3Store:
    return s3_store(bucket, "", tmp_path, monkeypatch)


def test_a_whole_bucket_can_be_the_root(whole_bucket: S3Store, bucket: Bucket) -> None:
    whole_bucket.create("slots/0", b"x")
    whole_bucket.complete(uploaded(whole_bucket, "data/1"))

    assert (
        bucket.keys()
        == [found.key for found in whole_bucket.list_after("")]
        == ["data/1", "slots/0"]
    )


def test_every_store_passes_the_probe(store: Store) -> None:
    probe(store)

    assert list(store.list_after("")) == []  # not even its own objects
    assert list(store.open_uploads("")) == []


def test_bytes_damaged_on_the_way_are_rejected(whole_bucket: S3Store) -> None:
    upload_id = whole_bucket.begin("data/1", "token-1")

    def damage(request: Any, **_: Any) -> None:
        request.body = (
            b"B" + request.body[1:]
        )  # the same length, but not the bytes that were signed

    whole_bucket._client.meta.events.register("before-send.s3.UploadPart", damage)

    with pytest.raises(Retry, match="XAmzContentSHA256Mismatch"):
        whole_bucket.put_part("data/1", upload_id, 1, b"body")
