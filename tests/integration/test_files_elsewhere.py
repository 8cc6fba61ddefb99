"""Files in Azure, Google Cloud Storage and HDFS are landed in S3 row by row, each row once."""

import gzip
from pathlib import Path

import pytest

from landfall.api.contract import ExitCode
from landfall_audit import PartitionResult, Unchecked
from tests.support.files.feed_scene import TP, FeedScene, once, rows
from tests.support.landing.processes import Processes
from tests.support.places import Place, save_secrets
from tests.support.places.kinds import KINDS, SECRETS
from tests.support.stores.source_files import feed_of

pytestmark = [pytest.mark.xdist_group("drivers"), pytest.mark.full]


@pytest.fixture(params=KINDS)
def place(request: pytest.FixtureRequest, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Place:
    """Where other programs leave files."""
    save_secrets(tmp_path / "secrets", SECRETS)
    monkeypatch.setenv("LANDFALL_SECRETS", str(tmp_path / "secrets"))
    return KINDS[request.param](request.getfixturevalue(request.param))


def test_files_are_landed_whatever_their_names(place: Place, files: FeedScene) -> None:
    place.write("2026/11/b.json.gz", gzip.compress(rows(range(100))))
    place.write("2026/11/a.json", rows(range(100, 300)))
    place.write("2026/12/empty.json", b"")
    assert files.land(**feed_of(place)) is ExitCode.OK
    place.write("2026/11/late.json", rows(range(300, 310)))
    place.write("2026-13.json", rows(range(310, 320)))

    assert files.land(**feed_of(place)) is ExitCode.OK

    assert files.landed() == once(range(320))
    assert files.feed.end == 5
    assert files.faults() == []
    assert files.audit(**feed_of(place)) == PartitionResult(expected=320, found=320)


def test_the_audit_compares_the_version_that_was_landed(place: Place, files: FeedScene) -> None:
    place.write("a/b.csv", b"id,at\n1,2\n3,4\n")
    place.write("a/c.csv", b"id,at\n5,6\n")
    csv = {**feed_of(place), "reader": "Csv"}
    assert files.land(**csv) is ExitCode.OK
    assert files.audit(**csv) == PartitionResult(expected=3, found=3)

    place.delete("a/c.csv")
    place.write("a/b.csv", b"id,at\n7,8\n")

    assert files.audit(**csv) == PartitionResult(unchecked={Unchecked.VERSION: 3})


def test_a_file_that_is_written_anew_before_it_is_read(
    place: Place, files: FeedScene, processes: Processes
) -> None:
    place.write("a.json", rows(range(10)))
    place.write("b.json", rows(range(100, 110)))
    feed = feed_of(place)
    assert processes.struck(files.document(**feed), "KILL after create DISCOVER").end() == -9
    place.write("b.json", rows(range(10, 25)))

    for _ in range(2):  # its part is parked, and then replaced by the new version
        code = files.land(**feed, onChange="Ignore")

    assert code is ExitCode.OK
    assert files.landed() == once(range(25))
    assert files.state().checkpoint[TP] == 3_000_000_000
    assert files.faults() == []
