"""Links that another party puts into a shared folder: they lend it nothing of the pod's own."""

import os
from collections import Counter
from datetime import UTC, datetime
from pathlib import Path

import pytest

from landfall.api.contract import ExitCode
from landfall.errors import StoreDenied
from landfall.objects import FileElsewhere, Upload
from landfall.store.file import STAGING, FileStore
from landfall.store.folder_files import FolderFiles
from tests.support.files.folder_feed import FolderFeed, rows

SECRET = b"sasl.password=planted"


@pytest.fixture
def secrets(tmp_path: Path) -> Path:
    """A folder that is none of the other party's business."""
    folder = tmp_path / "secrets"
    folder.mkdir()
    (folder / "properties").write_bytes(SECRET)
    return folder


def held(folder: Path) -> dict[str, bytes]:
    """The files of a folder."""
    return {file.name: file.read_bytes() for file in folder.iterdir()}


@pytest.fixture
def root(tmp_path: Path) -> Path:
    made = tmp_path / "shared"
    made.mkdir()
    return made


@pytest.fixture
def store(root: Path) -> FileStore:
    return FileStore(root)


@pytest.fixture(params=["file", "folder"])
def key(root: Path, secrets: Path, request: pytest.FixtureRequest) -> str:
    """A key that leads to the secret, by a link to its file or to its folder."""
    if request.param == "folder":
        (root / "a").symlink_to(secrets)
        return "a/properties"
    (root / "a").mkdir()
    (root / "a" / "properties").symlink_to("../../secrets/properties")
    return "a/properties"


def test_nothing_is_read_through_a_link(store: FileStore, key: str) -> None:
    for read in (
        lambda: store.read(key),
        lambda: store.read_range(key, 0, 100),
        lambda: store.open(key),
        lambda: store.stat(key),
    ):
        with pytest.raises(StoreDenied, match=r"a link leads out of .*shared"):
            read()
    assert list(store.list_after("")) == []


def test_nothing_is_written_through_a_link(store: FileStore, root: Path, secrets: Path) -> None:
    (root / "a").symlink_to(secrets)

    for write in (
        lambda: store.create("a/new", b""),
        lambda: store.overwrite("a/properties", b""),
        lambda: store.delete_slots(["a/properties"]),
        lambda: store.begin("a/new", "t"),
    ):
        with pytest.raises(StoreDenied, match=r"a link leads out of .*shared"):
            write()
    assert held(secrets) == {"properties": SECRET}


@pytest.mark.parametrize("name", ["new", "uploads", "owners", ""])
def test_nothing_old_is_deleted_through_a_link(root: Path, secrets: Path, name: str) -> None:
    """The folder of unfinished files is swept of what is older than a day."""
    os.utime(secrets / "properties", (0, 0))
    folder = root / STAGING / name
    folder.parent.mkdir(exist_ok=True)
    folder.symlink_to(secrets)

    with pytest.raises(StoreDenied, match=r"a link leads out of .*shared"):
        FileStore(root)
    assert held(secrets) == {"properties": SECRET}


@pytest.mark.parametrize("parts", [1, 2])
def test_a_part_that_is_a_link_does_not_become_an_object(
    store: FileStore, root: Path, secrets: Path, parts: int
) -> None:
    upload_id = store.begin("a/b", "t")
    put = [store.put_part("a/b", upload_id, number, b"x" * 21) for number in range(1, parts + 1)]
    for part in (root / STAGING / "uploads" / upload_id).glob("0*"):
        part.unlink()
        part.symlink_to(secrets / "properties")

    with pytest.raises(StoreDenied, match=r"a link leads out of .*shared"):
        store.complete(Upload("a/b", upload_id, tuple(put), "t"))
    assert store.stat("a/b") is None


