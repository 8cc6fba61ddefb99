"""Stores behind a proxy that loses requests and answers: what a store says is true all the same."""

from collections.abc import Callable, Iterator
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path
from typing import Any, TypeVar
from urllib.parse import urlsplit

import pytest

from landfall.api.spec import Output
from landfall.errors import Retry
from landfall.objects import Upload, UploadLost, multipart_etag
from landfall.store import Created, Store
from landfall.store.copying import copied
from landfall.store.urls import open_store
from tests.chaos.faults import Fault, Rule
from tests.chaos.proxy import FaultProxy
from tests.support.places import Place, save_secrets
from tests.support.places.kinds import KINDS, SECRETS
from tests.support.stores.every_store import content

pytestmark = pytest.mark.full

Value = TypeVar("Value")
FAULTS = (
    Fault.RESET,
    Fault.RESET_AFTER,
    Fault.ERROR_500,
    Fault.ERROR_500_AFTER,
    Fault.SLOW_DOWN,
    Fault.TRUNCATE,
)
HTTP = tuple(kind for kind in KINDS if kind != "hdfs")
"""The stores that are reached over HTTP."""
WRITERS, SLOTS, OBJECTS = 4, 25, 20


@pytest.fixture(params=HTTP)
def place(request: pytest.FixtureRequest) -> tuple[str, str, Place]:
    """The kind of store, the server's address, and an empty output root."""
    address = request.getfixturevalue(request.param)
    return request.param, address, KINDS[request.param](address)


@pytest.fixture
def faulty(
    place: tuple[str, str, Place], tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> Iterator[Store]:
    """The store behind the proxy, which breaks one request in four."""
    kind, address, root = place
    url = urlsplit(address)
    proxy = FaultProxy(f"{url.scheme}://{url.netloc}", "127.0.0.1:0", seed=11, folder=tmp_path)
    save_secrets(tmp_path, SECRETS)
    monkeypatch.setenv("LANDFALL_SECRETS", str(tmp_path))
    access = {**root.output[kind], "endpoint": proxy.endpoint + url.path, "maxAttempts": 2}
    for fault in FAULTS:
        proxy.inject(Rule(fault=fault, probability=0.25 / len(FAULTS)))
    yield open_store(Output.model_validate({**root.output, kind: access}))
    counts = proxy.counts().faults
    assert proxy.stop() == 0
    assert counts.keys() >= {Fault.RESET_AFTER, Fault.ERROR_500_AFTER}, "no answer was lost"


def until_answered(call: Callable[[], Value]) -> Value:
    """The answer to a call that is made again as long as its outcome is unknown."""
    while True:
        try:
            return call()
        except Retry:
            continue


def test_a_slot_has_one_winner_whatever_is_lost(
    faulty: Store, place: tuple[str, str, Place]
) -> None:
    keys = [f"slots/{number:04d}" for number in range(SLOTS)]

    def write(writer: int) -> list[Created]:
        return [
            until_answered(lambda key=key: faulty.create(key, f"{key} by {writer}".encode()))  # type: ignore[misc]
            for key in keys
        ]

    with ThreadPoolExecutor(WRITERS) as threads:
        answers = list(threads.map(write, range(WRITERS)))

    for number, key in enumerate(keys):
        bodies = [f"{key} by {writer}".encode() for writer in range(WRITERS)]
        won = [bodies[writer] for writer in range(WRITERS) if answers[writer][number] == "won"]
        found = place[2].read(key)
        # The answer to the winner may be lost: then nobody knows of having won.
        assert found in bodies
        assert won in ([], [found])
    assert [
        found.key for found in until_answered(lambda: list(faulty.list_after("slots/")))
    ] == keys


def test_an_object_is_whole_whatever_is_lost(faulty: Store, place: tuple[str, str, Place]) -> None:
    def upload(number: int) -> tuple[Upload, bytes]:
        key, token = f"orders/{number:04d}", f"token-{number}"
        bodies = [f"{key} part {n}\n".encode() * 400 for n in (1, 2, 3)]
        upload_id = until_answered(lambda: faulty.begin(key, token))
        parts = tuple(
            until_answered(lambda n=n, body=body: faulty.put_part(key, upload_id, n, body))  # type: ignore[misc]
            for n, body in enumerate(bodies, 1)
        )
        return Upload(key, upload_id, parts, token), b"".join(bodies)

    with ThreadPoolExecutor(WRITERS) as threads:
        uploads = list(threads.map(upload, range(OBJECTS)))
        assert place[2].keys("orders/") == []
        # Each is completed twice, as by a driver and its successor.
        completed = threads.map(
            lambda each: until_answered(lambda: faulty.complete(each[0])), [*uploads, *uploads]
        )
        list(completed)

    for made, body in uploads:
        stat: Any = until_answered(lambda made=made: faulty.stat(made.key))  # type: ignore[misc]
        assert (stat.size, stat.token, stat.etag) == (
            len(body),
            made.token,
            multipart_etag(made.parts),
        )
        assert place[2].read(made.key) == body
        assert until_answered(lambda made=made: content(faulty, made.key)) == body  # type: ignore[misc]


def test_an_object_is_copied_and_retires_whatever_is_lost(
    faulty: Store, place: tuple[str, str, Place]
) -> None:
    def land(number: int) -> Upload:
        key, body = f"orders/{number:04d}", b"row\n" * (number + 1)
        upload_id = until_answered(lambda: faulty.begin(key, "token-1"))
        part = until_answered(lambda: faulty.put_part(key, upload_id, 1, body))
        made = Upload(key, upload_id, (part,), "token-1")
        until_answered(lambda: faulty.complete(made))
        return made

    def cannot_be_completed(made: Upload) -> None:
        with pytest.raises(UploadLost):
            until_answered(lambda: faulty.complete(made))

    def replace(made: Upload) -> None:
        kept = until_answered(
            lambda: copied(faulty, made.key, made.size, f"kept/{made.key}", "token-2")
        )
        until_answered(lambda: faulty.complete(kept))
        until_answered(lambda: faulty.retire(made))

    with ThreadPoolExecutor(WRITERS) as threads:
        uploads = list(threads.map(land, range(OBJECTS // 2)))
        list(threads.map(replace, uploads))
        # As by a former driver, which knows of nothing.
        list(threads.map(lambda made: until_answered(lambda: faulty.retire(made)), uploads))
        list(threads.map(cannot_be_completed, uploads))

    assert place[2].keys("orders/") == []
    for number, made in enumerate(uploads):
        assert place[2].read(f"kept/{made.key}") == b"row\n" * (number + 1)
