"""Names of classes: in the product each names one class, so that a name is enough to find it."""

import ast
from collections import defaultdict
from collections.abc import Iterator
from pathlib import Path

ROOT = Path(__file__).parents[2]
PRODUCT = (
    "operator/landfall_operator",
    "spark_app/landfall",
    "spark_app/pyspark_landfall",
    "audit/landfall_audit",
    "migrate/landfall_migrate",
    "dev",
)
SHARED = {
    # Each is the options of the one class that its module defines, and is used there alone;
    # the pages of examples are compared with what has this name.
    "Options": {
        "spark_app/landfall/pipeline/decoders",
        "spark_app/landfall/pipeline/transforms",
        "spark_app/landfall/schemas",
        "spark_app/landfall/publish/events",
    },
    # The API of formats as plug-ins, and the record that has the tag BLOCK.
    "Block": {"spark_app/landfall/formats/__init__.py", "spark_app/landfall/ledger/records.py"},
}
"""Names of several classes, and the only files and folders where these are."""


def class_names(source: str) -> Iterator[str]:
    nodes = ast.walk(ast.parse(source))
    return (node.name for node in nodes if isinstance(node, ast.ClassDef))


def files_by_name() -> dict[str, list[str]]:
    found: dict[str, list[str]] = defaultdict(list)
    for package in PRODUCT:
        for path in sorted((ROOT / package).rglob("*.py")):
            for name in class_names(path.read_text()):
                found[name].append(path.relative_to(ROOT).as_posix())
    return found


def is_shared(name: str, file: str) -> bool:
    return any(file == place or file.startswith(f"{place}/") for place in SHARED.get(name, ()))


def test_a_class_has_a_name_of_its_own() -> None:
    used_twice = {
        name: files
        for name, files in files_by_name().items()
        if len(files) > 1 and not all(is_shared(name, file) for file in files)
    }

    assert used_twice == {}, "give the less natural owner of each name a qualifier"


def test_names_that_are_shared_are_still_needed() -> None:
    found = files_by_name()

    unused = {
        (name, place)
        for name, places in SHARED.items()
        for place in places
        if not any(file == place or file.startswith(f"{place}/") for file in found[name])
    }

    assert unused == set()
