"""The Start pages work one after another, in one shell, as printed, on the servers they start.

Each page has a test that compares all it shows. Here they share a shell, its variables, a broker
and what earlier pages have left, as with somebody who reads them in the order of the navigation.
The copy of the repository is a clean one, with the environment that `make setup` has made.
"""

import os
import shutil
import signal
import subprocess
from collections.abc import Iterator
from pathlib import Path

import pytest

from tests.support.pages.hourly_etl import without_times
from tests.support.pages.markdown import ROOT
from tests.support.pages.start_pages import PAGES, Shell, steps, unexpected

pytestmark = [pytest.mark.full, pytest.mark.xdist_group("spark"), pytest.mark.timeout(3600)]

FOLLOWED = [page for page in PAGES if page.stem != "cluster"]
"""In the order of the navigation. The other one needs a node: ``tests/e2e/test_cluster_page.py``.

``LANDFALL_PAGES=hourly-etl`` chooses among them while one works on a page.
"""
ON_A_NODE = ("make demo-cluster",)
"""Commands that need root and a Kubernetes node; what they print has a test of its own."""


@pytest.fixture
def shell(tmp_path: Path) -> Iterator[Shell]:
    folder = tmp_path / "landfall"
    files = subprocess.run(
        ["git", "ls-files", "-z"], cwd=ROOT, capture_output=True, text=True, check=True
    ).stdout
    for name in filter(None, files.split("\0")):
        if (ROOT / name).is_file():
            (folder / name).parent.mkdir(parents=True, exist_ok=True)
            shutil.copy2(ROOT / name, folder / name)
    (folder / ".venv").symlink_to(ROOT / ".venv")
    own = tmp_path / "tmp"
    own.mkdir()
    made = Shell(folder, own)
    for file in (folder / "examples").rglob("*"):
        if file.suffix in {".py", ".yaml", ".properties", ".json", ".sh", ".sql"}:
            file.write_text(made.mine(file.read_text()))
    yield made
    os.killpg(made.process.pid, signal.SIGTERM)
    made.process.kill()
    for server in ("kafka", "s3", "schema-registry"):
        subprocess.run([folder / "dev" / server, "down"], check=False, capture_output=True)
    subprocess.run(["make", "-s", "demo-clean"], cwd=folder, check=False, capture_output=True)


def follow(page: Path, shell: Shell) -> list[str]:
    """Type the commands of a page; return what went otherwise than the page shows."""
    shell.enter(shell.folder)  # as each page begins in the checkout
    faults = []
    for command, wanted in steps(page):
        if command in ON_A_NODE:
            continue
        shell.write_files(page)
        # It is set up.
        typed = command.replace("make setup && ", "")
        ours = shell.type(typed)
        differs = command.startswith("landfall run") and "Stopped:" in wanted
        if (
            unexpected(ours, wanted)
            or ("exactly once · " in wanted and "exactly once · " not in ours)
            or (differs and without_times(command, ours) != without_times(command, wanted))
        ):
            faults.append(f"{page.stem}: $ {command}\n{ours}\nand not\n{wanted}")
    return faults


def test_the_pages_in_the_order_of_the_navigation(shell: Shell) -> None:
    chosen = {*filter(None, os.environ.get("LANDFALL_PAGES", "").split(","))}

    faults = [
        fault
        for page in FOLLOWED
        if not chosen or page.stem in chosen
        for fault in follow(page, shell)
    ]

    assert not faults, "\n\n".join(faults)
