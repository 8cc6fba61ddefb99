"""What an Azure Blob Storage server answers, and what Landfall makes of it. The server is scripted:
``tests/behaviour`` has a real one.
"""

import hashlib
from collections.abc import Callable, Iterator
from contextlib import ExitStack
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import pytest

from landfall.api import spec
from landfall.errors import LandfallError, Reason, Retry, Stalled, StoreAway, StoreDenied
from landfall.objects import Part, Upload, UploadLost, multipart_etag
from landfall.store import Created
from landfall.store.azure.client import credential_of
from landfall.store.azure.store import ETAG, TOKEN, AzureStore
from tests.support.stores.scripted import HANG_UP, Answer, Scripted, error, scripted

KEY = "bm90IGEga2V5"
PART = Part(hashlib.md5(b"body").hexdigest(), 4)
UPLOAD = Upload("data/1", "0" * 32, (PART,), "token-1")


@dataclass(frozen=True)
class Setting:
    store: AzureStore
    server: Scripted


Script = Callable[..., Setting]


@pytest.fixture
def script(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Iterator[Script]:
    """``script(answer, ...)``: a store whose server gives these answers to one attempt each."""
    monkeypatch.setenv("LANDFALL_SECRETS", str(tmp_path))
    (tmp_path / "azure").mkdir()
    (tmp_path / "azure" / "AZURE_STORAGE_KEY").write_text(KEY)
    with ExitStack() as servers:

        def of(*answers: Answer, **settings: Any) -> Setting:
            server = servers.enter_context(scripted(answers))
            access = spec.Azure.model_validate(
                {
                    "endpoint": f"{server.endpoint}/account",
                    "credentialsSecretRef": {"name": "azure"},
                    "maxAttempts": 1,
                    "readTimeout": "2s",
                    **settings,
                }
            )
            host = "account.dfs.core.windows.net"
            return Setting(AzureStore(host, "logs", "/root/", access), server)

        yield of


def refused(status: int, code: str) -> Answer:
    """An error as Azure reports it: the code is also a header, which a HEAD has alone."""
    return Answer(status, error(status, code).body, {"x-ms-error-code": code})


def head(token: str = "token-1", size: int = 4, etag: str = "") -> Answer:
    metadata = {f"x-ms-meta-{TOKEN}": token, f"x-ms-meta-{ETAG}": etag}
    own = {"Content-Length": str(size), "ETag": '"0x8D"', "x-ms-blob-type": "BlockBlob"}
    return Answer(200, headers=own | metadata)


@pytest.mark.parametrize(
    ("answer", "raised"),
    [
        (refused(503, "ServerBusy"), StoreAway),
        (refused(500, "InternalError"), StoreAway),
        (refused(500, "OperationTimedOut"), StoreAway),
        (Answer(502, b"<html>a proxy</html>"), StoreAway),
        (refused(429, "TooManyRequests"), StoreAway),
        (refused(400, "Md5Mismatch"), StoreAway),
        (HANG_UP, StoreAway),
        (refused(403, "AuthenticationFailed"), StoreDenied),
        (refused(403, "AuthorizationPermissionMismatch"), StoreDenied),
        (refused(404, "ContainerNotFound"), StoreDenied),
        (refused(409, "ContainerBeingDeleted"), StoreDenied),
        (refused(400, "InvalidHeaderValue"), StoreDenied),
    ],
)
def test_an_answer_is_translated(
    script: Script, answer: Answer, raised: type[LandfallError]
) -> None:
    with pytest.raises(
        LandfallError, match=r"^put part abfss://logs@account\S+/root/data/1: "
    ) as e:
        script(answer).store.put_part("data/1", "0" * 32, 1, b"body")

    assert type(e.value) is raised
    assert KEY not in str(e.value)


def test_a_store_that_lacks_an_operation_is_unsafe(script: Script) -> None:
    with pytest.raises(Stalled) as stalled:
        script(refused(501, "NotImplemented")).store.put_part("data/1", "0" * 32, 1, b"body")

    assert stalled.value.reason is Reason.STORE_UNSAFE


def test_a_create_whose_answer_was_lost_is_taken(script: Script) -> None:
    setting = script(HANG_UP, refused(409, "BlobAlreadyExists"), maxAttempts=2)

    assert setting.store.create("slots/0", b"{}") is Created.TAKEN
    assert setting.store.requests == {"PutBlob": 2}


@pytest.mark.parametrize(
    "code", ["ContainerBeingDeleted", "LeaseAlreadyPresent", "BlobImmutableDueToPolicy"]
)
def test_another_conflict_is_no_taken_slot(script: Script, code: str) -> None:
    with pytest.raises(StoreDenied, match=code):
        script(refused(409, code)).store.create("slots/0", b"{}")


def test_a_fresh_completion_that_is_confirmed_is_believed(script: Script) -> None:
    setting = script(Answer(201, headers={"ETag": '"0x8D"'}))

    setting.store.complete(UPLOAD, is_fresh=True)

    assert setting.store.requests == {"PutBlockList": 1}


@pytest.mark.parametrize(
    "answer",
    [HANG_UP, refused(409, "BlobAlreadyExists"), refused(400, "InvalidBlockList")],
)
def test_a_completion_in_doubt_is_what_the_object_says(script: Script, answer: Answer) -> None:
    script(answer, head(etag=multipart_etag(UPLOAD.parts))).store.complete(UPLOAD, is_fresh=True)

    with pytest.raises(Stalled, match="another object is there: token token-2"):
        script(
            answer, head("token-2"), refused(404, "BlobNotFound"), head("token-2")
        ).store.complete(UPLOAD, is_fresh=True)


def test_neither_blocks_nor_object_is_lost(script: Script) -> None:
    gone = refused(404, "BlobNotFound")

    with pytest.raises(UploadLost):
        script(refused(400, "InvalidBlockList"), gone, gone, gone).store.complete(UPLOAD)


def test_a_completion_that_is_refused_is_not_looked_into(script: Script) -> None:
    setting = script(refused(403, "AuthorizationPermissionMismatch"))

    with pytest.raises(StoreDenied, match="AuthorizationPermissionMismatch"):
        setting.store.complete(UPLOAD)
    assert setting.server.methods == ["PUT"]


def test_an_upload_id_of_another_store_is_refused(script: Script) -> None:
    with pytest.raises(ValueError, match=r"not an upload id of an Azure store: '\.\./\.\./x'"):
        script().store.put_part("data/1", "../../x", 1, b"body")


@pytest.mark.parametrize(
    ("secret", "message"),
    [
        ({}, "neither AZURE_STORAGE_KEY nor AZURE_STORAGE_SAS_TOKEN"),
        ({"AZURE_TENANT_ID": "t"}, "lacks AZURE_CLIENT_ID and AZURE_CLIENT_SECRET"),
    ],
)
def test_a_secret_without_credentials_says_what_it_lacks(
    secret: dict[str, str], message: str
) -> None:
    with pytest.raises(StoreDenied, match=message):
        credential_of("azure", secret, "account")


def test_attempts_end(script: Script) -> None:
    setting = script(*[refused(503, "ServerBusy")] * 3, maxAttempts=2)

    with pytest.raises(Retry, match="ServerBusy"):
        setting.store.read("slots/0")
    assert setting.server.methods == ["GET", "GET"]
