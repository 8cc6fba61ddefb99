"""The repository keeps the shape that its tools rely on."""

import os
import re
import subprocess
import sys
import tomllib
from collections.abc import Iterable, Iterator, Mapping
from contextlib import suppress
from importlib import metadata
from pathlib import Path

import pytest
from packaging.requirements import Requirement
from packaging.utils import canonicalize_name

from tests.conftest import LONGEST_GROUPS
from tests.support.images import started

ROOT = Path(__file__).resolve().parents[2]


@pytest.mark.parametrize("folder", ["operator", "tests/operator"])
def test_no_package_shadows_the_standard_librarys_operator(folder: str) -> None:
    assert not (ROOT / folder / "__init__.py").exists(), (
        "with it every `python -m` from the root dies"
    )


def test_python_starts_from_the_root() -> None:
    done = subprocess.run(
        [sys.executable, "-c", "import operator; operator.itemgetter"], cwd=ROOT, check=False
    )

    assert done.returncode == 0


def test_every_make_target_is_documented() -> None:
    makefile = (ROOT / "Makefile").read_text()
    phony = re.search(r"^\.PHONY: (.*)$", makefile, re.MULTILINE)
    assert phony

    documented = set(re.findall(r"^([a-z0-9-]+):.*## ", makefile, re.MULTILINE))

    assert documented == set(phony[1].split()) - {"ready"}


DATA_PLANE = ["spark", "protobuf", "thrift", "jsonschema", "sql", "geoip"]
STORES = ["azure", "gcs", "hdfs"]
PUBLISHERS = ["iceberg", "delta", "hive", "bigquery", "openlineage"]
FILES = [
    "dev.txt",
    "uv.txt",
    "build.txt",
    "operator.txt",
    "spark.txt",
    "stores.txt",
    "publishers.txt",
    "audit.txt",
    "sbom.txt",
    "release.txt",
]


def lines(name: str) -> list[str]:
    text = (ROOT / "requirements" / name).read_text().replace("\\\n", " ")
    return [line for line in text.splitlines() if line and not line.lstrip().startswith("#")]


def pins(name: str) -> dict[str, str]:
    """Versions by package."""
    return dict(re.match(r"([\w.-]+)==(\S+)", line).groups() for line in lines(name))  # type: ignore[union-attr,misc]


def declared() -> dict[str, list[Requirement]]:
    """What pyproject.toml asks for: of all, by extra, and to develop."""
    project = tomllib.loads((ROOT / "pyproject.toml").read_text())
    groups = {"": project["project"]["dependencies"], **project["project"]["optional-dependencies"]}
    return {
        name: list(map(Requirement, texts))
        for name, texts in {**groups, **project["dependency-groups"]}.items()
    }


@pytest.mark.parametrize("name", FILES)
def test_every_requirement_is_pinned_by_version_and_hash(name: str) -> None:
    unpinned = [line for line in lines(name) if not re.match(r"\S+==\S+.*--hash=sha256:", line)]

    assert lines(name)
    assert unpinned == []


@pytest.mark.parametrize(
    ("name", "groups"),
    [
        ("dev.txt", ["", "operator", *DATA_PLANE, *STORES, *PUBLISHERS, "dev"]),
        ("operator.txt", ["", "operator"]),
        ("spark.txt", ["", *DATA_PLANE]),
        ("stores.txt", ["", *STORES]),
        ("publishers.txt", ["", *PUBLISHERS]),
    ],
)
def test_what_is_pinned_is_all_that_is_asked_for_and_nothing_else(
    name: str, groups: list[str]
) -> None:
    pinned, asked = pins(name), declared()
    roots = [requirement for group in groups for requirement in asked[group]]
    more = [Requirement("pyspark")] if name == "spark.txt" else []

    assert wrong(pinned, roots) == []
    assert pinned.keys() - reached([*roots, *more], pinned.keys()) == set()


@pytest.mark.parametrize("name", FILES)
def test_all_of_it_is_what_is_developed_with(name: str) -> None:
    developed = pins("dev.txt")

    assert {package: v for package, v in pins(name).items() if developed.get(package, v) != v} == {}


def test_a_pin_that_does_not_fit_or_is_not_there_is_found() -> None:
    roots = [Requirement("pydantic>=2"), Requirement("rich>=14")]

    assert wrong({"pydantic": "1.10"}, roots) == ["pydantic>=2", "rich>=14"]
    assert "rich" not in reached([Requirement("pydantic")], {"pydantic", "rich"})


def wrong(pinned: Mapping[str, str], roots: Iterable[Requirement]) -> list[str]:
    """What is asked for and not there, or in another version; so also of all that it asks for
    itself.
    """
    found, seen, left = [], set(), list(roots)
    while left:
        requirement = left.pop(0)
        name = canonicalize_name(requirement.name)
        if requirement.marker and not requirement.marker.evaluate():
            continue
        if name not in pinned or pinned[name] not in requirement.specifier:
            found.append(str(requirement))
        elif (name, frozenset(requirement.extras)) not in seen:
            seen.add((name, frozenset(requirement.extras)))
            left += _asked(requirement)
    return found


