"""The guards that `make hostile-guards` removes are where it says, and so are their cases."""

import re
import subprocess
import sys
from pathlib import Path

from tests.hostile.guards import EVIDENCE, GUARDS, PATH, REASONS, ROOT, file_of, together, write

REMOVE_ALL = """
import importlib
from tests.hostile.guards import GUARDS
for guard in GUARDS.values():
    for name, change in guard.modules.items():
        change(importlib.import_module(name))
"""


def test_each_guard_has_a_case() -> None:
    for guard in GUARDS.values():
        name = guard.case.partition("::")[2]
        text = file_of(guard.case).read_text()
        assert f"def {name.partition('[')[0]}(" in text, guard.case


def test_each_attack_has_a_guard_or_a_reason_why_it_has_none() -> None:
    held = {*(guard.case for guard in GUARDS.values()), *REASONS}
    page = EVIDENCE.read_text()
    for file in sorted(Path(ROOT, "tests/hostile").glob("test_*.py")):
        for name in re.findall(r"^def (test_\w+)\(", file.read_text(), re.MULTILINE):
            case = f"{file.name}::{name}"
            assert any(known.partition("[")[0] == case for known in held), case
    for case in held:
        assert f"| `{case}` |" in page, case


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


def test_guards_that_are_removed_at_once_are_of_different_cases() -> None:
    groups = together(GUARDS)

    assert sorted(name for names in groups for name in names) == sorted(GUARDS)
    for names in groups:
        assert len({GUARDS[name].case for name in names}) == len(names)


def test_rows_of_other_cases_stay(tmp_path: Path) -> None:
    page = tmp_path / "page.md"
    page.write_text(EVIDENCE.read_text())

    write(page, {"signatures": "one"})
    write(page, {"marks": "two | three"})

    rows = [line for line in page.read_text().splitlines() if line.startswith("| `")]
    assert any(GUARDS["signatures"].case in row and row.endswith("| one |") for row in rows)
    assert any(GUARDS["marks"].case in row and row.endswith(r"| two \| three |") for row in rows)
    assert len({row.split("`")[1] for row in rows}) == len(rows)


def test_a_process_of_the_suite_is_without_the_guards() -> None:
    code = (
        "import landfall.driver.http.control as control, landfall.driver.http.server as server;"
        "print(control._Handler._authorize, server.MAX_CONNECTIONS)"
    )
    run = subprocess.run(
        [sys.executable, "-c", code],
        env={"PYTHONPATH": PATH, "LANDFALL_HOSTILE_WITHOUT": "signatures;connections"},
        capture_output=True,
        text=True,
        check=False,
    )

    assert "_nothing" in run.stdout, run.stderr
    assert "1000000" in run.stdout
