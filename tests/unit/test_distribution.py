"""No text leads to a package of somebody else: the package index has another `landfall`.

And each distribution holds what its name says: none needs what another one is for.
"""

import re
import subprocess
import sys
import tomllib
import zipfile
from importlib.metadata import metadata
from pathlib import Path

import pytest

from landfall.api.contract import ExitCode
from landfall.cli import distributions, main
from landfall.errors import DISTRIBUTION, how_to_install
from tests.support.landing.processes import ROOT

INSTALLS = re.compile(r"pip3? install[^\n`]*[ '\"]landfall(?![-_/\w])|[^-.\w]landfall\[[a-z]")
PROJECT = tomllib.loads((ROOT / "pyproject.toml").read_text())["project"]


def texts() -> list[str]:
    folders = ("docs", "spark_app", "operator", "audit", "migrate", "charts", "dev", "docker")
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


# ------------------------------------------------------------------------------ the wheels

FOLDERS = {"landfall-kafka": ".", "landfall-audit": "audit", "landfall-migrate": "migrate"}
PACKAGES = {
    "landfall-kafka": {"landfall", "landfall_operator", "pyspark_landfall"},
    "landfall-audit": {"landfall_audit"},
    "landfall-migrate": {"landfall_migrate"},
}
IMPORTS = re.compile(r"^\s*(?:from|import) (landfall\w*|pyspark_landfall)", re.MULTILINE)
MAY_IMPORT = {**PACKAGES, "landfall-migrate": {"landfall", "landfall_migrate"}}


@pytest.fixture(scope="module")
def wheels(tmp_path_factory: pytest.TempPathFactory) -> dict[str, Path]:
    """The wheels of all distributions, as `pip install` makes them."""
    made = tmp_path_factory.mktemp("wheels")
    for name, folder in FOLDERS.items():
        command = [sys.executable, "-m", "hatchling", "build", "-t", "wheel", "-d", made / name]
        subprocess.run(command, cwd=ROOT / folder, check=True, capture_output=True)
    return {name: next((made / name).glob("*.whl")) for name in FOLDERS}


def sources(wheel: Path) -> dict[str, str]:
    with zipfile.ZipFile(wheel) as archive:
        return {
            name: archive.read(name).decode() for name in archive.namelist() if name.endswith(".py")
        }


@pytest.mark.slow
@pytest.mark.parametrize("name", FOLDERS)
def test_a_wheel_has_its_own_packages_and_imports_no_others(
    name: str, wheels: dict[str, Path]
) -> None:
    texts = sources(wheels[name])

    assert {file.split("/")[0] for file in texts} == PACKAGES[name]
    imported = {package for text in texts.values() for package in IMPORTS.findall(text)}
    assert imported == MAY_IMPORT[name]


@pytest.mark.slow
def test_all_wheels_have_one_version_and_their_license(wheels: dict[str, Path]) -> None:
    assert {wheel.name.split("-")[1] for wheel in wheels.values()} == {
        metadata(DISTRIBUTION)["Version"]
    }
    for wheel in wheels.values():
        with zipfile.ZipFile(wheel) as archive:
            assert [name for name in archive.namelist() if name.endswith("/licenses/LICENSE")]


@pytest.mark.slow
def test_the_auditor_is_imported_without_anything_of_ours(wheels: dict[str, Path]) -> None:
    """All its modules, from its wheel alone."""
    modules = sorted(
        name.removesuffix(".py").removesuffix("/__init__").replace("/", ".")
        for name in sources(wheels["landfall-audit"])
    )
    program = f"""if True:
        import sys
        class None_of_ours:
            def find_spec(self, name, path=None, target=None):
                if name.split(".")[0] in {PACKAGES["landfall-kafka"] | {"landfall_migrate"}}:
                    raise AssertionError(name)
        sys.meta_path.insert(0, None_of_ours())
        sys.path.insert(0, {str(wheels["landfall-audit"])!r})
        import {", ".join(modules)}
        print(landfall_audit.__file__)
    """

    shown = subprocess.run(
        [sys.executable, "-c", program], capture_output=True, text=True, check=True
    )

    assert shown.stdout.startswith(str(wheels["landfall-audit"]))


# ------------------------------------------------------------ commands of other distributions


@pytest.mark.parametrize("command", distributions.SUMMARIES)
@pytest.mark.parametrize("words", [[], ["group.yaml", "--json"], ["secor", "x", "-D", "a=b"]])
def test_a_command_that_is_not_installed_says_what_to_install(
    command: str,
    words: list[str],
    monkeypatch: pytest.MonkeyPatch,
    capsys: pytest.CaptureFixture[str],
) -> None:
    monkeypatch.setattr(distributions, "find_spec", lambda _: None)

    code = main([command, *words])

    assert code == ExitCode.USAGE
    said = capsys.readouterr().err
    assert f"landfall {command} is in the distribution landfall-{command}" in said
    assert f"pip install ./{command}" in said


@pytest.mark.parametrize("command", distributions.SUMMARIES)
def test_help_says_that_a_command_is_not_installed(
    command: str, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.setattr(distributions, "find_spec", lambda _: None)

    with pytest.raises(SystemExit):
        main(["--help"])

    listed = capsys.readouterr().out
    assert re.search(rf"\n +{command} .*\(not installed: landfall-{command}\)", listed)


def test_what_messages_install_is_there() -> None:
    for command in distributions.SUMMARIES:
        project = tomllib.loads((ROOT / command / "pyproject.toml").read_text())["project"]
        assert project["name"] == f"landfall-{command}"


def test_the_summary_is_that_of_the_command(capsys: pytest.CaptureFixture[str]) -> None:
    with pytest.raises(SystemExit):
        main(["--help"])

    listed = capsys.readouterr().out
    for command, summary in distributions.SUMMARIES.items():
        assert re.search(rf"\n +{command} +{re.escape(summary)}\n", listed)
