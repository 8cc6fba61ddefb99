"""Pages of publishers name the engines that tests open their tables with, and no other version."""

import re
from pathlib import Path

import pytest

from dev.servers import iceberg_catalog
from dev.tools.engines import JARS, PINS

ROOT = Path(__file__).resolve().parents[3]
SMALL = {"duckdb", "polars", "daft"}
PAGES = {
    "iceberg": ("Engines", {"spark", "iceberg", "nessie", "pyiceberg", *SMALL}),
    "delta": ("Readers", {"spark", "delta-spark", "hadoop-aws", "kernel", "deltalake", *SMALL}),
    "hive": ("Engines", {"spark", "duckdb", "polars"}),
}
"""The section of each page, and the engines that it names."""
NAMED = {
    "spark": r"Spark ([\d.]+\d)",
    "iceberg": r"iceberg-(?:spark-runtime|aws-bundle) ([\d.]+\d)",
    "delta-spark": r"delta-spark ([\d.]+\d)",
    "hadoop-aws": r"hadoop-aws ([\d.]+\d)",
    "kernel": r"polars-deltalake ([\d.]+\d)",
    "deltalake": r"`deltalake` ([\d.]+\d)",
    "duckdb": r"DuckDB ([\d.]+\d)",
    "polars": r"polars ([\d.]+\d)",
    "daft": r"daft ([\d.]+\d)",
    "pyiceberg": r"pyiceberg ([\d.]+\d)",
    "nessie": r"Nessie ([\d.]+\d)",
}


def pinned(file: Path) -> dict[str, str]:
    return dict(re.findall(r"^([\w.-]+)==([\w.]+)", file.read_text(), re.MULTILINE))


def versions(page: str) -> dict[str, str]:
    own = pinned(ROOT / "requirements/dev.txt")  # with the Hive metastore
    packages = pinned(PINS)
    jars = {name: version for _, name, version in (artifact.split(":") for artifact in JARS)}
    return {
        "spark": (own if page == "hive" else packages)["pyspark"],
        "iceberg": jars["iceberg-spark-runtime-4.1_2.13"],
        "delta-spark": jars["delta-spark_4.1_2.13"],
        "hadoop-aws": jars["hadoop-aws"],
        "kernel": packages["polars-deltalake"],
        "nessie": iceberg_catalog.VERSION,
        **{name: packages[name] for name in ("deltalake", "duckdb", "polars", "daft", "pyiceberg")},
    }


def section(page: str) -> str:
    text = (ROOT / f"docs/publishers/{page}.md").read_text()
    return text.partition(f"\n## {PAGES[page][0]}\n")[2].partition("\n## ")[0]


@pytest.mark.parametrize("page", PAGES)
def test_a_page_names_engines_in_the_versions_that_open_the_tables(page: str) -> None:
    found = {name: {*re.findall(pattern, section(page))} for name, pattern in NAMED.items()}
    named, known = {name: seen for name, seen in found.items() if seen}, versions(page)

    assert {*named} == PAGES[page][1]
    assert named == {name: {known[name]} for name in named}


def test_engines_of_iceberg_and_delta_are_those_that_are_asked() -> None:
    test = (ROOT / "tests/publishers/test_engines.py").read_text()
    asked = {*re.findall(r'ask\("(\w+)"', test)} | {*re.findall(r"\.(spark|duckdb)\(", test)}
    listed = {*re.findall(r'"(\w+)"', " ".join(re.findall(r"(?:in \(|, \[)(.*?)[\])]", test)))}

    engines = {"spark", "pyiceberg", "duckdb", "polars", "daft", "deltalake", "kernel"}

    assert asked | (listed & engines) == engines
