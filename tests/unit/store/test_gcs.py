"""What GcsStore makes of a server's answers, however odd. The server here is scripted; the real one
is in behaviour/.
"""

import hashlib
import json
from collections.abc import Callable, Iterator
from contextlib import ExitStack
from typing import Any

import pytest

from landfall.api import spec
from landfall.errors import Reason, Retry, Stalled, StoreAway, StoreDenied
from landfall.objects import Part, Upload, UploadLost
from landfall.store import Created
from landfall.store.gcs.store import ETAG, TOKEN, GcsStore
from tests.support.stores.scripted import HANG_UP, Answer, Scripted, scripted

UPLOAD = Upload("data/1", "0" * 32, (Part(hashlib.md5(b"body").hexdigest(), 4),), "token-1")
Script = Callable[..., tuple[GcsStore, Scripted]]


def error(status: int, reason: str, message: str = "as scripted") -> Answer:
    """An error as Google's JSON API sends it."""
    errors = [{"domain": "global", "reason": reason, "message": message}]
    return resource(error={"code": status, "message": message, "errors": errors}, status=status)


def resource(status: int = 200, **fields: Any) -> Answer:
    return Answer(status, json.dumps(fields).encode(), {"Content-Type": "application/json"})


def found(token: str = "token-1", size: int = 4) -> Answer:
    return resource(name="root/data/1", size=str(size), generation="7", metadata={TOKEN: token})


NO_OBJECT = error(404, "notFound", "No such object: logs/root/data/1")
NO_BUCKET = error(404, "notFound", "The specified bucket does not exist.")
NO_PARTS = resource(kind="storage#objects")
DONE = Answer(204)


@pytest.fixture
def script() -> Iterator[Script]:
    """Makes stores without repeated attempts, each with a server that sends these answers."""
    with ExitStack() as servers:

        def make(*answers: Answer, attempts: int = 1) -> tuple[GcsStore, Scripted]:
            server = servers.enter_context(scripted(answers))
            settings = spec.Gcs(endpoint=server.endpoint, max_attempts=attempts)
            return GcsStore("logs", "root", settings), server

        yield make


@pytest.mark.parametrize(
    "answer",
    [
        error(403, "forbidden"),
        error(403, "accountDisabled"),
        error(403, "retentionPolicyNotMet"),
        error(400, "invalid"),
        NO_BUCKET,
    ],
)
def test_a_refusal_names_the_request_and_googles_reason(script: Script, answer: Answer) -> None:
    store, _ = script(answer)

    with pytest.raises(StoreDenied, match=r"^create gs://logs/root/slots/0: \w+ \(4\d\d\)$"):
        store.create("slots/0", b"x")


def test_a_server_that_wants_credentials_refuses(script: Script) -> None:
    with pytest.raises(StoreDenied, match=r"slots/0: InvalidOperation: Anonymous credentials"):
        script(error(401, "authError"))[0].create("slots/0", b"x")


@pytest.mark.parametrize(
    "answer",
    [
        error(429, "rateLimitExceeded"),
        error(403, "rateLimitExceeded"),
        error(403, "userRateLimitExceeded"),
        error(408, "requestTimeout"),
        error(503, "backendError"),
        Answer(502, b"<html>a proxy</html>"),
        HANG_UP,
    ],
)
def test_what_passes_is_to_be_retried(script: Script, answer: Answer) -> None:
    with pytest.raises(StoreAway, match=r"^create gs://logs/root/slots/0: \w+"):
        script(answer)[0].create("slots/0", b"x")
    with pytest.raises(StoreAway, match=r"^stat gs://logs/root/data/1: \w+"):
        script(answer)[0].stat("data/1")
    with pytest.raises(StoreAway, match=r"^read gs://logs/root/slots/0: \w+"):
        script(answer)[0].read("slots/0")


def test_a_store_that_lacks_an_operation_is_unsafe(script: Script) -> None:
    with pytest.raises(Stalled) as stalled:
        script(error(501, "notImplemented"))[0].complete(UPLOAD)

    assert stalled.value.reason is Reason.STORE_UNSAFE


