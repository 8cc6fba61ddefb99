"""The documentation agrees with the code: pages made from it, links, YAML, names of files."""

import ast
import json
import re
import subprocess
import sys
from collections.abc import Callable, Iterable, Iterator, Mapping
from functools import cache
from itertools import pairwise
from pathlib import Path
from pkgutil import resolve_name
from string import Template
from textwrap import dedent
from typing import Any

import jsonschema_rs
import pytest
import yaml

from dev.docs.files import MAKERS
from landfall import registry
from landfall.api import contract
from landfall.api.contract import DriverPhase, ExitCode
from landfall.api.editor_schemas import schema_text
from landfall.api.group_file import expand
from landfall.api.next_steps import NEXT_STEPS, TRUNCATED_STEP
from landfall.api.spec import ConsumerGroup, parse_group
from landfall.api.verbs import VERB_PATHS
from landfall.errors import Reason
from landfall_operator.api import backfill
from landfall_operator.api.change_impact import FIELDS
from landfall_operator.api.status import Stage
from tests.chaos.schedule import Kind
from tests.model.variants import VARIANTS
from tests.support.kubernetes.groups import document
from tests.support.pages.markdown import DOCS, ROOT, anchors, code, links, name, pages, prose


@pytest.mark.parametrize("file", MAKERS)
def test_what_comes_from_the_code_is_what_the_code_makes(file: str) -> None:
    if file.endswith("cli.md") and sys.version_info >= (3, 12):
        pytest.skip(
            "argparse lays its help out otherwise from one Python to the next; the page is 3.11's"
        )

    assert (DOCS / file).read_text() == MAKERS[file](), "run `make crds`"


# ------------------------------------------------------------------------------------- how it reads


def by_page(wrong: Callable[[Path], Iterable[object]]) -> dict[str, list[object]]:
    """What is wrong in each page in which something is."""
    found = {name(page): list(wrong(page)) for page in pages()}
    return {page: faults for page, faults in found.items() if faults}


def test_lines_of_prose_fit_the_screen() -> None:
    def too_long(page: Path) -> list[object]:
        return [f"{number}: {line}" for number, line in prose(page) if len(line) > 120]

    assert by_page(too_long) == {}


def test_a_list_is_one_on_the_site() -> None:
    """Python-Markdown wants an empty line before a list, GitHub does not."""

    def glued(page: Path) -> list[object]:
        return [
            line
            for (_, before), (_, line) in pairwise(prose(page))
            if re.match(r"[-*] |\d+\. ", line) and before
            if not re.match(r" |[-*] |\d+\. |#|<", before)
        ]

    assert by_page(glued) == {}


def test_the_readme_is_short() -> None:
    lines = (ROOT / "README.md").read_text().splitlines()

    assert len(lines) <= 120
    assert [line for line in lines if len(line) > 120] == []


@pytest.mark.parametrize("page", ["README.md", "CONTRIBUTING.md"])
def test_who_begins_is_led_to_the_glossary(page: str) -> None:
    assert "docs/glossary.md" in links(ROOT / page)


# -------------------------------------------------------------------------------------------- links


def test_every_decision_is_in_both_lists() -> None:
    decisions = sorted(path.name for path in (DOCS / "adr").glob("[0-9]*.md"))
    navigation = (ROOT / "mkdocs.yml").read_text()

    assert sorted(re.findall(r"adr/([0-9][^ ]*\.md)$", navigation, re.MULTILINE)) == decisions
    assert sorted(links(DOCS / "adr/README.md")) == decisions


def test_the_guides_are_listed_in_a_few_groups_of_a_few_pages() -> None:
    navigation = yaml.load((ROOT / "mkdocs.yml").read_text(), yaml.BaseLoader)["nav"]
    (guides,) = (section["Guides"] for section in navigation if "Guides" in section)
    groups = {title: pages for each in guides for title, pages in each.items()}

    assert 5 <= len(groups) <= 7
    assert {title: len(pages) for title, pages in groups.items() if not 3 <= len(pages) <= 8} == {}


def test_every_link_leads_somewhere() -> None:
    assert by_page(lambda page: [link for link in links(page) if not _leads(page, link)]) == {}


def _leads(page: Path, link: str) -> bool:
    path, _, anchor = link.partition("#")
    if re.match(r"[a-z]+:", link):
        return link.startswith("https://")
    target = (page.parent / path).resolve() if path else page
    return target.exists() and (not anchor or anchor in anchors(target))


def test_pages_of_the_site_link_to_nothing_outside_of_it() -> None:
    outside = [
        (name(page), link)
        for page in pages()
        for link in links(page)
        if DOCS in page.parents and not re.match(r"[a-z]+:|#", link)
        if DOCS not in (page.parent / link.partition("#")[0]).resolve().parents
    ]

    assert outside == []