def reached(roots: Iterable[Requirement], pinned: Iterable[str]) -> set[str]:
    """Packages that any platform needs; what is not installed on this one is believed to be needed
    by who asks for it.
    """
    seen: set[str] = set()
    known, left = set(pinned), list(roots)
    while left:
        requirement = left.pop()
        name = canonicalize_name(requirement.name)
        if name in known and name not in seen:
            seen.add(name)
            left += map(Requirement, _requires(name))
    return seen


def _asked(requirement: Requirement) -> Iterator[Requirement]:
    """By a package, for us here."""
    for text in _requires(requirement.name):
        inner = Requirement(text)
        extras = {"", *requirement.extras}
        if inner.marker is None or any(inner.marker.evaluate({"extra": extra}) for extra in extras):
            inner.marker = None
            yield inner


def _requires(name: str) -> list[str]:
    with suppress(metadata.PackageNotFoundError):
        return metadata.requires(name) or []
    return []


def test_the_wheel_holds_both_packages_and_what_spark_finds() -> None:
    project = tomllib.loads((ROOT / "pyproject.toml").read_text())

    packages = project["tool"]["hatch"]["build"]["targets"]["wheel"]["packages"]

    source = "spark_app/pyspark_landfall"
    assert packages == ["operator/landfall_operator", "spark_app/landfall", source]


def test_images_have_all_that_the_auditor_needs() -> None:
    """It is installed into the image of drivers without its dependencies."""
    project = tomllib.loads((ROOT / "audit/pyproject.toml").read_text())["project"]
    more = [text for texts in project["optional-dependencies"].values() for text in texts]
    pinned = pins("spark.txt") | pins("stores.txt") | pins("publishers.txt")

    assert wrong(pinned, map(Requirement, [*project["dependencies"], *more])) == []


def test_what_is_developed_with_is_what_all_distributions_need() -> None:
    for folder in ("audit", "migrate"):
        project = tomllib.loads((ROOT / folder / "pyproject.toml").read_text())["project"]
        more = [t for texts in project.get("optional-dependencies", {}).values() for t in texts]
        roots = [Requirement(text) for text in [*project["dependencies"], *more]]

        others = [root for root in roots if root.name != "landfall-kafka"]
        assert wrong(pins("dev.txt"), others) == []


@pytest.mark.xdist_group("of its own")
@pytest.mark.skipif("PYTEST_XDIST_WORKER" not in os.environ, reason="there is only one worker")
def test_a_group_of_tests_stays_on_one_worker(request: pytest.FixtureRequest) -> None:
    """pytest-xdist appends the group to the name. With a pytest release that it does not know, it
    groups nothing, and reports no error.
    """
    assert request.node.nodeid.endswith("@of its own")


def test_groups_that_begin_first_are_groups_of_tests() -> None:
    texts = (path.read_text() for path in (ROOT / "tests").rglob("test_*.py"))
    groups = {name for text in texts for name in re.findall(r'xdist_group\("(.+?)"\)', text)}

    assert {*LONGEST_GROUPS} <= groups


def test_images_import_nothing_from_the_working_folder() -> None:
    stages = started()

    assert len(stages) == 2
    unsafe = [stage for stage in stages if "\nENV PYTHONSAFEPATH=1\n" not in stage]
    assert [stage.partition("\n")[0] for stage in unsafe] == []


REACHES_OUT = re.compile(
    r"subprocess\.(run|Popen)\(|import_module\(|resolve_name\(|PoolManager\(|urlopen\(|ClientSession\(|"
    r"load_catalog\(|TSocket\(|create_connection\("
)
"""Calls that start a program, import by name or open a connection."""


def test_each_way_to_a_program_an_import_or_a_connection_is_in_the_table() -> None:
    page = (ROOT / "docs/guides/security.md").read_text()
    table = page.partition("## Who may influence what")[2].partition("\n## ")[0]
    folders = ("spark_app", "operator", "audit", "migrate")
    sources = [file for folder in folders for file in (ROOT / folder).rglob("*.py")]
    reaching = [file for file in sources if REACHES_OUT.search(file.read_text())]
    names = [
        file.relative_to(ROOT / file.relative_to(ROOT).parts[0]).as_posix() for file in reaching
    ]

    missing = [name for name in names if name.removeprefix("landfall/") not in table]

    assert len(names) > 10
    assert missing == []


def test_every_test_that_the_table_of_security_names_is_there() -> None:
    page = (ROOT / "docs/guides/security.md").read_text()
    table = page.partition("## Who may influence what")[2].partition("\n## ")[0]
    known = {file.name for file in (ROOT / "tests").rglob("test_*.py")}

    named = set(re.findall(r"`(?:tests/[\w/]*)?(test_\w+\.py)`", table))
    paths = re.findall(r"`(tests/[\w/]+\.py)`", table)

    assert len(named) > 15
    assert named <= known
    assert all((ROOT / path).is_file() for path in paths)
