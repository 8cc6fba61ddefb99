"""``landfall manifest`` lists what is visible, for engines that read objects."""

import json
from pathlib import Path

import duckdb
import pytest

from landfall.cli import main
from tests.support.ledger.readable import CLICKS, Readable

FIRST, SECOND = "dt=2026-11-21/hr=04", "dt=2026-11-21/hr=05"


@pytest.fixture
def landed(tmp_path: Path) -> Readable:
    landed = Readable(tmp_path)
    landed.land(CLICKS, (FIRST, [{"id": 1}]), (SECOND, [{"id": 2}, {"id": 3}])).settle()
    landed.land(CLICKS, (SECOND, [{"id": 4}])).settle()
    landed.land(CLICKS, (SECOND, [{"id": 5}]))
    return landed


def manifest(landed: Readable, *arguments: str) -> int:
    return main(["manifest", landed.url, "--topic", "clicks", *arguments])


def test_urls_of_what_is_visible(landed: Readable, capfd: pytest.CaptureFixture[str]) -> None:
    assert manifest(landed) == 0

    urls = capfd.readouterr().out.splitlines()
    read = duckdb.connect().execute("SELECT list_sort(list(id)) FROM read_parquet($1)", [urls])
    assert read.fetchone() == ([1, 2, 3, 4],)
    assert all(url.startswith(f"{landed.url}/clicks/") for url in urls)


def test_urls_at_a_slot_and_of_an_output_partition(
    landed: Readable, capfd: pytest.CaptureFixture[str]
) -> None:
    assert manifest(landed, "--slot", "3", "--output-partition", SECOND, "--format", "Json") == 0

    found = json.loads(capfd.readouterr().out)
    assert (found["slot"], found["rows"]) == (3, 2)
    assert [file["partition"] for file in found["files"]] == [{"dt": "2026-11-21", "hr": "05"}]


def test_symlink_manifests_name_every_object_once(landed: Readable) -> None:
    assert manifest(landed, "--format", "Symlink", "--write", "--scheme", "s3a") == 0

    folder = landed.root / "landed/clicks/_symlink_format_manifest"
    lists = {str(path.parent.relative_to(folder)): path for path in folder.rglob("manifest")}
    lines = {name: path.read_text().splitlines() for name, path in lists.items()}
    assert {name: len(urls) for name, urls in lines.items()} == {FIRST: 1, SECOND: 2}
    assert all(url.startswith("s3a://") for urls in lines.values() for url in urls)


def test_an_earlier_slot_empties_the_manifests_of_later_output_partitions(
    landed: Readable,
) -> None:
    third = "dt=2026-11-21/hr=06"
    slot = landed.ledger.state.seq - 1
    landed.land(CLICKS, (third, [{"id": 6}])).settle()
    manifest(landed, "--format", "Symlink", "--write")
    path = landed.root / "landed/clicks/_symlink_format_manifest" / third / "manifest"
    assert path.read_text()

    manifest(landed, "--format", "Symlink", "--write", "--slot", str(slot))

    assert not path.read_text()


def test_symlink_manifests_in_a_folder(landed: Readable, tmp_path: Path) -> None:
    assert manifest(landed, "--format", "Symlink", "-o", str(tmp_path / "out")) == 0

    assert len(list((tmp_path / "out/clicks").rglob("manifest"))) == 2
    assert not (landed.root / "landed/clicks/_symlink_format_manifest").exists()


@pytest.mark.parametrize(
    ("arguments", "code", "message"),
    [
        (["--format", "Symlink"], 2, "add --write, or -o FOLDER"),
        (["--write"], 2, "--write is for --format Symlink"),
        (["--slot", "99"], 2, "slot 99 is not in the ledger"),
        (["--topic", "click"], 7, "did you mean clicks?"),
    ],
)
def test_wrong_arguments(
    landed: Readable,
    capfd: pytest.CaptureFixture[str],
    arguments: list[str],
    code: int,
    message: str,
) -> None:
    assert manifest(landed, *arguments) == code

    assert message in capfd.readouterr().err
