"""What a record means is said once: types of records are matched in few modules, each for a reason.

A module that matches them elsewhere would have to be changed with each new type, and would disagree
with the others until it was (docs/adr/0085).
"""

import ast
from collections.abc import Iterator
from functools import cache
from pathlib import Path
from typing import get_args

from landfall.ledger import Record

ROOT = Path(__file__).parents[3]
PACKAGES = (
    "spark_app/landfall",
    "spark_app/pyspark_landfall",
    "operator/landfall_operator",
    "migrate/landfall_migrate",
)
MAY = {
    "ledger/effects.py": "says what each record does, for all other readers",
    "ledger/folding.py": "the state fold",
    "ledger/completeness.py": "part of the state fold: FINALIZE",
    "ledger/feeds/leases.py": "part of the state fold: leases",
    "ledger/segments.py": "indexes records by what they are about",
    "cli/look/log_entries.py": "the text of records",
    "checks/chain.py": "fsck counts by itself, to find faults of the fold",
    "checks/leases.py": "fsck, likewise",
    "checks/stored.py": "fsck: what records name",
    "cli/objects/fsck.py": "fsck",
    "lane/reading.py": "finds the SNAPSHOT that a hint names",
    "lane/writing.py": "finds the OPEN of another writer",
}
TYPES = frozenset(each.__name__ for each in get_args(Record))


def matches(source: str) -> Iterator[tuple[int, str]]:
    """Where a module asks for the type of a record: the line, and the type."""
    tree = ast.parse(source)
    from_ledger = {
        alias.asname or alias.name: alias.name
        for node in ast.walk(tree)
        if isinstance(node, ast.ImportFrom)
        and node.module in {"landfall.ledger", "landfall.ledger.records"}
        for alias in node.names
    }
    for node in ast.walk(tree):
        match node:
            case ast.MatchClass(cls=asked):
                candidates = [asked]
            case ast.Call(func=ast.Name(id="isinstance"), args=[_, asked]):
                candidates = [*ast.walk(asked)]
            case _:
                continue
        for each in candidates:
            match each:
                case ast.Name(id=name) if from_ledger.get(name) in TYPES:
                    yield each.lineno, from_ledger[name]
                case ast.Attribute(value=ast.Name(id="ledger" | "records"), attr=name) if (
                    name in TYPES
                ):
                    yield each.lineno, name
                case _:
                    pass


@cache
def found() -> dict[str, list[tuple[int, str]]]:
    modules = (path for package in PACKAGES for path in sorted((ROOT / package).rglob("*.py")))
    return {
        str(path.relative_to(ROOT)).removeprefix("spark_app/landfall/"): places
        for path in modules
        if (places := [*matches(path.read_text())])
    }


def test_types_of_records_are_matched_in_these_modules_alone() -> None:
    assert {module: places for module, places in found().items() if module not in MAY} == {}


def test_each_of_these_modules_matches_some() -> None:
    assert MAY.keys() == found().keys()


def test_every_way_to_ask_is_seen() -> None:
    source = """
from landfall import ledger
from landfall.ledger import Commit, Open as Opened, Tp

match record:
    case Commit() | Opened(): ...
isinstance(record, ledger.Drop)
isinstance(record, Commit | ledger.Hole)
isinstance(record, (Tp, int))
"""

    assert sorted(name for _, name in matches(source)) == [
        "Commit",
        "Commit",
        "Drop",
        "Hole",
        "Open",
    ]
