"""What S3Store makes of a server's answers, however odd. The server here is scripted; the real one
is in behaviour/.
"""

import hashlib
import re
from collections import Counter
from datetime import timedelta

import pytest

from landfall.api import spec
from landfall.errors import Reason, Retry, Stalled, StoreAway, StoreDenied, cause
from landfall.network import NO_TLS
from landfall.objects import Part
from landfall.store import Created
from landfall.store.s3.store import S3Store
from tests.support.stores.scripted import HANG_UP, Answer, error, scripted
from tests.support.stores.scripted_s3 import OK, Script, head

# ------------------------------------------------------------------------------------------- errors


@pytest.mark.parametrize(
    "answer",
    [
        error(403, "AccessDenied"),
        error(403, "InvalidAccessKeyId"),
        error(403, "SignatureDoesNotMatch"),
        error(400, "InvalidToken"),
        error(400, "ExpiredToken"),
        error(400, "InvalidRequest"),
    ],
)
def test_a_refusal_is_said_and_may_pass(script: Script, answer: Answer) -> None:
    with pytest.raises(
        StoreDenied, match=r"^begin s3://logs/root/data/1: \w+ \(\d+\): as scripted$"
    ) as denied:
        script(answer).store.begin("data/1", "token-1")

    assert cause(denied.value, "") == Reason.STORE_DENIED


def test_a_bucket_that_does_not_exist_is_named(script: Script) -> None:
    with pytest.raises(StoreDenied) as denied:
        script(error(404, "NoSuchBucket")).store.begin("data/1", "token-1")

    assert str(denied.value) == (
        "begin s3://logs/root/data/1: NoSuchBucket (404): the bucket logs does not exist"
    )


@pytest.mark.parametrize(
    "answer",
    [
        error(503, "SlowDown"),
        error(400, "KMSThrottling"),
        error(400, "ThrottlingException"),
        error(400, "KMS.ThrottlingException"),
        error(403, "RequestLimitExceeded"),
        error(400, "LimitExceededException"),
    ],
)
def test_throttling_is_no_refusal(script: Script, answer: Answer) -> None:
    with pytest.raises(StoreAway) as away:
        script(answer).store.begin("data/1", "token-1")

    assert cause(away.value, "") == "StoreUnavailable"


def test_a_store_that_lacks_an_operation_is_unsafe(script: Script) -> None:
    with pytest.raises(Stalled) as stalled:
        script(error(501, "NotImplemented")).store.begin("data/1", "token-1")

    assert stalled.value.reason is Reason.STORE_UNSAFE


@pytest.mark.parametrize(
    "answer",
    [
        error(503, "SlowDown"),
        error(500, "InternalError"),
        error(429, "TooManyRequests"),
        error(400, "RequestTimeout"),
        error(403, "RequestTimeTooSkewed"),
        Answer(502, b"<html>a proxy</html>"),
        HANG_UP,
    ],
)
def test_what_passes_is_to_be_retried(script: Script, answer: Answer) -> None:
    with pytest.raises(Retry, match=r"^begin s3://logs/root/data/1: "):
        script(answer).store.begin("data/1", "token-1")


@pytest.mark.parametrize(
    ("answers", "raised", "said"),
    [
        ([Answer(403), error(403, "RequestTimeTooSkewed")], Retry, "RequestTimeTooSkewed"),
        # at 400 boto3 asks the bucket first whether its region is another
        ([Answer(400), Answer(400), error(400, "ExpiredToken")], Retry, "ExpiredToken"),
        ([Answer(403), error(403, "AccessDenied")], StoreDenied, "AccessDenied"),
        ([Answer(403), Answer(200, b"body")], Retry, "HEAD was rejected, but GET was not"),
        ([Answer(403), error(404, "NoSuchKey")], Retry, "HEAD was rejected, but GET was not"),
    ],
)
def test_what_a_refused_head_means_is_asked_by_a_get(
    script: Script, answers: list[Answer], raised: type[Exception], said: str
) -> None:
    """Its answer has no body, hence no code."""
    with pytest.raises(raised, match=rf"^stat s3://logs/root/data/1: {said}"):
        script(*answers).store.stat("data/1")


