"""When ``S3Store`` takes an upload for completed, whatever its server answers."""

from typing import Any

import pytest
from msgspec.structs import replace

from landfall.errors import Reason, Retry, Stalled, StoreDenied
from landfall.objects import Upload, UploadLost, multipart_etag
from tests.support.stores.scripted import HANG_UP, Answer, error
from tests.support.stores.scripted_s3 import (
    COMPLETED,
    NO_PARTS,
    OK,
    OPEN_PARTS,
    UPLOAD,
    Script,
    head,
)


@pytest.mark.parametrize(
    "answer",
    [
        COMPLETED,
        Answer(200),
        Answer(200, b"<Error><Code>InternalError</Code></Error>"),
        Answer(200, b"<CompleteMultipartUploadRes"),
        error(404, "NoSuchUpload"),
        error(400, "InvalidPart"),
        error(409, "OperationAborted"),
        error(503, "SlowDown"),
        HANG_UP,
    ],
)
class TestWhateverIsAnsweredToAComplete:
    def test_our_object_proves_it(self, script: Script, answer: Answer) -> None:
        setting = script(answer, head())

        setting.store.complete(UPLOAD)

        assert setting.server.methods == ["POST", "HEAD"]
        assert "if-none-match" not in setting.server.asked[0].headers

    def test_an_open_upload_is_to_be_retried(self, script: Script, answer: Answer) -> None:
        with pytest.raises(Retry, match="upload id-1 is not completed yet"):
            script(answer, Answer(404), OPEN_PARTS, Answer(404)).store.complete(UPLOAD)

    def test_no_upload_and_no_object_seems_lost(self, script: Script, answer: Answer) -> None:
        with pytest.raises(UploadLost):
            script(answer, Answer(404), NO_PARTS, Answer(404)).store.complete(UPLOAD)

    def test_an_object_that_comes_late_proves_it(self, script: Script, answer: Answer) -> None:
        script(answer, Answer(404), NO_PARTS, head()).store.complete(UPLOAD)

    def test_another_object_stalls(self, script: Script, answer: Answer) -> None:
        others = head(token="token-2")

        with pytest.raises(Stalled, match="another object is there: token token-2") as stalled:
            script(answer, others, NO_PARTS, others).store.complete(UPLOAD)
        assert stalled.value.reason is Reason.LEDGER_BROKEN


def test_a_refused_complete_says_so_at_once(script: Script) -> None:
    setting = script(error(403, "AccessDenied"))

    with pytest.raises(StoreDenied, match=r"^complete s3://logs/root/data/1: AccessDenied"):
        setting.store.complete(UPLOAD)
    assert setting.server.methods == ["POST"]


BEGUN = Answer(
    200,
    b"<InitiateMultipartUploadResult><UploadId>id-0</UploadId></InitiateMultipartUploadResult>",
)
TRUTHFUL = (OK, BEGUN, OK, Answer(204), NO_PARTS, Answer(204))
"""What a server answers that does not confirm the completion of an aborted upload."""
CLEAR = Answer(
    200,
    f"<CompleteMultipartUploadResult><ETag>{multipart_etag(UPLOAD.parts)}</ETag>"
    "</CompleteMultipartUploadResult>".encode(),
)


def test_a_small_object_costs_three_requests(script: Script) -> None:
    setting = script(*TRUTHFUL, BEGUN, OK, CLEAR, CLEAR)
    setting.store._confirms_truly()
    asked_before = len(setting.server.asked)

    upload_id = setting.store.begin("data/1", "token-1")
    part = setting.store.put_part("data/1", upload_id, 1, b"body")
    upload = Upload("data/1", upload_id, (replace(part, etag=UPLOAD.parts[0].etag),), "token-1")
    setting.store.complete(upload, is_fresh=True)

    assert setting.server.methods[asked_before:] == ["POST", "PUT", "POST"]


@pytest.mark.parametrize(
    ("server", "answers", "settings"),
    [
        ((*TRUTHFUL[:4], COMPLETED, Answer(204)), [CLEAR], {}),
        (TRUTHFUL, [COMPLETED], {}),
        (TRUTHFUL, [error(503, "SlowDown"), CLEAR], {"max_attempts": 2}),
        (TRUTHFUL, [NO_PARTS], {}),
    ],
    ids=["a server that lies", "another ETag", "sent twice", "no such upload"],
)
def test_an_answer_that_is_not_clear_is_checked_by_a_head(
    script: Script, server: tuple[Answer, ...], answers: list[Answer], settings: dict[str, Any]
) -> None:
    setting = script(*server, *answers, head(), **settings)

    setting.store.complete(UPLOAD, is_fresh=True)

    assert setting.server.methods[-1] == "HEAD"


def test_what_is_not_fresh_is_always_checked_by_a_head(script: Script) -> None:
    setting = script(CLEAR, head())

    setting.store.complete(UPLOAD)

    assert setting.server.methods == ["POST", "HEAD"]


def test_under_kms_an_etag_says_nothing(script: Script) -> None:
    etag = f'"{"0" * 32}-1"'
    contradicting = head(ETag=etag)
    encrypted = head(ETag=etag, x_amz_server_side_encryption="aws:kms")

    script(COMPLETED, encrypted).store.complete(UPLOAD)
    with pytest.raises(Stalled, match="another object"):
        script(COMPLETED, contradicting, NO_PARTS, contradicting).store.complete(UPLOAD)
