"""After ``output.format`` was changed, everything that reads objects reads the old ones, too.

Whether ``generation`` was raised with it or not.
"""

from pathlib import Path
from typing import Any

import pytest
import yaml

from landfall.api.contract import ExitCode
from landfall.cli import main
from landfall.reading.groups import LandedGroup
from landfall.store.file import FileStore
from tests.support.driver.slice_landing import TP, click
from tests.support.ledger.landed_group import SEQUENCE_FILES, Backup, merge_of
from tests.support.ledger.sample_ledger import GROUP, LANE

JSON: dict[str, Any] = {"format": "Json", "codec": "None"}
ROWS = [click(o, hour=o % 2) for o in range(40)]


class Scene:
    """Offsets 0 to 20 were landed in one format, those up to 40 in another one."""

    def __init__(self, root: Path, formats: list[dict[str, Any]], generation: int) -> None:
        self.root, self.file = root, root.parent / "group.yaml"
        place = {"url": f"file://{root}"}
        first, second = ({**each, **place} for each in formats)
        self.landed = Backup({TP: ROWS}, first, {}, FileStore(root))
        self.landed.land(0, 20).settle()
        self.landed.open(generation=generation, output=second).land(20, 40).settle()
        document = self.landed.group.model_dump(mode="json", by_alias=True, exclude_defaults=True)
        document |= {"apiVersion": "landfall.dev/v1alpha1", "kind": "ConsumerGroup"}
        self.file.write_text(yaml.safe_dump(document))

    def objects(self) -> list[str]:
        found = sorted(self.root.glob("clicks/*/*/*"))
        return [each.relative_to(self.root).as_posix() for each in found]


@pytest.fixture(params=[1, 2], ids=["same generation", "raised"])
def generation(request: pytest.FixtureRequest) -> int:
    return int(request.param)


@pytest.fixture(params=[True, False], ids=["from Json", "to Json"])
def scene(tmp_path: Path, generation: int, request: pytest.FixtureRequest) -> Scene:
    formats = [JSON, SEQUENCE_FILES]
    return Scene(tmp_path / "root", formats if request.param else formats[::-1], generation)


def test_every_record_is_verified(scene: Scene, capsys: pytest.CaptureFixture[str]) -> None:
    assert main(["verify", str(scene.file)]) == ExitCode.OK
    assert "every record is there exactly once" in capsys.readouterr().out


def test_every_row_is_scanned(scene: Scene, capsys: pytest.CaptureFixture[str]) -> None:
    assert main(["scan", str(scene.file), "--topic", "clicks"]) == ExitCode.OK
    assert capsys.readouterr().out == "scanned 4 objects with 40 rows: nothing is wrong\n"


def test_every_object_is_shown(scene: Scene, capfdbinary: pytest.CaptureFixture[bytes]) -> None:
    for key in scene.objects():
        assert main(["cat", str(scene.file), key]) == ExitCode.OK
        assert len(capfdbinary.readouterr().out.splitlines()) == 10


def test_every_record_is_located(scene: Scene, capsys: pytest.CaptureFixture[str]) -> None:
    for offset in (0, 7, 20, 33):
        assert main(["locate", str(scene.file), "clicks", "3", str(offset)]) == ExitCode.OK
        found = capsys.readouterr().out
        expected = f"hr={offset % 2:02d}/"
        of_range = f"_{offset // 20 * 20:020d}"
        assert any(expected in line and of_range in line for line in found.splitlines()[1:])


def test_every_row_is_read(scene: Scene) -> None:
    group = scene.landed.group
    opened = LandedGroup(scene.landed.store, group.spec.output, (GROUP, LANE), group)

    assert sum(batch.num_rows for batch in opened.scan("clicks").to_batches()) == 40


def test_a_merged_object_is_read_by_the_spec_of_its_rows(tmp_path: Path) -> None:
    root = tmp_path / "root"
    place = {"url": f"file://{root}"}
    landed = Backup({TP: ROWS}, {**SEQUENCE_FILES, **place}, {}, FileStore(root))
    merge = merge_of(landed.land(0, 20).settle())
    landed.open(output={**JSON, **place})
    merge.record().complete()
    for each in merge.retire:
        (root / each.landed.upload.key).unlink()
    landed.land(20, 40).settle()
    opened = LandedGroup(landed.store, landed.group.spec.output, (GROUP, LANE), landed.group)

    assert sum(batch.num_rows for batch in opened.scan("clicks").to_batches()) == 40