def test_nobody_at_the_address_is_to_be_retried(keys: None) -> None:
    with scripted(()) as server:
        gone = spec.S3(endpoint=server.endpoint, path_style=True, max_attempts=1)
    store = S3Store("logs", "", gone)

    address = re.escape(server.endpoint.removeprefix("http://"))
    with pytest.raises(Retry, match=f"^open s3://logs/slots/0: {address}: connection refused$"):
        store.read("slots/0")


@pytest.mark.parametrize(
    ("endpoint", "proxy", "why"),
    [
        ("http://nosuch.invalid:9000", "", "nosuch.invalid:9000: no such host (…)"),
        ("https://PLAIN", "", f"PLAIN: {NO_TLS}"),
        ("http://h:1", "http://kim:secret@127.0.0.1:9", "proxy 127.0.0.1:9: connection refused"),
    ],
)
def test_a_server_that_is_not_reached_is_named_with_the_cause(
    keys: None, monkeypatch: pytest.MonkeyPatch, endpoint: str, proxy: str, why: str
) -> None:
    """In every command, for every command reads by the same store."""
    monkeypatch.setenv("http_proxy", proxy)
    with scripted([Answer(400)] * 3) as server:
        plain = server.endpoint.removeprefix("http://")
        options = spec.S3(endpoint=endpoint.replace("PLAIN", plain), path_style=True)
        store = S3Store("logs", "", options.model_copy(update={"max_attempts": 1}))

        with pytest.raises(StoreAway) as away:
            store.read("slots/0")

    said = re.sub(r"no such host \(.+\)", "no such host (…)", str(away.value))
    assert said == f"open s3://logs/slots/0: {why.replace('PLAIN', plain)}"


def test_throttling_is_waited_out_and_every_attempt_is_counted(script: Script) -> None:
    setting = script(error(503, "SlowDown"), Answer(200, b"value"), max_attempts=2)

    assert setting.store.read("slots/0") == b"value"
    assert setting.store.requests == Counter(GetObject=2)


def test_attempts_end(script: Script) -> None:
    setting = script(*[error(503, "SlowDown")] * 3, max_attempts=2)

    with pytest.raises(Retry, match="SlowDown"):
        setting.store.read("slots/0")
    assert setting.server.methods == ["GET", "GET"]


def test_no_message_holds_a_secret(script: Script) -> None:
    with pytest.raises(StoreDenied) as denied:
        script(error(403, "SignatureDoesNotMatch")).store.read("slots/0")

    assert "hidden" not in str(denied.value)


# -------------------------------------------------------------------------------------------- slots


def test_a_create_is_conditional(script: Script) -> None:
    setting = script(OK)

    assert setting.store.create("slots/0", b"x") is Created.WON
    assert [asked.headers["if-none-match"] for asked in setting.server.asked] == ["*"]


def test_a_create_that_meets_its_own_repetition_is_taken(script: Script) -> None:
    """The first answer is lost, boto3 asks again, and the store refuses: the key is ours, but only
    reading shows it.
    """
    setting = script(HANG_UP, error(412, "PreconditionFailed"), max_attempts=2)

    assert setting.store.create("slots/0", b"x") is Created.TAKEN


@pytest.mark.parametrize(
    ("last", "answer"), [(OK, Created.WON), (error(412, "PreconditionFailed"), Created.TAKEN)]
)
def test_a_conflict_is_asked_again(script: Script, last: Answer, answer: Created) -> None:
    setting = script(*[error(409, "ConditionalRequestConflict")] * 2, last)

    assert setting.store.create("slots/0", b"x") is answer
    assert setting.server.methods == ["PUT", "PUT", "PUT"]