def test_a_create_has_the_condition_and_the_checksum(script: Script) -> None:
    store, server = script(resource(name="root/slots/0"))

    assert store.create("slots/0", b"body") is Created.WON

    (asked,) = server.asked
    assert "ifGenerationMatch=0" in asked.path
    assert b'"crc32c": ' in asked.body


def test_a_create_whose_answer_was_lost_is_taken(script: Script) -> None:
    store, server = script(HANG_UP, error(412, "conditionNotMet"), attempts=2)

    assert store.create("slots/0", b"body") is Created.TAKEN
    assert len(server.asked) == 2


def test_attempts_are_limited(script: Script) -> None:
    store, server = script(*[error(503, "backendError")] * 9, attempts=2)

    with pytest.raises(StoreAway, match=r"backendError \(503\)$"):
        store.stat("data/1")

    assert len(server.asked) == store.requests["objects.get"] == 2


def test_an_absent_object_is_none_but_not_in_an_absent_bucket(script: Script) -> None:
    assert script(NO_OBJECT)[0].stat("data/1") is None
    for call in (GcsStore.stat, GcsStore.read):
        with pytest.raises(StoreDenied, match=r"notFound|NotFound"):
            call(script(NO_BUCKET)[0], "data/1")


def test_a_fresh_completion_is_believed_and_deletes_the_part(script: Script) -> None:
    store, server = script(found(), DONE)

    store.complete(UPLOAD, is_fresh=True)

    compose, delete = server.asked
    assert "/compose?ifGenerationMatch=0" in compose.path
    assert compose.json["destination"]["metadata"].keys() == {TOKEN, ETAG}
    assert (delete.method, "_parts" in delete.path) == ("DELETE", True)


def test_a_completion_that_found_an_object_looks_whose_it_is(script: Script) -> None:
    conflict = error(412, "conditionNotMet")

    script(conflict, found(), DONE)[0].complete(UPLOAD, is_fresh=True)

    with pytest.raises(Stalled, match="another object is there: token other"):
        script(conflict, found("other"), NO_PARTS, found("other"))[0].complete(UPLOAD)


def test_an_upload_without_parts_and_object_is_lost(script: Script) -> None:
    with pytest.raises(UploadLost):
        script(NO_OBJECT, NO_OBJECT, NO_PARTS, NO_OBJECT)[0].complete(UPLOAD)


def test_an_upload_in_an_absent_bucket_is_not_lost(script: Script) -> None:
    store, _ = script(NO_OBJECT, NO_OBJECT, NO_BUCKET)

    with pytest.raises(StoreDenied, match=r"^list gs://logs/root/_landfall/_parts/.*notFound"):
        store.complete(UPLOAD)


def test_parts_that_cannot_be_deleted_do_not_undo_a_completion(script: Script) -> None:
    store, server = script(found(), error(403, "forbidden"))

    store.complete(UPLOAD, is_fresh=True)

    assert server.methods == ["POST", "DELETE"]


def test_a_stream_that_breaks_raises_retry(script: Script) -> None:
    store, server = script(found(size=8), Answer(206, b"12345678", cut=4))

    with store.open("data/1") as stream, pytest.raises(Retry, match=r"^read gs://logs/root/data/1"):
        stream.read()

    assert "generation=7" in server.asked[1].path


def test_too_few_bytes_are_no_end(script: Script) -> None:
    store, _ = script(found(size=8), Answer(206, b"1234"))

    with store.open("data/1") as stream, pytest.raises(Retry, match="got 4 bytes, not 8"):
        stream.read()


def test_without_the_right_to_see_the_bucket_there_is_no_advice(script: Script) -> None:
    store, _ = script(error(403, "forbidden"), error(403, "forbidden"))

    assert (store.upload_lifetime(), store.advice()) == (None, ())


def test_the_settings_of_the_bucket_give_advice(script: Script) -> None:
    bucket = resource(name="logs", softDeletePolicy={"retentionDurationSeconds": "604800"})

    (advice,) = script(bucket)[0].advice()

    assert advice.startswith("the bucket keeps deleted objects for 7 d (soft delete)")
