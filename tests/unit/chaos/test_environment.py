"""The environment of a chaos run, without a node."""

import shutil
from pathlib import Path

from tests.chaos.environment import pod_logs


def test_logs_of_pods_that_go_meanwhile_are_passed_over(tmp_path: Path) -> None:
    for pod in ("a", "b", "c"):
        (tmp_path / pod / "driver").mkdir(parents=True)
        (tmp_path / pod / "driver" / "0.log").write_text("started")
        (tmp_path / pod / "driver" / "0.log.20261129").write_text("rotated")

    logs = pod_logs(tmp_path)
    found = [next(logs)]
    gone, *_ = {"a", "b", "c"} - {found[0].parts[-3]}
    shutil.rmtree(tmp_path / gone)
    found += logs

    assert {log.parts[-3] for log in found} == {"a", "b", "c"} - {gone}
    assert {log.name for log in found} == {"0.log"}