def test_after_many_conflicts_what_is_there_decides(script: Script) -> None:
    conflicts = [error(409, "ConditionalRequestConflict")] * 5

    assert script(*conflicts, head()).store.create("slots/0", b"x") is Created.TAKEN
    with pytest.raises(Retry, match="409 to every attempt, but no object is there"):
        script(*conflicts, Answer(404)).store.create("slots/0", b"x")


@pytest.mark.parametrize("answer", [error(503, "SlowDown"), error(500, "InternalError"), HANG_UP])
def test_a_create_without_an_answer_is_never_won(script: Script, answer: Answer) -> None:
    with pytest.raises(Retry):
        script(answer).store.create("slots/0", b"x")


# ------------------------------------------------------------------------------------------ objects


def test_a_body_cut_off_is_to_be_retried(script: Script) -> None:
    setting = script(Answer(200, b"x" * 100, cut=50))

    with (
        setting.store.open("data/1") as stream,
        pytest.raises(Retry, match=r"^read s3://logs/root/data/1: "),
    ):
        stream.read()


def test_a_part_is_sent_signed_in_one_go(script: Script) -> None:
    setting = script(OK)

    assert setting.store.put_part("data/1", "id-1", 1, b"body") == Part('"x"', 4)
    headers = setting.server.asked[0].headers
    assert headers["x-amz-content-sha256"] == hashlib.sha256(b"body").hexdigest()
    assert headers.keys().isdisjoint(
        {"expect", "x-amz-checksum-crc32", "x-amz-sdk-checksum-algorithm", "content-md5"}
    )


def test_a_part_that_is_tried_again_is_sent_whole_again(script: Script) -> None:
    setting = script(error(503, "SlowDown"), OK, max_attempts=2)

    setting.store.put_part("data/1", "id-1", 1, b"body")

    assert [asked.body for asked in setting.server.asked] == [b"body", b"body"]


def test_a_part_of_an_upload_that_is_gone_is_to_be_retried(script: Script) -> None:
    with pytest.raises(Retry, match="upload id-1 is gone: it was aborted"):
        script(error(404, "NoSuchUpload")).store.put_part("data/1", "id-1", 1, b"body")


def test_encryption_is_asked_for_whatever_is_made(script: Script) -> None:
    begun = Answer(
        200,
        b"<InitiateMultipartUploadResult><UploadId>id-1</UploadId></InitiateMultipartUploadResult>",
    )
    sse = spec.Sse(type="aws:kms", kms_key_id="key-1")
    setting = script(OK, OK, begun, sse=sse)

    setting.store.create("slots/0", b"x")
    setting.store.overwrite("hints/HEAD", b"x")
    setting.store.begin("data/1", "token-1")

    asked = [
        (
            a.headers["x-amz-server-side-encryption"],
            a.headers["x-amz-server-side-encryption-aws-kms-key-id"],
        )
        for a in setting.server.asked
    ]
    assert asked == [("aws:kms", "key-1")] * 3


RULES = Answer(
    200,
    b"<LifecycleConfiguration><Rule><Status>Enabled</Status><Filter><Prefix>root/</Prefix></Filter>"
    b"<AbortIncompleteMultipartUpload><DaysAfterInitiation>2</DaysAfterInitiation>"
    b"</AbortIncompleteMultipartUpload></Rule></LifecycleConfiguration>",
)


@pytest.mark.parametrize(
    ("answer", "days"),
    [
        (RULES, 2),
        (error(403, "AccessDenied"), None),
        (error(404, "NoSuchLifecycleConfiguration"), None),
        (error(501, "NotImplemented"), None),
        (HANG_UP, None),
    ],
)
def test_lifecycle_rules_are_read_where_that_is_allowed(
    script: Script, answer: Answer, days: int | None
) -> None:
    found = script(answer).store.upload_lifetime()

    assert found == (None if days is None else timedelta(days=days))
