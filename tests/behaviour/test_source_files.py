"""Files of other programs: listed in order, and read in the version that was found."""

import os
from collections import Counter
from collections.abc import Callable
from dataclasses import dataclass
from datetime import UTC, datetime, timedelta
from pathlib import Path
from typing import Any
from uuid import uuid4

import pytest

from landfall.api import spec
from landfall.errors import Retry, StoreDenied
from landfall.formats.readers import reader_of
from landfall.objects import FileChanged, ListedFile
from landfall.source.files import VersionedFile
from landfall.store import SourceFiles
from landfall.store.folder_files import FolderFiles
from landfall.store.memory import MemoryFiles
from landfall.store.s3.files import S3Files
from tests.support.places import save_secrets
from tests.support.places.kinds import KINDS, SECRETS
from tests.support.stores.s3 import Bucket
from tests.support.stores.source_files import files_of

ODD_NAMES = [
    "a b/c.csv",
    "a%20b",
    "a+b",
    "a.csv",
    "a/b.csv",
    "a/b/c.csv",
    "aé",
    "line\nbreak",
    "line\r\nbreak\ttab",
    "/".join(["long" * 60] * 4),
    "日本/x",
    "😀",
]


@dataclass(frozen=True)
class Place:
    """Where other programs leave files."""

    source: SourceFiles
    write: Callable[[str, bytes], None]
    delete: Callable[[str], None]
    listing: str = ""
    """The name of a request for a page of names; empty if they are not counted."""
    page: int = 1000

    def names(self, prefix: str = "", after: str = "") -> list[str]:
        return [file.name for file in self.source.files(prefix, after)]

    def written(self, name: str, body: bytes) -> ListedFile:
        self.write(name, body)
        found = self.source.find(name)
        assert found
        return found


def in_memory(_request: pytest.FixtureRequest) -> Place:
    files = MemoryFiles()
    return Place(files, files.write, files.delete, "files")


def in_a_folder(request: pytest.FixtureRequest) -> Place:
    root: Path = request.getfixturevalue("tmp_path") / "files"

    def write(name: str, body: bytes) -> None:
        (root / name).parent.mkdir(parents=True, exist_ok=True)
        (root / name).write_bytes(body)

    return Place(FolderFiles(root), write, lambda name: (root / name).unlink())


def in_s3(request: pytest.FixtureRequest) -> Place:
    bucket: Bucket = request.getfixturevalue("shared_bucket")
    root = f"{uuid4().hex}/in"
    settings = spec.S3.model_validate(bucket.output["s3"])
    client = bucket.server.client
    return Place(
        S3Files(bucket.name, root, settings),
        lambda name, body: bucket.write(f"{root}/{name}", body),
        lambda name: client.delete_object(Bucket=bucket.name, Key=f"{root}/{name}") and None,
        "ListObjectsV2",
    )


def on_server(kind: str, **counted: Any) -> Callable[[pytest.FixtureRequest], Place]:
    def made(request: pytest.FixtureRequest) -> Place:
        save_secrets(request.getfixturevalue("tmp_path"), SECRETS)
        place = KINDS[kind](request.getfixturevalue(kind))
        return Place(files_of(place), place.write, place.delete, **counted)

    return made


ON_SERVERS = [
    pytest.param(on_server(kind, **counted), marks=pytest.mark.full, id=kind)
    for kind, counted in {
        "azure": {"listing": "GetBlobs", "page": 5000},
        "gcs": {"listing": "objects.list"},
        "hdfs": {},
    }.items()
]


@pytest.fixture(params=[in_memory, in_a_folder, in_s3, *ON_SERVERS])
def place(
    request: pytest.FixtureRequest,
    s3_credentials: None,
    tmp_path: Path,
    monkeypatch: pytest.MonkeyPatch,
) -> Place:
    monkeypatch.setenv("LANDFALL_SECRETS", str(tmp_path))
    made: Place = request.param(request)
    return made


@pytest.fixture
def s3_credentials(shared_bucket: Bucket, monkeypatch: pytest.MonkeyPatch) -> None:
    for name, value in shared_bucket.server.env.items():
        monkeypatch.setenv(name, value)


