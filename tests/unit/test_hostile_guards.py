"""The guards that `make hostile-guards` removes are where it says, and so are their cases."""

import subprocess
import sys
from pathlib import Path

from tests.hostile.guards import GUARDS, PATH, ROOT

REMOVE_ALL = """
import importlib
from tests.hostile.guards import GUARDS
for guard in GUARDS.values():
    for name, change in guard.modules.items():
        change(importlib.import_module(name))
"""


def test_each_guard_has_a_case() -> None:
    for guard in GUARDS.values():
        file, _, name = guard.case.partition("::")
        text = Path(ROOT, "tests/hostile", file).read_text()
        assert f"def {name.partition('[')[0]}(" in text, guard.case


def test_each_guard_can_be_removed() -> None:
    run = subprocess.run(
        [sys.executable, "-c", REMOVE_ALL],
        env={"PYTHONPATH": PATH},
        cwd=ROOT,
        capture_output=True,
        text=True,
        check=False,
    )

    assert (run.returncode, run.stderr) == (0, "")


def test_a_process_of_the_suite_is_without_the_guard() -> None:
    code = "import landfall.driver.http.control as control; print(control._Handler._authorize)"
    run = subprocess.run(
        [sys.executable, "-c", code],
        env={"PYTHONPATH": PATH, "LANDFALL_HOSTILE_WITHOUT": "signatures"},
        capture_output=True,
        text=True,
        check=False,
    )

    assert "_nothing" in run.stdout, run.stderr
