"""The rule by which an upload is completed."""

import hashlib
from dataclasses import replace

import pytest

from landfall.errors import LandfallError, Reason, Retry, Stalled
from landfall.objects import (
    ObjectStat,
    Part,
    Upload,
    UploadLost,
    check_completed,
    is_made_by,
    multipart_etag,
)
from landfall.store.completion import ensure

PARTS = tuple(Part(f'"{hashlib.md5(body).hexdigest()}"', len(body)) for body in (b"one", b"three"))
UPLOAD = Upload("data/1", "id-1", PARTS, "token-1")
OURS = ObjectStat("data/1", 8, multipart_etag(PARTS), "token-1")


def test_the_etag_of_parts_is_the_md5_of_their_md5s() -> None:
    digests = hashlib.md5(b"one").digest() + hashlib.md5(b"three").digest()

    assert multipart_etag(PARTS) == f"{hashlib.md5(digests).hexdigest()}-2"


@pytest.mark.parametrize("etag", ['"AbC-not-md5"', "", "0" * 31])
def test_parts_whose_etags_are_no_md5_have_none_together(etag: str) -> None:
    assert multipart_etag((PARTS[0], Part(etag, 1))) == ""


@pytest.mark.parametrize("etag", [OURS.etag, "", "0" * 32, "opaque"])
def test_token_and_size_prove_an_object_unless_its_etag_contradicts(etag: str) -> None:
    assert is_made_by(UPLOAD, replace(OURS, etag=etag))


@pytest.mark.parametrize("quote", ["", '"'])
def test_an_object_that_has_lost_its_token_is_known_by_its_etag(quote: str) -> None:
    assert is_made_by(UPLOAD, replace(OURS, token="", etag=f"{quote}{OURS.etag}{quote}"))


@pytest.mark.parametrize(
    "found",
    [
        None,
        replace(OURS, token="token-2"),
        replace(OURS, token="", etag=""),
        replace(OURS, token="", etag="0" * 32),
        replace(OURS, token="", size=9),
        replace(OURS, size=9),
        replace(OURS, etag=f"{'0' * 32}-2"),
    ],
)
def test_anything_else_is_not_ours(found: ObjectStat | None) -> None:
    assert not is_made_by(UPLOAD, found)


@pytest.mark.parametrize(
    ("found", "is_open", "error"),
    [
        (replace(OURS, token="token-2"), True, Stalled(Reason.LEDGER_BROKEN, "")),
        (replace(OURS, token="token-2"), False, Stalled(Reason.LEDGER_BROKEN, "")),
        (replace(OURS, token="", etag=""), False, Stalled(Reason.OBJECT_LOST, "")),
        (None, True, Retry()),
        (None, False, UploadLost()),
    ],
)
def test_what_is_there_decides(
    found: ObjectStat | None, is_open: bool, error: LandfallError
) -> None:
    check_completed(UPLOAD, OURS, is_open=is_open)

    with pytest.raises(type(error)) as raised:
        check_completed(UPLOAD, found, is_open=is_open)
    assert getattr(raised.value, "reason", None) == getattr(error, "reason", None)


def test_a_stores_yes_is_not_believed() -> None:
    with pytest.raises(Retry, match="not completed yet: though the store reported success"):
        ensure(UPLOAD, finish=lambda _: None, is_open=lambda _: True, stat=lambda _: None)


def test_a_stores_no_is_not_believed() -> None:
    def finish(_: Upload) -> None:
        raise Retry("no such upload")

    ensure(UPLOAD, finish=finish, is_open=lambda _: False, stat=lambda _: OURS)


def test_an_object_completed_by_another_between_two_looks_is_seen() -> None:
    looks = iter([None, OURS])

    ensure(UPLOAD, finish=lambda _: None, is_open=lambda _: False, stat=lambda _: next(looks))
