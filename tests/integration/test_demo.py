"""``make demo``, the README's first command, ends with the exact count."""

import os
import subprocess
import sys
from pathlib import Path


def test_the_demo_lands_every_flight_once_through_a_kill(tmp_path: Path) -> None:
    env = {
        name: value
        for name, value in os.environ.items()
        if name not in {"LANDFALL_KAFKA", "LANDFALL_S3"}
    }
    command = [sys.executable, "-m", "dev.demo", "--stop", "--state", str(tmp_path / "demo")]

    done = subprocess.run(command, env=env, capture_output=True, text=True, check=False)

    assert done.returncode == 0, done.stdout + done.stderr
    assert "kill -9" in done.stdout
    assert "0 missing, 0 duplicate" in done.stdout
    assert done.stdout.count(": 104,662 flights, 104,662 ids") == 2  # by DuckDB, by Spark
