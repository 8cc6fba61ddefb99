"""FileStore where the others have no say: crashes, paths, and what a folder can hold."""

import os
import sys
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager, suppress
from dataclasses import dataclass
from functools import partial
from pathlib import Path

import pytest

from landfall.errors import Retry, Stalled, StoreDenied
from landfall.objects import Upload, UploadLost
from landfall.store import Created
from landfall.store.file import STAGING, FileStore
from tests.support.stores.every_store import content, uploaded

STEPS = {
    "open",
    "os.mkdir",
    "os.rename",
    "os.link",
    "os.remove",
    "os.rmdir",
    "os.scandir",
    "shutil.rmtree",
}


class Crashed(BaseException):
    """The process is gone; nothing it tries afterwards has any effect."""


@dataclass
class Crash:
    """Every step on the file system from number ``at`` fails, as if the process had died.

    With ``meanwhile``, none fails: it is done before the step, as by another process.
    """

    at: int
    steps: int = 0
    armed: bool = False
    meanwhile: Callable[[], None] | None = None

    def __call__(self, event: str, _: object) -> None:
        if self.armed and event in STEPS:
            self.steps += 1
            if self.steps > self.at:
                if self.meanwhile is None:
                    raise Crashed
                self.armed = False
                self.meanwhile()


CRASH = Crash(0)
sys.addaudithook(CRASH)  # for good: a hook cannot be taken away


@contextmanager
def crash(at: int) -> Iterator[None]:
    """Run the body until the given step on the file system."""
    CRASH.at, CRASH.steps, CRASH.armed = at, 0, True
    try:
        with suppress(Crashed):
            yield
    finally:
        CRASH.armed = False


@contextmanager
def interruption(at: int, meanwhile: Callable[[], None]) -> Iterator[None]:
    """Run the body, and something else before the given step on the file system."""
    CRASH.meanwhile = meanwhile
    try:
        with crash(at):
            yield
    finally:
        CRASH.meanwhile = None


def every_crash(tmp_path: Path) -> Iterator[tuple[int, Path]]:
    """Step numbers with a fresh folder each, until the body no longer reaches its step; first the
    one without a crash.
    """
    for at in range(200):
        yield at, tmp_path / str(at)
        if CRASH.steps <= at:
            assert at > 3
            return
    raise AssertionError("never came to an end")


@pytest.fixture
def store(tmp_path: Path) -> FileStore:
    return FileStore(tmp_path / "root")


# ------------------------------------------------------------------------------------------ crashes


def test_a_create_that_crashes_anywhere_leaves_a_whole_slot_or_none(tmp_path: Path) -> None:
    for at, root in every_crash(tmp_path):
        with crash(at):
            FileStore(root).create("deep/slots/0", b"first")

        successor = FileStore(root)
        found = successor.read("deep/slots/0")
        assert found in (None, b"first")
        assert successor.create("deep/slots/0", b"second") is (
            Created.TAKEN if found else Created.WON
        )
        assert [slot.key for slot in successor.list_after("")] == ["deep/slots/0"]


@pytest.mark.parametrize("bodies", [[b"body"], [b"one", b"two", b"three"]])
def test_a_completion_that_crashes_anywhere_can_be_completed_by_another(
    tmp_path: Path, bodies: list[bytes]
) -> None:
    for at, root in every_crash(tmp_path):
        upload = uploaded(FileStore(root), "deep/data/1", bodies)
        with crash(at):
            FileStore(root).complete(upload)

        successor = FileStore(root)
        seen = successor.stat("deep/data/1")
        assert seen is None or (seen.token, seen.size) == ("token-1", upload.size)
        successor.complete(upload)
        assert content(successor, "deep/data/1") == b"".join(bodies)
        assert list(successor.open_uploads("")) == []


def test_a_completion_that_crashed_can_be_given_up_and_made_again(tmp_path: Path) -> None:
    for at, root in every_crash(tmp_path):
        first = uploaded(FileStore(root), "data/1", [b"body"])
        with crash(at):
            FileStore(root).complete(first)
        successor = FileStore(root)
        successor.abort("data/1", first.upload_id)

        if successor.stat("data/1") is None:
            again = uploaded(successor, "data/1", [b"body"], "token-2")
            successor.complete(again)
            with pytest.raises(Stalled, match="another object is there"):
                successor.complete(first)

        assert content(successor, "data/1") == b"body"


@pytest.mark.parametrize("bodies", [[b"body"], [b"one", b"two", b"three"]])
def test_a_retirement_that_crashes_anywhere_is_finished_by_another(
    tmp_path: Path, bodies: list[bytes]
) -> None:
    for at, root in every_crash(tmp_path):
        upload = uploaded(FileStore(root), "deep/data/1", bodies)
        FileStore(root).complete(upload)
        with crash(at):
            FileStore(root).retire(upload)

        successor = FileStore(root)
        seen = successor.stat("deep/data/1")
        assert seen is None or (seen.token, seen.size) == ("token-1", upload.size)
        successor.retire(upload)
        assert_retired(root, upload)


@pytest.mark.parametrize("bodies", [[b"body"], [b"one", b"two", b"three"]])
def test_an_object_that_retires_at_any_step_of_a_completion_stays_away(
    tmp_path: Path, bodies: list[bytes]
) -> None:
    for at, root in every_crash(tmp_path):
        upload = uploaded(FileStore(root), "data/1", bodies)

        with interruption(at, partial(FileStore(root).retire, upload)):
            with suppress(Retry, UploadLost):
                FileStore(root).complete(upload)
            # What follows must not count as a step.
            CRASH.armed = False

        if CRASH.steps > at:
            assert FileStore(root).stat("data/1") is None
        FileStore(root).retire(upload)
        assert_retired(root, upload)


