"""Links in a folder lead the auditor nowhere else, as they do not lead the product there."""

from datetime import UTC
from pathlib import Path

import pytest

from landfall.store.file import FileStore
from landfall.store.folder_files import FolderFiles
from landfall_audit.buckets import CannotCompare
from landfall_audit.buckets.folder import LocalFolder

SECRET = b"sasl.password=planted"


@pytest.fixture
def root(tmp_path: Path) -> Path:
    """A folder with a file, and links: to a file in it, out of it, and to folders."""
    outside, root = tmp_path / "secrets", tmp_path / "shared"
    (root / "a").mkdir(parents=True)
    outside.mkdir()
    (outside / "properties").write_bytes(SECRET)
    (root / "a" / "file").write_bytes(b"1\n")
    (root / "a" / "same").symlink_to("file")
    (root / "a" / "stolen").symlink_to(outside / "properties")
    (root / "folder").symlink_to(outside)
    (root / "loop").symlink_to(root)
    (root / ".landfall-staging").mkdir()
    (root / ".landfall-staging" / "x").write_bytes(b"staged")
    return root


def test_an_output_root_has_what_the_store_lists(root: Path) -> None:
    found = dict(LocalFolder(root).visible())

    assert found == {"a/file": 2, "a/same": 2}
    assert found == {each.key: each.size for each in FileStore(root).list_after("")}
    assert dict(LocalFolder(root).visible("a/s")) == {"a/same": 2}


def test_nothing_is_read_through_a_link_that_leads_out(root: Path) -> None:
    with LocalFolder(root).open("a/same") as stream:
        assert stream.read() == b"1\n"
    for key in ("a/stolen", "folder/properties", "loop", "a/none"):
        with pytest.raises(FileNotFoundError):
            LocalFolder(root).open(key)


def test_a_source_has_what_the_feed_lists(root: Path) -> None:
    (root / "folder").unlink()  # a link to a folder elsewhere stops a feed
    source = LocalFolder(root)

    found = {each.name: (each.etag, each.modified) for each in source.files()}

    listed = {each.name: (each.etag, each.modified) for each in FolderFiles(root).files()}
    assert found.keys() == listed.keys() == {"a/file", "a/same", "a/stolen"}
    assert {name: etag for name, (etag, _) in found.items()} == {
        name: etag for name, (etag, _) in listed.items()
    }
    assert all(modified.tzinfo is UTC for _, modified in found.values())
    assert source.read("a/same", found["a/same"][0], 0, 1) == b"1"
    with pytest.raises(CannotCompare):
        source.read("a/stolen", found["a/stolen"][0], 0, 1)