def test_a_link_that_is_put_there_between_look_and_open_is_seen(
    store: FileStore, root: Path, secrets: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    (root / "a").write_bytes(b"mine")
    is_file = Path.is_file

    def swapped(path: Path) -> bool:
        found = is_file(path)
        path.unlink()
        path.symlink_to(secrets / "properties")
        return found

    monkeypatch.setattr(Path, "is_file", swapped)
    with pytest.raises(StoreDenied, match=r"a link leads out of .*shared"):
        store.open("a")


def test_a_pipe_blocks_nobody(
    store: FileStore, root: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    os.mkfifo(root / "pipe")

    assert store.read("pipe") is None
    monkeypatch.setattr(Path, "is_file", lambda _: True)  # it was a file when it was looked at
    assert store.read("pipe") is None


def test_the_root_itself_may_be_a_link(tmp_path: Path, root: Path) -> None:
    (tmp_path / "current").symlink_to(root)
    store = FileStore(tmp_path / "current")

    store.create("a/b", b"x")

    assert store.read("a/b") == b"x"
    assert [found.key for found in store.list_after("")] == ["a/b"]


@pytest.fixture
def circle(root: Path) -> Path:
    """A folder with two links to itself: forty levels of two are listed for ever."""
    (root / "x").symlink_to(".")
    (root / "y").symlink_to(".")
    (root / "file").write_bytes(b"")
    return root


@pytest.mark.timeout(20)
def test_links_in_circles_are_not_followed(circle: Path) -> None:
    assert [found.key for found in FileStore(circle).list_after("")] == ["file"]
    assert [found.name for found in FolderFiles(circle).files()] == ["file"]


# --------------------------------------------------------------------------------------- of sources


def test_a_file_elsewhere_is_listed_and_not_read(root: Path, secrets: Path) -> None:
    (root / "a.csv").symlink_to(secrets / "properties")

    (found,) = FolderFiles(root).files()

    assert (found.name, found.size) != ("a.csv", len(SECRET))
    with pytest.raises(FileElsewhere, match=r"a\.csv: it is a link that leads out of the folder"):
        FolderFiles(root).read(found, 0, found.size)


def test_a_link_is_parked_and_the_files_after_it_land(tmp_path: Path, secrets: Path) -> None:
    feed = FolderFeed(tmp_path)
    (secrets / "rows").write_bytes(b'{"id": 99}\n')
    for name, numbers in (("a", range(5)), ("c", range(5, 9))):
        feed.put(name, rows(numbers))
    (tmp_path / "in" / "b").symlink_to(secrets / "rows")

    assert feed.land() == ExitCode.STALLED
    assert feed.landed() == Counter(range(9))

    (tmp_path / "in" / "b").unlink()
    feed.put("b", rows([9]))
    assert feed.land(retryInterval="1ms") == ExitCode.OK
    assert feed.landed() == Counter(range(10))


def test_a_folder_elsewhere_is_an_error_that_names_it(root: Path, secrets: Path) -> None:
    (root / "2026").symlink_to(secrets)

    with pytest.raises(StoreDenied, match=r"2026: it is a link to a folder outside of .*shared"):
        list(FolderFiles(root).files())


def test_a_name_does_not_leave_the_folder(root: Path, secrets: Path) -> None:
    files = FolderFiles(root)

    for name in ("../secrets/properties", str(secrets / "properties")):
        found = files.find(name)
        assert found is not None
        with pytest.raises(FileElsewhere):
            files.read(found, 0, 5)


def test_links_within_the_folder_are_files(root: Path) -> None:
    """As Kubernetes mounts a ConfigMap."""
    version = root / "..2026"
    version.mkdir()
    (version / "a.csv").write_bytes(b"1,2")
    (root / "..data").symlink_to("..2026")
    (root / "a.csv").symlink_to("..data/a.csv")

    found = {file.name: file for file in FolderFiles(root).files()}

    assert found.keys() == {"..2026/a.csv", "a.csv"}
    assert FolderFiles(root).read(found["a.csv"], 0, 3) == b"1,2"
    assert found["a.csv"].modified < datetime.now(UTC)
