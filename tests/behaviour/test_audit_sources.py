"""The auditor's sources of files: the versions that are landed are those that it reads."""

from collections.abc import Callable, Mapping
from dataclasses import dataclass
from datetime import timedelta
from pathlib import Path
from typing import Any

import pytest

from landfall.api.spec import Feed
from landfall.store.urls import open_files
from landfall_audit import Unchecked
from landfall_audit.buckets import CannotCompare, open_source
from tests.integration.conftest import keys
from tests.support.audit.audited_spec import for_auditor
from tests.support.places import save_secrets
from tests.support.places.kinds import KINDS, SECRETS
from tests.support.stores.s3 import Bucket
from tests.support.stores.source_files import feed_of

NAMES = ["a b/c.csv", "a%20b", "a+b", "aé", "line\nbreak", "日本/x", "😀"]


@dataclass(frozen=True)
class Place:
    """Where other programs leave files, and the fields of a feed that name it."""

    fields: Mapping[str, Any]
    write: Callable[[str, bytes], None]
    delete: Callable[[str], object]

    @property
    def feed(self) -> Feed:
        return Feed.model_validate({"topic": "t", **self.fields})


def in_a_folder(request: pytest.FixtureRequest) -> Place:
    root: Path = request.getfixturevalue("tmp_path") / "files"

    def write(name: str, body: bytes) -> None:
        (root / name).parent.mkdir(parents=True, exist_ok=True)
        (root / name).write_bytes(body)

    return Place({"url": f"file://{root}"}, write, lambda name: (root / name).unlink())


def in_s3(request: pytest.FixtureRequest) -> Place:
    bucket: Bucket = request.getfixturevalue("bucket")
    for name, value in keys(bucket.server).items():
        request.getfixturevalue("monkeypatch").setenv(name, value)
    client = bucket.server.client
    return Place(
        {"url": bucket.url, "s3": bucket.output["s3"]},
        bucket.write,
        lambda name: client.delete_object(Bucket=bucket.name, Key=name),
    )


def on_server(kind: str) -> Callable[[pytest.FixtureRequest], Place]:
    def made(request: pytest.FixtureRequest) -> Place:
        secrets: Path = request.getfixturevalue("tmp_path") / "secrets"
        save_secrets(secrets, SECRETS)
        request.getfixturevalue("monkeypatch").setenv("LANDFALL_SECRETS", str(secrets))
        place = KINDS[kind](request.getfixturevalue(kind))
        return Place(feed_of(place), place.write, place.delete)

    return made


ON_SERVERS = [pytest.param(on_server(kind), marks=pytest.mark.full, id=kind) for kind in KINDS]


@pytest.fixture(params=[in_a_folder, in_s3, *ON_SERVERS])
def place(request: pytest.FixtureRequest) -> Place:
    made: Place = request.param(request)
    return made


def test_files_of_any_name_are_listed_and_read_as_they_are_landed(place: Place) -> None:
    for name in NAMES:
        place.write(name, name.encode())

    found = sorted(open_source(for_auditor(place.feed)).files(), key=lambda file: file.name)

    landed = list(open_files(place.feed).files())
    assert [file.name for file in found] == sorted(NAMES)
    assert [(file.name, file.etag) for file in found] == [(file.name, file.etag) for file in landed]
    for file, known in zip(found, landed, strict=True):
        assert abs(file.modified - known.modified) < timedelta(milliseconds=1)
    source = open_source(for_auditor(place.feed))
    for file in found:
        body = file.name.encode()
        assert source.read(file.name, file.etag, 0, len(body)) == body
        assert source.read(file.name, file.etag, 2, len(body) - 1) == body[2:-1]
        assert source.read(file.name, file.etag, 2, 2) == b""


def test_another_version_and_a_file_that_is_gone_are_not_read(place: Place) -> None:
    place.write("a/b", b"first")
    source = open_source(for_auditor(place.feed))
    (first,) = source.files()

    place.write("a/b", b"the second")
    with pytest.raises(CannotCompare) as rewritten:
        source.read("a/b", first.etag, 0, 5)
    place.delete("a/b")
    with pytest.raises(CannotCompare) as gone:
        source.read("a/b", first.etag, 0, 5)

    assert rewritten.value.why is gone.value.why is Unchecked.VERSION
    assert list(source.files()) == []
