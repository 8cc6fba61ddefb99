"""Which store a group's output names."""

import sys
from pathlib import Path

import pytest
from pydantic import ValidationError

from landfall.api.spec import S3, Feed, Output
from landfall.errors import Reason, Stalled
from landfall.store import Store
from landfall.store.file import FileStore
from landfall.store.memory import MemoryStore
from landfall.store.s3.store import S3Store
from landfall.store.urls import open_files, open_store


class Kept:
    """A store of a user's own."""

    opened: list[str] = []  # noqa: RUF012  # what the test looks at

    @classmethod
    def of(cls, output: Output) -> Store:
        cls.opened.append(output.url)
        return MemoryStore()


@pytest.mark.parametrize(
    ("url", "shown"),
    [
        ("s3://logs", "S3Store(s3://logs/)"),
        ("s3://logs/", "S3Store(s3://logs/)"),
        ("s3://logs/a/b/", "S3Store(s3://logs/a/b/)"),
        ("file:///data/my%20logs", "FileStore(/data/my logs)"),
    ],
)
def test_a_url_names_a_store(url: str, shown: str) -> None:
    assert repr(open_store(Output(url=url, s3=S3(region="eu-central-1")))) == shown


def test_the_known_schemes_have_their_types(tmp_path: Path) -> None:
    opened = [open_store(Output(url=url)) for url in ("s3://logs", tmp_path.as_uri())]

    assert [type(store) for store in opened] == [S3Store, FileStore]


def test_a_store_of_ones_own_gets_the_output(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(
        "landfall.store.urls.importlib.import_module",
        lambda _: __import__("types").SimpleNamespace(Kept=Kept),
    )

    assert isinstance(open_store(Output(url="gs://logs/a", store="my_stores:Kept")), MemoryStore)
    assert Kept.opened == ["gs://logs/a"]


@pytest.mark.parametrize("path", ["no_such_module:Name", "landfall.store:NoSuchStore"])
def test_a_store_that_is_not_there_is_named(path: str) -> None:
    with pytest.raises(Stalled, match=f"^output.store: '{path}': ") as stalled:
        open_store(Output(url="gs://logs/a", store=path))

    assert stalled.value.reason is Reason.SPEC_INVALID


@pytest.mark.parametrize(
    "url",
    [
        "ftp://logs",
        "gs:///logs",
        "abfss://logs",
        "hdfs://host",
        "file://data",
        "s3:///logs",
        "logs",
        "",
    ],
)
def test_a_url_nobody_reads_is_refused(url: str) -> None:
    with pytest.raises(ValidationError):
        Output(url=url)


@pytest.mark.parametrize(
    ("url", "shown"),
    [
        ("s3://logs/in", "S3Files(s3://logs/in/)"),
        ("file:///data/my%20logs", "FolderFiles(/data/my logs)"),
        (
            "abfss://logs@a.dfs.core.windows.net/in/",
            "AzureFiles(abfss://logs@a.dfs.core.windows.net/in/)",
        ),
        ("gs://logs/in", "GcsFiles(gs://logs/in/)"),
        ("hdfs://host:8020/my%20logs/", "HdfsFiles(hdfs://host:8020/my logs/)"),
    ],
)
def test_a_url_names_where_files_are(url: str, shown: str) -> None:
    gcs = {"endpoint": "http://127.0.0.1:1"}  # Google's own would need credentials

    feed = Feed.model_validate(
        {"topic": "t", "url": url, "s3": {"region": "eu-central-1"}, "gcs": gcs}
    )

    assert repr(open_files(feed)) == shown


@pytest.mark.parametrize(
    ("url", "extra", "package"),
    [
        ("abfss://logs@account/in", "azure", "azure.storage.blob"),
        ("gs://logs/in", "gcs", "google.cloud.storage"),
        ("hdfs://host:8020/in", "hdfs", "hdfs_native"),
    ],
)
def test_a_library_that_is_not_installed_is_named_with_its_extra(
    url: str, extra: str, package: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    for name in [name for name in sys.modules if name.startswith(f"landfall.store.{extra}.")]:
        monkeypatch.delitem(sys.modules, name)
    monkeypatch.setitem(sys.modules, package, None)

    with pytest.raises(
        Stalled, match=rf"^source.files: t: {url} needs .*the extra {extra} of landfall-kafka"
    ) as no:
        open_files(Feed(topic="t", url=url))

    assert no.value.reason is Reason.SPEC_INVALID
