"""A group whose ledger is in another store than its objects, which knows no conditional creates."""

from dataclasses import replace
from pathlib import Path

import pytest

import landfall
from landfall.api.contract import ExitCode
from landfall.api.spec import Output
from landfall.cli import main
from landfall.errors import Stalled
from tests.support.audit.independent_audit import EXACT, events
from tests.support.landing.group import Scene
from tests.support.landing.processes import Processes

pytestmark = pytest.mark.xdist_group("drivers")

CARELESS = "tests.support.stores.careless_store:CarelessStore"


def test_objects_may_be_in_a_store_that_cannot_keep_a_ledger(
    s3_scene: Scene,
    processes: Processes,
    tmp_path: Path,
    monkeypatch: pytest.MonkeyPatch,
    capsys: pytest.CaptureFixture[str],
) -> None:
    topic = s3_scene.topic()
    s3_scene.kafka.produce(topic, events(range(500)))
    refused = processes.run(s3_scene.document(output={"store": CARELESS}), "--until-caught-up")
    assert refused.end() == ExitCode.STALLED
    assert "StoreUnsafe" in refused.said

    scene = replace(s3_scene, ledger={"url": f"file://{tmp_path}/ledger"})
    landed = processes.run(scene.document(output={"store": CARELESS}), "--until-caught-up")

    assert landed.end() == ExitCode.OK, landed.said
    assert scene.audit() == EXACT
    assert scene.faults() == []
    ledger = sorted(path.name for path in (tmp_path / "ledger" / "_landfall").iterdir())
    assert ledger == ["_probe", "output.json", "owner.json", "scene"]
    in_bucket = {key.split("/")[1] for key in scene.bucket.keys("_landfall/")}
    assert in_bucket == {"ledger.json"}
    group = landfall.open(scene.file(tmp_path))
    assert group.scan(topic).rows == 500
    output = Output.model_validate(scene.bucket.output)
    # A mark in a bucket leads no reader to a folder of its machine.
    with pytest.raises(Stalled, match="open the group's file instead"):
        landfall.open(output.url, s3=output.s3)
    without = processes.run(s3_scene.document(), "--until-caught-up")
    assert without.end() == ExitCode.USAGE
    assert f"is in file://{tmp_path}/ledger: name it" in without.said
    for command in ("fsck", "verify", "audit", "status"):
        assert main([command, str(scene.file(tmp_path))]) == ExitCode.OK, capsys.readouterr()
