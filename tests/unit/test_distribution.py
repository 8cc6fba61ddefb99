"""No text leads to a package of somebody else: the package index has another `landfall`."""

import re
import tomllib
from importlib.metadata import metadata

import pytest

from landfall.errors import DISTRIBUTION, how_to_install
from tests.support.processes import ROOT

INSTALLS = re.compile(r"pip3? install[^\n`]*[ '\"]landfall(?![-_/\w])|[^-.\w]landfall\[[a-z]")
PROJECT = tomllib.loads((ROOT / "pyproject.toml").read_text())["project"]


def texts() -> list[str]:
    folders = ("docs", "spark_app", "operator", "charts", "dev", "docker")
    suffixes = {".py", ".md", ".yaml", ".txt", ".tpl", ".sh", ""}
    files = [path for folder in folders for path in (ROOT / folder).rglob("*") if path.is_file()]
    pages = [ROOT / name for name in ("README.md", "CONTRIBUTING.md", "Dockerfile", "Makefile")]
    return [
        str(path.relative_to(ROOT))
        for path in (*files, *pages)
        if path.suffix in suffixes and "__pycache__" not in path.parts
    ]


def test_no_text_installs_the_package_of_that_name() -> None:
    wrong = {
        f"{file}: {found[0]}"
        for file in texts()
        for found in INSTALLS.finditer((ROOT / file).read_text("utf-8", errors="replace"))
    }

    assert wrong == set()


@pytest.mark.parametrize(
    "text",
    [
        "pip install landfall",
        "pip install 'landfall[sql]'",
        "take `landfall[gcs]`",
        "pip install -U landfall ",
    ],
)
def test_such_a_text_is_found(text: str) -> None:
    assert INSTALLS.search(text)


@pytest.mark.parametrize(
    "text", ["pip install '.[sql]'", "pip install landfall-kafka", "import landfall"]
)
def test_others_are_not(text: str) -> None:
    assert not INSTALLS.search(text)


def test_the_name_is_that_of_the_project_and_of_what_is_installed() -> None:
    assert PROJECT["name"] == DISTRIBUTION
    assert metadata(DISTRIBUTION)["Name"] == DISTRIBUTION


def test_the_message_names_an_extra_that_there_is() -> None:
    for extra in PROJECT["optional-dependencies"]:
        assert how_to_install(extra).startswith(f"install the extra {extra} of landfall-kafka")