def assert_retired(root: Path, upload: Upload) -> None:
    with pytest.raises(UploadLost):
        FileStore(root).complete(upload)
    assert [path for path in root.rglob("*") if path.is_file()] == []


def test_parts_that_crash_anywhere_are_not_there_or_whole(tmp_path: Path) -> None:
    for at, root in every_crash(tmp_path):
        done: list[Upload] = []
        with crash(at):
            done.append(uploaded(FileStore(root), "data/1", [b"one", b"two"]))

        successor = FileStore(root)
        assert successor.stat("data/1") is None
        for upload in done:
            successor.complete(upload)
            assert content(successor, "data/1") == b"onetwo"
        for left in successor.open_uploads(""):
            successor.abort(left.key, left.upload_id)
        assert list(successor.open_uploads("")) == []


def test_what_a_crashed_writer_left_is_swept_after_a_day(store: FileStore, tmp_path: Path) -> None:
    store.create("slots/0", b"x")
    left = tmp_path / "root" / STAGING / "new" / "left"
    left.write_bytes(b"half")
    FileStore(tmp_path / "root")
    young = left.exists()

    two_days_ago = time.time() - 2 * 86400
    os.utime(left, (two_days_ago, two_days_ago))
    FileStore(tmp_path / "root")

    assert (young, left.exists()) == (True, False)


# -------------------------------------------------------------------------------------------- paths


@pytest.mark.parametrize(
    "key", ["", "/etc/passwd", "../up", "a/../../up", "a//b", "a/.", "a/", f"{STAGING}/new", "a\0b"]
)
def test_a_key_cannot_leave_the_root(store: FileStore, key: str) -> None:
    for use in (
        store.read,
        store.stat,
        store.open,
        lambda key: store.create(key, b"x"),
        lambda key: store.begin(key, "t"),
    ):
        with pytest.raises(ValueError, match="not a key of a file store"):
            use(key)


@pytest.mark.parametrize("upload_id", ["", "..", "../../up", "upload-1"])
def test_an_upload_id_cannot_leave_the_staging_folder(store: FileStore, upload_id: str) -> None:
    with pytest.raises(ValueError, match="not an upload id of a file store"):
        store.abort("data/1", upload_id)


def test_a_key_below_an_object_is_refused(store: FileStore) -> None:
    store.create("a", b"x")

    with pytest.raises(StoreDenied, match="an object is where a folder is needed"):
        store.create("a/b", b"x")


def test_an_object_in_place_of_a_folder_is_refused(store: FileStore) -> None:
    store.create("a/b", b"x")

    with pytest.raises(StoreDenied, match="a folder is where an object is needed"):
        store.create("a", b"x")
    with pytest.raises(StoreDenied, match="a folder is where an object is needed"):
        store.complete(uploaded(store, "a"))


def test_a_name_too_long_for_the_file_system_is_refused(store: FileStore) -> None:
    with pytest.raises(StoreDenied, match="File name too long"):
        store.create("a" * 300, b"x")


# ------------------------------------------------------------------------------------------ objects


def test_an_open_upload_never_replaces_another_object(store: FileStore) -> None:
    mine, theirs = (
        uploaded(store, "data/1", [b"mine"]),
        uploaded(store, "data/1", [b"theirs"], "token-2"),
    )
    store.complete(theirs)

    with pytest.raises(Stalled, match="another object is there"):
        store.complete(mine)
    assert content(store, "data/1") == b"theirs"


def test_an_open_upload_never_replaces_a_foreign_file(store: FileStore, tmp_path: Path) -> None:
    mine = uploaded(store, "data/1", [b"mine"])
    (tmp_path / "root" / "data").mkdir(parents=True)
    (tmp_path / "root" / "data" / "1").write_bytes(b"them")

    with pytest.raises(Stalled, match="token none, 4 bytes"):
        store.complete(mine)
    assert content(store, "data/1") == b"them"


def test_an_aborted_upload_with_a_claim_gives_way_to_the_next(
    store: FileStore, tmp_path: Path
) -> None:
    """The first dies between its claim of the key and its object; while it is open, nobody may pass
    it by.
    """
    first, second = (
        uploaded(store, "data/1", [b"first"]),
        uploaded(store, "data/1", [b"again"], "token-2"),
    )
    assert crashed_after_claim(first, tmp_path / "root")

    with pytest.raises(
        Stalled, match=r"claimed by upload .* with token token-1, which is still open"
    ):
        store.complete(second)
    store.abort("data/1", first.upload_id)
    store.complete(second)

    found = store.stat("data/1")
    assert (content(store, "data/1"), found and found.token) == (b"again", "token-2")


def crashed_after_claim(upload: Upload, root: Path) -> bool:
    owners = root / STAGING / "owners"
    for at in range(100):
        with crash(at):
            FileStore(root).complete(upload)
        if any(owners.rglob("*.json")):
            return not (root / upload.key).exists()
    return False


def test_a_store_that_is_only_read_writes_nothing(tmp_path: Path) -> None:
    store = FileStore(tmp_path / "root")

    assert (
        store.read("a"),
        store.stat("a"),
        [*store.list_after("")],
        [*store.open_uploads("")],
    ) == (
        None,
        None,
        [],
        [],
    )
    assert not (tmp_path / "root").exists()
