"""What objects in S3 are created with, and which field a refusal names."""

import base64
import hashlib
from datetime import UTC, datetime, timedelta
from typing import Any

import pytest

from landfall.api import spec
from landfall.errors import Stalled, StoreDenied
from landfall.store.s3.options import WriteOptions
from tests.support.stores.scripted import Answer, Asked, error
from tests.support.stores.scripted_s3 import NO_PARTS, OK, UPLOAD, Script, head

BEGUN = Answer(
    200,
    b"<InitiateMultipartUploadResult><UploadId>id-1</UploadId></InitiateMultipartUploadResult>",
)
ALL: dict[str, Any] = {
    "storage_class": "STANDARD_IA",
    "tags": {"team": "data @ logs", "cost center": "a/b=c+d"},
    "acl": "bucket-owner-full-control",
    "object_lock": spec.ObjectLock(mode=spec.LockMode.GOVERNANCE, retain=timedelta(days=30)),
}
FIELDS = ("acl", "storageClass", "tags", "objectLock")
RIGHTS = (
    "s3:PutObjectAcl for output.s3.acl",
    "s3:PutObjectTagging for output.s3.tags",
    "s3:PutObjectRetention for output.s3.objectLock",
)
HEADERS = (
    "x-amz-storage-class",
    "x-amz-tagging",
    "x-amz-acl",
    "x-amz-object-lock-mode",
    "content-md5",
)


def chosen(asked: Asked) -> dict[str, str]:
    return {name: asked.headers[name] for name in HEADERS if name in asked.headers}


def md5(body: bytes) -> str:
    return base64.b64encode(hashlib.md5(body).digest()).decode()


def test_landed_objects_get_all_that_is_set(script: Script) -> None:
    setting = script(BEGUN, OK, **ALL)
    before = datetime.now(UTC)

    setting.store.begin("data/1", "token-1")
    setting.store.put_part("data/1", "id-1", 1, b"body")

    begun, part = setting.server.asked
    assert chosen(begun) == {
        "x-amz-storage-class": "STANDARD_IA",
        "x-amz-tagging": "team=data+%40+logs&cost+center=a%2Fb%3Dc%2Bd",
        "x-amz-acl": "bucket-owner-full-control",
        "x-amz-object-lock-mode": "GOVERNANCE",
    }
    until = datetime.fromisoformat(begun.headers["x-amz-object-lock-retain-until-date"])
    assert abs(until - before - timedelta(days=30)) < timedelta(minutes=1)
    assert chosen(part) == {"content-md5": md5(b"body")}


def test_the_ledger_gets_no_class_tag_or_retention(script: Script) -> None:
    setting = script(OK, OK, **ALL)

    setting.store.create("slots/0", b"slot")
    setting.store.overwrite("hints/HEAD", b"hint")

    acl = {"x-amz-acl": "bucket-owner-full-control"}
    assert [chosen(asked) for asked in setting.server.asked] == [
        {**acl, "content-md5": md5(b"slot")},
        {**acl, "content-md5": md5(b"hint")},
    ]


def test_a_bucket_with_default_retention_gets_checksums_alone(script: Script) -> None:
    setting = script(BEGUN, OK, OK, object_lock=spec.ObjectLock())

    setting.store.begin("data/1", "token-1")
    setting.store.put_part("data/1", "id-1", 1, b"body")
    setting.store.create("slots/0", b"slot")

    sent = [{}, {"content-md5": md5(b"body")}, {"content-md5": md5(b"slot")}]
    assert [chosen(asked) for asked in setting.server.asked] == sent


def test_nothing_is_sent_that_nothing_sets(script: Script) -> None:
    setting = script(OK, BEGUN, OK)

    setting.store.create("slots/0", b"slot")
    setting.store.begin("data/1", "token-1")
    setting.store.put_part("data/1", "id-1", 1, b"body")

    assert [chosen(asked) for asked in setting.server.asked] == [{}, {}, {}]


def test_what_asks_for_the_servers_manners_obeys_the_buckets_policy(script: Script) -> None:
    sse = spec.Sse(type="AES256")
    setting = script(OK, BEGUN, OK, Answer(204), NO_PARTS, Answer(204), sse=sse, **ALL)

    assert setting.store._confirms_truly()

    put, begun, *_ = setting.server.asked
    for asked in (put, begun):
        assert asked.headers["x-amz-acl"] == "bucket-owner-full-control"
        assert asked.headers["x-amz-server-side-encryption"] == "AES256"
        assert "x-amz-tagging" not in asked.headers
        assert "x-amz-object-lock-mode" not in asked.headers


