"""``landfall cat`` prints dead letters wherever they are, and copies of those that retired."""

import json
from pathlib import Path

import pytest
import yaml

from landfall.api.contract import ExitCode
from landfall.cli import main
from landfall.lane.stores import open_stores
from landfall.ledger.names import object_names
from tests.support.driver.fakes import group
from tests.support.stores.every_store import uploaded
from tests.unit.task.test_dead_letters import GOOD, dead_letters


@pytest.mark.parametrize("is_apart", [False, True])
@pytest.mark.parametrize("copied", ["", "_landfall/fake/0-retired/00000000000000000007/"])
def test_dead_letters_are_printed_by_key_and_by_url(
    tmp_path: Path, capsys: pytest.CaptureFixture[str], copied: str, is_apart: bool
) -> None:
    place = {"url": f"file://{tmp_path}/letters"} if is_apart else {}
    of = group(output={"url": f"file://{tmp_path}/out", "format": "Text"}, badRecords=place)
    present = of.spec.bad_records.present_place
    key = copied + object_names.dead_letter_key(
        "fake", "clicks", 1, 3, 100, place=present.id if present else ""
    )
    store = open_stores(of.spec)
    store.complete(uploaded(store, key, [dead_letters([GOOD])]))
    file = tmp_path / "group.yaml"
    file.write_text(yaml.safe_dump(of.model_dump(mode="json", by_alias=True, exclude_unset=True)))
    root = present.url if present else of.spec.output.url

    for name in (key, f"{root}/{key}"):
        assert main(["cat", str(file), name]) == ExitCode.OK
        (line,) = capsys.readouterr().out.splitlines()
        letter = json.loads(line)
        assert (letter["offset"], letter["value"]) == (100, "x")
