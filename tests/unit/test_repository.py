"""The repository keeps the shape that its tools rely on."""

import os
import re
import subprocess
import sys
import tomllib
from pathlib import Path

import pytest

ROOT = Path(__file__).resolve().parents[2]


@pytest.mark.parametrize("folder", ["operator", "tests/operator"])
def test_no_package_shadows_the_standard_librarys_operator(folder: str) -> None:
    assert not (ROOT / folder / "__init__.py").exists(), "with it every `python -m` from the root dies"


def test_python_starts_from_the_root() -> None:
    done = subprocess.run([sys.executable, "-c", "import operator; operator.itemgetter"], cwd=ROOT, check=False)

    assert done.returncode == 0


def test_every_make_target_is_documented() -> None:
    makefile = (ROOT / "Makefile").read_text()
    phony = re.search(r"^\.PHONY: (.*)$", makefile, re.MULTILINE)
    assert phony

    documented = set(re.findall(r"^([a-z0-9-]+):.*## ", makefile, re.MULTILINE))

    assert documented == set(phony[1].split()) - {"ready"}


@pytest.mark.parametrize("name", ["dev.txt", "uv.txt", "build.txt", "operator.txt", "spark.txt"])
def test_every_requirement_is_pinned_by_version_and_hash(name: str) -> None:
    lines = (ROOT / "requirements" / name).read_text().replace("\\\n", " ").splitlines()
    requirements = [line for line in lines if line and not line.lstrip().startswith("#")]

    unpinned = [line for line in requirements if not re.match(r"\S+==\S+.*--hash=sha256:", line)]

    assert requirements
    assert unpinned == []


def test_the_wheel_holds_both_packages() -> None:
    project = tomllib.loads((ROOT / "pyproject.toml").read_text())

    packages = project["tool"]["hatch"]["build"]["targets"]["wheel"]["packages"]

    assert packages == ["operator/landfall_operator", "spark_app/landfall"]


@pytest.mark.xdist_group("of its own")
@pytest.mark.skipif("PYTEST_XDIST_WORKER" not in os.environ, reason="there is only one worker")
def test_a_group_of_tests_stays_on_one_worker(request: pytest.FixtureRequest) -> None:
    """pytest-xdist tells it by the name, and with a pytest it does not know, it says nothing and groups nothing."""
    assert request.node.nodeid.endswith("@of its own")