def test_retention_counts_from_the_beginning_of_the_upload() -> None:
    now = datetime(2026, 11, 23, tzinfo=UTC)
    options = WriteOptions(spec.S3(**ALL))

    until = options.of_upload(now)["ObjectLockRetainUntilDate"]

    assert until == datetime(2026, 12, 23, tzinfo=UTC)


# ------------------------------------------------------------------------------ what a refusal says


@pytest.mark.parametrize(
    ("answer", "said"),
    [
        (error(400, "InvalidStorageClass"), "the request has headers for output.s3.storageClass"),
        (error(400, "InvalidTag"), "the request has headers for output.s3.tags"),
        (
            error(400, "AccessControlListNotSupported"),
            "the request has headers for output.s3.acl",
        ),
        (
            error(404, "NoSuchBucket"),
            "",
        ),
        (
            error(400, "InvalidArgument"),
            "the request has headers for " + ", ".join(f"output.s3.{name}" for name in FIELDS),
        ),
        (
            error(403, "AccessDenied"),
            f"it needs {', '.join(RIGHTS)}",
        ),
        (error(400, "ExpiredToken"), ""),
        (
            error(400, "InvalidRequest", "Bucket is missing ObjectLockConfiguration, as scripted"),
            "the request has headers for output.s3.objectLock",
        ),
    ],
)
def test_a_refused_upload_names_the_fields(script: Script, answer: Answer, said: str) -> None:
    with pytest.raises(StoreDenied) as denied:
        script(answer, **ALL).store.begin("data/1", "token-1")

    message = str(denied.value)
    assert message.startswith("begin s3://logs/root/data/1: ")
    assert message.partition("as scripted")[2] == (said and f"; {said}")


def test_a_server_that_lacks_what_a_header_asks_for_is_refused_by_field(script: Script) -> None:
    with pytest.raises(Stalled, match=r"NotImplemented.*; the request has headers for output.s3.a"):
        script(error(501, "NotImplemented"), acl="private").store.create("slots/0", b"x")


def test_a_refusal_without_any_field_names_none(script: Script) -> None:
    with pytest.raises(StoreDenied) as denied:
        script(error(403, "AccessDenied")).store.begin("data/1", "token-1")

    assert str(denied.value).endswith("as scripted")


@pytest.mark.parametrize(
    "text",
    [
        "Content-MD5 OR x-amz-checksum- HTTP header is required for Put Part requests",
        "Content-MD5 HTTP header is required for requests with Object Lock parameters",
    ],
)
def test_a_bucket_that_wants_checksums_names_the_field_that_sends_them(
    script: Script, text: str
) -> None:
    setting = script(error(400, "InvalidRequest", text), error(400, "InvalidRequest", text))
    expected = r"set output.s3.objectLock: \{\} for a bucket with Object Lock$"

    with pytest.raises(StoreDenied, match=expected):
        setting.store.create("slots/0", b"x")
    with pytest.raises(StoreDenied, match=expected):
        setting.store.put_part("data/1", "id-1", 1, b"body")


# --------------------------------------------------------------------------------- MinIO's manners


def test_minio_does_not_know_an_upload_that_it_completed(script: Script) -> None:
    # MinIO answers a repeated completion so; AWS with 200, for some time.
    setting = script(error(404, "NoSuchUpload"), head())

    setting.store.complete(UPLOAD)

    assert setting.server.methods == ["POST", "HEAD"]


def test_minio_confirms_truly(script: Script) -> None:
    denied = error(403, "AccessDenied")  # to delete the object that was written for it
    setting = script(OK, BEGUN, OK, Answer(204), error(404, "NoSuchUpload"), denied)

    assert setting.store._confirms_truly()
    assert setting.server.methods[-1] == "DELETE"


def test_an_object_that_is_locked_is_looked_at(script: Script) -> None:
    protected = error(403, "AccessDenied", "Access Denied because object protected by object lock.")
    setting = script(protected, head())

    setting.store.complete(UPLOAD)

    assert setting.server.methods == ["POST", "HEAD"]
