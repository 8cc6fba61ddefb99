"""Feeds: dead letters that are landed again, and lost uploads that are made again of files."""

from pathlib import Path
from typing import Any, cast

import pytest

from landfall.api.contract import ExitCode
from landfall.errors import Reason
from landfall.store import Created, Store
from tests.support.files.folder_feed import TOPIC, TP, FolderFeed, rows

pytestmark = pytest.mark.slow
MANY_BAD = {"badRecords": {"maxRatio": "1"}}


class Killed(BaseException):
    """Stands for SIGKILL: nothing catches it."""


class DiesAfterCommit:
    """A store whose driver dies once its COMMIT is written: no later call has an effect."""

    def __init__(self, store: Store) -> None:
        self._store, self._dead = store, False

    def __getattr__(self, name: str) -> Any:
        if self._dead:
            raise Killed
        return getattr(self._store, name)

    def create(self, key: str, body: bytes) -> Created:
        answer = self._store.create(key, body)
        self._dead = b'"type":"COMMIT"' in body
        return answer


@pytest.fixture
def files(tmp_path: Path) -> FolderFeed:
    return FolderFeed(tmp_path)


def test_dead_letters_of_files_are_landed_again(
    files: FolderFeed, capsys: pytest.CaptureFixture[str]
) -> None:
    files.put("a.json", rows(range(3)) + b'{"id":"x"}\n' + rows(range(5, 8)))
    columns = {"format": "Json", "columns": [{"name": "id", "type": "Int64"}]}
    assert files.land({**MANY_BAD, "decode": columns}) is ExitCode.OK
    files.put("a.json", b"it is not read again")
    files.group({**MANY_BAD, "generation": 2}, onChange="Ignore")

    assert files.cli("replay-dead-letters", TOPIC, "--why", "mended") == ExitCode.OK

    capsys.readouterr()
    assert files.state().totals.replayed == 1
    files.group({**MANY_BAD, "generation": 2}, onChange="Ignore")
    assert files.cli("fsck", "--deep") == ExitCode.OK
    assert files.cli("verify") == ExitCode.OK


def lose_an_upload(files: FolderFeed, **feed: Any) -> None:
    """Die with rows committed and none visible; then the store loses the upload."""
    with pytest.raises(Killed):
        files.land(store=cast("Store", DiesAfterCommit(files.store())), **feed)
    store = files.store()
    (upload,) = store.open_uploads("")
    store.abort(upload.key, upload.upload_id)


def test_a_lost_upload_is_made_again_of_the_version_that_was_landed(files: FolderFeed) -> None:
    files.put("a.json", rows(range(10)))
    files.put("b.json", rows(range(10, 20)))
    lose_an_upload(files)
    files.put("c.json", rows(range(20, 30)))

    assert files.land() is ExitCode.OK

    assert files.landed() == dict.fromkeys(range(30), 1)
    assert files.cli("fsck", "--deep") == ExitCode.OK


@pytest.mark.parametrize("changed", ["a.json", "b.json"])
def test_a_lost_upload_of_a_version_that_is_gone_blocks_until_somebody_decides(
    files: FolderFeed, changed: str
) -> None:
    files.put("a.json", rows(range(10)))
    files.put("b.json", rows(range(10, 20)))
    lose_an_upload(files, orderedNames=True)
    files.put(changed, rows(range(100, 105)))

    assert files.land(onChange="Ignore") is ExitCode.STALLED

    assert files.landed() == {}
    blocked = files.state().blocked[TP]
    assert blocked.reason is Reason.OBJECT_LOST
    assert "cannot be made again" in blocked.message
    assert files.cli("skip", f"{TOPIC}/0", "--why", "gone") == ExitCode.OK
    assert files.land(onChange="Ignore") is ExitCode.OK
    assert files.state().totals.lost == 20
    assert files.cli("fsck", "--deep") == ExitCode.OK
