"""What ``S3Store`` makes of answers to UploadPartCopy and DeleteObject."""

import pytest

from landfall.errors import Reason, Retry, Stalled, StoreAway, StoreDenied
from landfall.objects import Part
from tests.support.stores.scripted import HANG_UP, Answer, error
from tests.support.stores.scripted_s3 import NO_PARTS, UPLOAD, Script, head

COPIED = Answer(200, b'<CopyPartResult><ETag>"abc"</ETag></CopyPartResult>')
COPY = ("copy", "id-2", 3, "data/ä 1", 10, 4)


def test_a_part_is_copied_within_the_bucket(script: Script) -> None:
    setting = script(COPIED)

    part = setting.store.put_copy(*COPY)

    assert part == Part('"abc"', 4)
    (asked,) = setting.server.asked
    assert asked.headers["x-amz-copy-source"] == "logs/root/data/%C3%A4%201"
    assert asked.headers["x-amz-copy-source-range"] == "bytes=10-13"


@pytest.mark.parametrize(
    ("answer", "raised"),
    [
        (error(404, "NoSuchKey"), FileNotFoundError),
        (error(404, "NoSuchVersion"), FileNotFoundError),
        (error(404, "NoSuchBucket"), StoreDenied),
        (error(403, "AccessDenied"), StoreDenied),
        (error(400, "InvalidArgument"), StoreDenied),
        (error(503, "SlowDown"), StoreAway),
        (Answer(200, error(500, "InternalError").body), StoreAway),
        (HANG_UP, StoreAway),
        (error(501, "NotImplemented"), Stalled),
    ],
)
def test_a_copy_that_fails(script: Script, answer: Answer, raised: type[Exception]) -> None:
    with pytest.raises(raised) as failed:
        script(answer).store.put_copy(*COPY)

    assert type(failed.value) is raised


def test_a_part_is_not_copied_into_an_aborted_upload(script: Script) -> None:
    with pytest.raises(Retry, match="upload id-2 is gone: it was aborted"):
        script(NO_PARTS).store.put_copy(*COPY)


@pytest.mark.parametrize("abort", [Answer(204), NO_PARTS])
@pytest.mark.parametrize("delete", [Answer(204), error(404, "NoSuchKey")])
def test_an_object_retires_by_three_requests(script: Script, abort: Answer, delete: Answer) -> None:
    setting = script(abort, head(), delete)

    setting.store.retire(UPLOAD)

    assert setting.server.methods == ["DELETE", "HEAD", "DELETE"]
    first, _, last = setting.server.asked
    assert ("uploadId=id-1" in first.path, "uploadId" in last.path) == (True, False)


def test_nothing_is_deleted_if_nothing_is_there(script: Script) -> None:
    setting = script(NO_PARTS, Answer(404))

    setting.store.retire(UPLOAD)

    assert setting.server.methods == ["DELETE", "HEAD"]


def test_another_object_is_not_deleted(script: Script) -> None:
    setting = script(NO_PARTS, head(token="token-2"), head(token="token-2"))

    with pytest.raises(Stalled, match="another object is there: token token-2") as stalled:
        setting.store.retire(UPLOAD)

    assert stalled.value.reason is Reason.LEDGER_BROKEN
    assert setting.server.methods == ["DELETE", "HEAD", "HEAD"]


@pytest.mark.parametrize(
    ("answers", "raised"),
    [
        ((error(503, "SlowDown"),), StoreAway),
        ((error(403, "AccessDenied"),), StoreDenied),
        ((NO_PARTS, head(), error(403, "AccessDenied")), StoreDenied),
        ((NO_PARTS, head(), error(404, "NoSuchBucket")), StoreDenied),
        ((NO_PARTS, head(), HANG_UP), StoreAway),
    ],
)
def test_a_retirement_that_fails_may_be_repeated(
    script: Script, answers: tuple[Answer, ...], raised: type[Retry]
) -> None:
    with pytest.raises(raised) as failed:
        script(*answers).store.retire(UPLOAD)

    assert type(failed.value) is raised
