"""The Start pages work one after the other, in one shell: what one leaves is in no other's way.

Each page has a test that carries it out, on a broker of its own. Here is what such a test cannot
see: two pages that share a topic, a command that is printed where its file is not, and a variable
that no command of the page has set.
"""

import gzip
import re
from collections import defaultdict
from pathlib import Path

import duckdb
import pytest

from tests.support.pages.markdown import code
from tests.support.pages.start_pages import PAGES, commands

ROOT = Path(__file__).resolve().parents[2]
START = ROOT / "docs" / "start"
SERVERS = re.compile(r"^(\.\./)*dev/[a-z-]+$")
SET_BY_SERVERS = re.compile(r"LANDFALL_\w+|AWS_\w+|PATH|HOST")


def topics(page: Path) -> set[str]:
    """The topics that groups of the page land from Kafka."""
    found = re.findall(r"topics: \[([\w., -]+)\]", page.read_text())
    return {topic.strip() for names in found for topic in names.split(",")}


def test_the_pages_are_those_of_the_navigation() -> None:
    assert {page.name for page in PAGES} == {page.name for page in START.glob("*.md")}


def test_no_two_pages_land_the_same_topic() -> None:
    pages = defaultdict(set)
    for page in PAGES:
        # A cluster has a broker of its own.
        for topic in topics(page) if page.stem != "cluster" else ():
            pages[topic].add(page.name)

    assert {topic: names for topic, names in pages.items() if len(names) > 1} == {}


@pytest.mark.parametrize("page", PAGES, ids=lambda page: page.stem)
def test_programs_of_the_checkout_are_where_the_page_says(page: Path) -> None:
    folder, absent = ROOT, []
    for command in commands(page):
        for part in re.split(r"&&|;", command):
            words = part.split()
            if words[:1] == ["cd"] and (ROOT / words[1]).is_dir():
                folder = ROOT / words[1]
            elif words and SERVERS.match(words[0]) and not (folder / words[0]).is_file():
                absent.append(part)

    assert absent == []


@pytest.mark.parametrize("page", PAGES, ids=lambda page: page.stem)
def test_commands_use_only_variables_that_a_command_has_set(page: Path) -> None:
    known, unset = set[str](), []
    for command in commands(page):
        used = set(re.findall(r"\$\{?([A-Z_]+)", command))
        unset += [f"{name}: {command}" for name in used - known if not SET_BY_SERVERS.match(name)]
        known |= set(re.findall(r"\b([A-Z_]+)=", command))
        if command.startswith('eval "$(python'):
            known |= {"HOUR", "NEXT", "FIRST", "DAY"}

    assert unset == []


@pytest.mark.parametrize("page", PAGES, ids=lambda page: page.stem)
def test_slots_come_from_a_command_and_not_from_the_page(page: Path) -> None:
    assert [typed for typed in commands(page) if re.search(r"SLOT=\d|undo \S+ \d", typed)] == []


@pytest.mark.parametrize("name", ["hourly-etl", "files"])
def test_an_hour_is_text_in_the_afternoon_too(
    name: str, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    """DuckDB takes ``hr=03`` for text and ``hr=14`` for a number, unless it is told."""
    hour = "dt=2026-11-21/hr=14"
    row = '{"at": "2026-11-21T14:00:00Z", "cents": 1, "path": "/"}'
    for folder in ("etl/orders/hour.orders", "etl/clicks/hour.clicks", "flume/out/hits"):
        (tmp_path / folder / hour).mkdir(parents=True)
        for file in (f"{folder}/{hour}/a.json.gz", "flume/in/a.gz"):
            (tmp_path / file).parent.mkdir(parents=True, exist_ok=True)
            (tmp_path / file).write_bytes(gzip.compress(row.encode()))
        query = f"COPY (SELECT 1 AS cents) TO '{tmp_path / folder / hour}/a.parquet'"
        duckdb.connect().execute(query)
    page = next(page for page in PAGES if page.stem == name)
    (program,) = (block.text for block in code(page, "python") if block.text.startswith("# count"))

    exec(program.replace("/tmp/", f"{tmp_path}/"), {})

    types = [line for line in capsys.readouterr().out.splitlines() if "int64" in line]
    assert types
    assert all("varchar" in line for line in types)