def tracked() -> list[Path]:
    listed = subprocess.run(
        ["git", "ls-files", "-z"], cwd=ROOT, check=True, capture_output=True, text=True
    ).stdout
    return [ROOT / file for file in listed.split("\0") if file and (ROOT / file).is_file()]


def test_pages_named_anywhere_in_the_repository_exist() -> None:
    named = re.compile(r"docs/[\w/.-]+\.md(?:#[\w-]+)?")
    dead = [
        (name(file), link)
        for file in tracked()
        if file.suffix in {".py", ".yaml", ".yml", ".json", ".md", ".toml", ".tpl", ".txt", ""}
        for link in named.findall(file.read_text(errors="ignore"))
        if not _leads(ROOT / "README.md", link)
    ]

    assert dead == []


TOP = "tests|examples|charts|dev|docker|requirements|operator|spark_app"


def test_files_that_pages_name_exist() -> None:
    named = re.compile(rf"`((?:{TOP})/[\w./-]*[\w/])(?:::(\w+))?`")

    def absent(page: Path) -> list[object]:
        found = named.findall(page.read_text())
        return [(path, test) for path, test in found if not _is_there(ROOT / path, test)]

    assert by_page(absent) == {}


def _is_there(file: Path, function: str) -> bool:
    if not function:
        return file.exists()
    return file.is_file() and function in _functions(file)


@cache
def _functions(file: Path) -> set[str]:
    return {
        node.name
        for node in ast.walk(ast.parse(file.read_text()))
        if isinstance(node, ast.FunctionDef | ast.AsyncFunctionDef)
    }


FINDINGS = {
    "evidence/replacing.md": [*map(str, range(1, 19)), "A1"],
    "evidence/edges.md": [
        f"{kind}{number}"
        for kind, numbers in {
            "H": range(1, 6),
            "M": range(1, 10),
            "L": range(1, 14),
            "A": range(8),
            "B": range(1, 16),
            "C": range(1, 16),
        }.items()
        for number in numbers
    ],
}
"""What the reviews found, by the page with the tests that hold it."""


@pytest.mark.parametrize("page", FINDINGS)
def test_every_finding_has_tests_that_exist_or_a_reason(page: str) -> None:
    text = (DOCS / page).read_text()
    rows = re.findall(r"^\| (\w+)\. .* \| (.*) \|$", text, re.MULTILINE)
    tests = re.findall(r"`([\w/]+\.py)::(\w+)`", text)

    assert sorted(finding for finding, _ in rows) == sorted(FINDINGS[page])
    assert all(last.strip() for _, last in rows)
    assert [test for test in tests if not _is_there(ROOT / "tests" / test[0], test[1])] == []


def test_names_of_python_in_pages_exist() -> None:
    named = re.compile(r"`(landfall(?:_operator)?(?:\.\w+)+)`")

    def absent(page: Path) -> list[object]:
        return [text for text in named.findall(page.read_text()) if not _resolves(text)]

    assert by_page(absent) == {}


@cache
def _resolves(text: str) -> bool:
    try:
        resolve_name(text)
    except (ImportError, AttributeError):
        return False
    return True


def test_the_example_of_a_test_of_a_plug_in_passes() -> None:
    page = DOCS / "guides/extending.md"
    (group, *_), (*_, program) = code(page, "yaml"), code(page, "python")

    exec(program.text, {"group": _group(yaml.safe_load(group.text))})


def test_helm_gets_a_registry_wherever_a_page_installs_the_chart() -> None:
    def without(page: Path) -> list[object]:
        text = re.sub(r"\\\n\s*", "", page.read_text())
        lines = re.findall(
            r"^.*helm (?:install|upgrade --install) .*charts/landfall.*", text, re.MULTILINE
        )
        return [line for line in lines if "image.registry=" not in line]

    assert by_page(without) == {}


def test_make_targets_that_pages_name_exist() -> None:
    targets = set(re.findall(r"^([a-z0-9-]+):", (ROOT / "Makefile").read_text(), re.MULTILINE))
    named = re.compile(r"(?:`|^|\$ )make ([a-z0-9-]+)", re.MULTILINE)

    assert by_page(lambda page: sorted({*named.findall(page.read_text())} - targets)) == {}


# --------------------------------------------------------------------------------------------- YAML

CHART = ROOT / "charts/landfall"
VALUES: dict[str, Any] = json.loads((CHART / "values.schema.json").read_text())


FILLED = {"LANDFALL_KAFKA": "127.0.0.1:9092", "LANDFALL_S3": "http://127.0.0.1:9000", "BUCKET": "b"}