def test_files_are_listed_in_the_order_of_their_bytes(place: Place) -> None:
    for name in reversed(ODD_NAMES):
        place.write(name, name.encode())

    assert place.names() == sorted(ODD_NAMES, key=str.encode)
    assert [file.size for file in place.source.files("a/")] == [7, 9]


def test_nothing_is_listed_where_nothing_is(place: Place) -> None:
    assert place.names() == []
    assert place.source.find("a") is None


def test_a_listing_begins_after_a_name(place: Place) -> None:
    for name in ODD_NAMES:
        place.write(name, b"x")
    in_order = sorted(ODD_NAMES, key=str.encode)

    for index, name in enumerate(in_order):
        assert place.names(after=name) == in_order[index + 1 :]
    assert place.names("a/", after="a/b.csv") == ["a/b/c.csv"]
    assert place.names("a", after="a.") == [n for n in in_order if n > "a." and n[0] == "a"]


def test_more_files_than_a_page_has(place: Place) -> None:
    expected = [f"f{number:04d}" for number in range(1_203)]
    for name in expected:
        place.write(name, b"")

    assert place.names() == expected
    if place.listing:
        requests: Counter[str] = getattr(place.source, "requests")  # noqa: B009  # no protocol has it
        assert requests[place.listing] == -(-len(expected) // place.page)


def test_what_is_listed_is_what_is_found(place: Place) -> None:
    before = datetime.now(UTC) - timedelta(seconds=2)
    file = place.written("a.csv", b"12345")

    assert list(place.source.files()) == [file]
    assert (file.name, file.size) == ("a.csv", 5)
    assert before < file.modified < datetime.now(UTC) + timedelta(seconds=2)
    assert file.modified.utcoffset() == timedelta(0)


@pytest.mark.parametrize(("start", "end"), [(0, 10), (0, 1), (9, 10), (3, 7), (4, 4), (10, 10)])
def test_exactly_the_bytes_of_a_range_are_read(place: Place, start: int, end: int) -> None:
    body = b"0123456789"
    file = place.written("a", body)

    assert place.source.read(file, start, end) == body[start:end]


@pytest.mark.parametrize("name", ODD_NAMES)
def test_a_file_of_any_name_is_read(place: Place, name: str) -> None:
    file = place.written(name, name.encode())

    assert file.name == name
    assert place.source.read(file, 0, file.size) == name.encode()


def test_an_empty_file_has_no_bytes(place: Place) -> None:
    file = place.written("empty", b"")

    assert (file.size, place.source.read(file, 0, 0)) == (0, b"")


def test_another_version_is_not_read(place: Place) -> None:
    file = place.written("a", b"the first")
    other = place.written("a", b"the other")

    assert other.etag != file.etag
    with pytest.raises(FileChanged, match="a: the file with ETag") as refused:
        place.source.read(file, 0, 3)
    assert (refused.value.name, refused.value.expected) == ("a", file.etag)
    assert place.source.read(other, 0, 9) == b"the other"


def test_a_file_that_became_shorter_is_another_one(place: Place) -> None:
    file = place.written("a", b"a long body")
    place.write("a", b"x")

    with pytest.raises(FileChanged):
        place.source.read(file, 5, 11)


def test_a_file_that_is_gone_is_not_read(place: Place) -> None:
    file = place.written("a", b"x")
    place.delete("a")

    assert place.source.find("a") is None
    with pytest.raises(FileChanged, match="gone"):
        place.source.read(file, 0, 1)


def test_a_file_is_read_by_its_reader(place: Place) -> None:
    body = b"".join(b"line %d\n" % number for number in range(1000))
    file = VersionedFile(place.source, place.written("a.txt", body))
    reader = reader_of("Lines", {})

    parts = reader.parts(file.name, file.size, part_bytes=3000)
    values = [
        value
        for part in parts
        for records in reader.read(file, part)
        for value in records.values.to_pylist()
    ]

    assert len(parts) > 2
    assert values == body.splitlines()


def test_a_version_that_changes_between_reads_is_noticed(place: Place) -> None:
    body = b"line of the first version\n" * 500_000
    file = VersionedFile(place.source, place.written("a.txt", body))
    reader = reader_of("Lines", {})
    (part,) = reader.parts(file.name, file.size)
    records = reader.read(file, part)
    next(records)

    place.write("a.txt", b"line of another version\n" * 500_000)

    with pytest.raises(FileChanged):
        list(records)


def test_an_error_of_a_changed_file_can_be_sent() -> None:
    sent = FileChanged("a", "e1", "e2")
    made, arguments = sent.__reduce__()
    received = made(*arguments)

    assert (received.name, received.expected, received.found) == ("a", "e1", "e2")
    assert str(received) == "a: the file with ETag e1 is e2 now"


def test_objects_that_stand_for_folders_are_no_files(
    shared_bucket: Bucket, s3_credentials: None
) -> None:
    root = uuid4().hex
    for key in (f"{root}/", f"{root}/a/", f"{root}/a/b"):
        shared_bucket.write(key, b"" if key.endswith("/") else b"x")
    source = S3Files(shared_bucket.name, root, spec.S3.model_validate(shared_bucket.output["s3"]))

    assert [file.name for file in source.files()] == ["a/b"]


def test_a_multipart_object_is_read_by_its_etag(
    shared_bucket: Bucket, s3_credentials: None
) -> None:
    root, client = uuid4().hex, shared_bucket.server.client
    at: dict[str, Any] = {"Bucket": shared_bucket.name, "Key": f"{root}/big"}
    upload = client.create_multipart_upload(**at)["UploadId"]
    bodies = [b"a" * 5 * 2**20, b"b" * 10]
    parts = [
        {
            "PartNumber": number,
            "ETag": client.upload_part(**at, UploadId=upload, PartNumber=number, Body=body)["ETag"],
        }
        for number, body in enumerate(bodies, 1)
    ]
    client.complete_multipart_upload(**at, UploadId=upload, MultipartUpload={"Parts": parts})
    source = S3Files(shared_bucket.name, root, spec.S3.model_validate(shared_bucket.output["s3"]))

    (file,) = source.files()

    assert file.etag.endswith("-2")
    assert source.read(file, 5 * 2**20 - 2, 5 * 2**20 + 2) == b"aabb"


def test_a_bucket_that_is_not_there_is_named(shared_bucket: Bucket, s3_credentials: None) -> None:
    settings = spec.S3.model_validate(shared_bucket.output["s3"])
    source = S3Files("no-such-bucket-1", "in", settings)

    with pytest.raises(StoreDenied, match=r"list s3://no-such-bucket-1/in/.*s3:ListBucket"):
        list(source.files())


@pytest.mark.full
@pytest.mark.parametrize(
    ("kind", "url", "message"),
    [
        (
            "azure",
            "abfss://absent@{account}/in",
            "ContainerNotFound.*; files are read with the role",
        ),
        ("gcs", "gs://absent/in", "notFound.*; files are listed with the permission"),
    ],
)
def test_a_place_that_is_not_there_is_named(
    request: pytest.FixtureRequest,
    tmp_path: Path,
    monkeypatch: pytest.MonkeyPatch,
    kind: str,
    url: str,
    message: str,
) -> None:
    save_secrets(tmp_path, SECRETS)
    monkeypatch.setenv("LANDFALL_SECRETS", str(tmp_path))
    place = KINDS[kind](request.getfixturevalue(kind))
    url = url.format(account=place.output["url"].split("@")[-1].split("/")[0])

    with pytest.raises(StoreDenied, match=f"^list {url}/: {message}"):
        list(files_of(place, url=url).files())


def test_a_server_that_does_not_answer_is_tried_again(s3_credentials: None) -> None:
    settings = spec.S3(endpoint="http://127.0.0.1:9", max_attempts=1)

    with pytest.raises(Retry, match="list s3://b/in/"):
        list(S3Files("b", "in", settings).files())


def test_a_folder_that_may_not_be_read_is_named(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    (tmp_path / "a").write_bytes(b"x")
    (file,) = FolderFiles(tmp_path).files()

    def refused(*_: object) -> int:
        raise PermissionError(13, "Permission denied")

    monkeypatch.setattr(os, "fstat", refused)

    with pytest.raises(StoreDenied, match=r"read .*/a: Permission denied"):
        FolderFiles(tmp_path).read(file, 0, 1)