def documents() -> Iterator[tuple[str, Any]]:
    """Every YAML document in the pages, the examples and the chart's notes, and where it is."""
    texts = {
        f"{name(page)}-{number}": block.text
        for page in pages()
        for number, block in enumerate(code(page, "yaml"), 1)
    }
    texts |= {name(file): file.read_text() for file in sorted((ROOT / "examples").rglob("*.yaml"))}
    notes = (CHART / "templates/NOTES.txt").read_text()
    texts["NOTES.txt"] = dedent(notes.partition("<<'YAML'\n")[2].partition("  YAML")[0])
    for source, text in texts.items():
        for each in yaml.load_all(Template(text).safe_substitute(FILLED), yaml.CSafeLoader):
            yield source, each


def test_yaml_is_a_resource_or_values_of_the_chart(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("LANDFALL_SECRETS", str(ROOT / "tests/support/secrets"))
    checked, wrong = set(), {}
    for source, written in documents():
        checked.add(source)
        try:
            _check(written)
        except Exception as error:  # noqa: BLE001  # each is told with its document
            wrong[source] = f"{type(error).__name__}: {error}"

    assert wrong == {}
    assert {"README.md-1", "examples/demo/lake.yaml", "NOTES.txt"} <= checked


def _check(written: Any) -> None:
    """Check a document whose variables are not filled in."""
    assert isinstance(written, dict)
    if written.keys() <= VALUES["properties"].keys():
        assert list(_unknown(VALUES, written)) == []
    elif written.get("kind") == backfill.KIND:
        assert backfill.parsed(written["spec"])[1] == ""
        assert _in_editors(written) == []
    else:
        assert _in_editors(_whole(written)) == []
        group = _group(expand(written, {}))
        if "shop.steps" not in json.dumps(written):  # which a page only names
            registry.check_spec(group)


def _group(written: Any) -> ConsumerGroup:
    """A group, or a part of one in its place in a small one."""
    return parse_group(_whole(written))


def _whole(written: Any) -> dict[str, Any]:
    if "kind" in written:
        return written
    part = written if "spec" in written else {"spec": written}
    return _laid_over(document("example", decode__format="Json"), part)


def _in_editors(resource: dict[str, Any]) -> list[str]:
    """What the schema for editors finds wrong."""
    errors = _editor_schema(resource["kind"]).iter_errors(resource)
    return [f"{'.'.join(map(str, error.instance_path))}: {error.message}" for error in errors]


@cache
def _editor_schema(kind: str) -> jsonschema_rs.Validator:
    return jsonschema_rs.validator_for(json.loads(schema_text(kind)))


def _laid_over(base: Mapping[str, Any], more: Mapping[str, Any]) -> dict[str, Any]:
    """A part of a group in its place in a small one."""
    merged = {
        key: _laid_over(base[key], value) if isinstance(base.get(key), dict) else value
        for key, value in more.items()
    }
    return {**base, **merged}


def _unknown(schema: dict[str, Any], values: dict[str, Any], path: str = "") -> Iterator[str]:
    """Keys that the chart would refuse."""
    for key, value in values.items():
        node = schema.get("properties", {}).get(key)
        if node is None and schema.get("additionalProperties") is False:
            yield f"{path}{key}"
        elif isinstance(value, dict) and node is not None:
            yield from _unknown(node, value, f"{path}{key}.")


def test_a_key_that_the_chart_does_not_know_is_found() -> None:
    assert [*_unknown(VALUES, {"image": {"registri": "x"}})] == ["image.registri"]


# ------------------------------------------------------------------------------------------- tables


def table(page: str, heading: str) -> list[list[str]]:
    """The cells of the table with this head, without their backticks."""
    rows = (DOCS / page).read_text().partition(f"\n{heading}\n")[2].partition("\n\n")[0]
    return [[c.strip() for c in row.strip("|").split("|")] for row in rows.splitlines()[1:]]


def test_every_exit_code_is_explained() -> None:
    rows = table("reference/exit-codes.md", "| exit code | meaning | what to do |")

    assert [int(row[0]) for row in rows] == sorted(ExitCode)


def test_every_path_of_a_driver_is_explained() -> None:
    control = {contract.EXECUTORS_PATH, contract.YIELD_PATH, contract.OPEN_PATH, *VERB_PATHS}
    shown = (DOCS / "reference/http.md").read_text()

    assert control == set(re.findall(r"^\| `(/control/[\w-]+)`", shown, re.MULTILINE))


def test_the_guide_to_stopped_topic_partitions_names_the_next_steps() -> None:
    head = "| what happened | reason | command | the ledger gets |"
    rows = table("guides/stopped-topic-partitions.md", head)
    documented = {
        (reason, f"landfall {verb}")
        for _, reasons, commands, _ in rows
        for reason in re.findall(r"`(\w+)`", reasons)
        for verb in re.findall(r"`landfall ([\w-]+)", commands)
    }
    steps = {(reason, " ".join(step.split()[:2])) for reason, step in NEXT_STEPS.items()}

    assert steps | {(Reason.DATA_LOSS, " ".join(TRUNCATED_STEP.split()[:2]))} <= documented


def test_what_a_change_leads_to_is_what_the_operator_decides() -> None:
    rows = table("guides/change-a-group.md", "| change | what happens | fields |")

    assert {
        field: change for change, _, fields in rows for field in re.findall(r"`([\w.]+)`", fields)
    } == {field: str(change) for field, change in FIELDS.items()}


def test_every_stage_has_its_drivers_and_its_end() -> None:
    rows = table("concepts/handover.md", "| stage | drivers | ends when |")

    shown = {stage for row in rows for stage in row[0].split(", ")}
    assert shown == set(Stage) - {Stage.DELETED}


def test_every_rule_of_the_protocol_has_its_row() -> None:
    rows = table("evidence/model.md", "| rule | without it | `--variant` |")

    assert {name for row in rows for name in re.findall(r"`([\w-]+)`", row[2])} == set(VARIANTS)


def test_the_faults_of_a_chaos_run_are_those_that_there_are() -> None:
    rows = table("evidence/chaos.md", "| fault | times | fault | times | fault | times |")

    assert {fault for row in rows for fault in row[::2]} - {"---", ""} == set(Kind)


def test_every_phase_of_a_driver_is_explained() -> None:
    rows = table("concepts/handover.md", "| phase | the driver |")

    assert {phase for row in rows for phase in re.findall(r"`(\w+)`", row[0])} == set(DriverPhase)


# ------------------------------------------------------------------------------ what programs print


def test_what_a_program_printed_says_which_command_made_it() -> None:
    unsaid = [
        (name(page), block.text.splitlines()[0])
        for page in pages()
        if name(page) not in TESTED
        for block in code(page, "console")
        if not block.made_by and _shows_output(block.text)
    ]

    assert unsaid == []


def _shows_output(text: str) -> bool:
    """Whether there is more than what one types, perhaps on several lines."""
    typed = text.replace("\\\n", "").splitlines()
    return not all(line.startswith("$ ") for line in typed)


TESTED = {"docs/reference/consumer-group.md", "docs/reference/cli.md"}
"""Pages whose blocks a test compares with what is printed."""


def test_the_story_of_a_rule_is_the_one_that_the_model_tells() -> None:
    (block,) = code(DOCS / "evidence/model.md", "console")
    command, _, shown = block.text.partition("\n")
    arguments = command.removeprefix("$ python ").split()

    done = subprocess.run(
        [sys.executable, *arguments], cwd=ROOT, capture_output=True, text=True, check=True
    )

    assert done.stdout.strip() == shown.strip()


@pytest.mark.parametrize(
    ("command", "folders"), [("make demo", ("demo",)), ("make demo-cluster", ("demo", "tour"))]
)
def test_phases_of_a_demo_have_the_names_that_the_page_shows(
    command: str, folders: tuple[str, ...]
) -> None:
    sources = "".join(
        file.read_text() for folder in folders for file in (ROOT / "dev" / folder).glob("*.py")
    )
    shown = [block.text for page in pages() for block in code(page) if block.made_by == command]
    titles = {title for text in shown for title in re.findall(r"^\d+  (.+)$", text, re.MULTILINE)}

    assert titles
    assert [title for title in titles if _as_written(title) not in sources] == []


def _as_written(title: str) -> str:
    """A phase's title as it is in the program, where numbers and topics are filled in."""
    written = title.replace("336,776", "{flights.COUNT:,}").replace("S3 server", "{name} server")
    return written.replace("flights.EWR, flights.JFK, flights.LGA", "{topics}")


@pytest.mark.parametrize(
    ("heading", "package"),
    [("The data plane", "spark_app/landfall"), ("The operator", "operator/landfall_operator")],
)
def test_the_architecture_names_every_package_and_no_other(heading: str, package: str) -> None:
    section = (DOCS / "architecture.md").read_text().partition(f"## {heading}\n")[2]
    rows = section.partition("\n## ")[0].splitlines()
    cells = [row.split("|")[1] for row in rows if row.startswith("| `")]
    documented = {name for cell in cells for name in re.findall(r"`(\w+)`", cell)}

    modules = {path.stem for path in (ROOT / package).glob("*.py")} - {"__init__", "__main__"}
    packages = {path.parent.name for path in (ROOT / package).glob("*/__init__.py")}

    assert documented == modules | packages
