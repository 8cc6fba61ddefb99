"""Modules that say "Pure." do no I/O: each is held to that word by what it imports and calls."""

import ast
from collections.abc import Iterator
from pathlib import Path

import pytest

ROOT = Path(__file__).parents[2]
PACKAGES = ("spark_app", "operator")
IMPURE = {
    "aiohttp",
    "asyncio",
    "boto3",
    "botocore",
    "concurrent",
    "confluent_kafka",
    "kopf",
    "kubernetes",
    "logging",
    "os",
    "pathlib",
    "prometheus_client",
    "pyspark",
    "random",
    "requests",
    "rich",
    "secrets",
    "socket",
    "stamina",
    "subprocess",
    "threading",
    "time",
    "urllib",
}
HARMLESS = {"urllib.parse", "botocore.exceptions"}
CALLS = {"open", "print", "input"}


def pure_modules() -> Iterator[Path]:
    for package in PACKAGES:
        for path in sorted((ROOT / package).rglob("*.py")):
            if "Pure." in (ast.get_docstring(ast.parse(path.read_text())) or ""):
                yield path.relative_to(ROOT)


def impurities(source: str) -> Iterator[str]:
    """What a module imports or calls that no pure one does, with its line."""
    for node in ast.walk(ast.parse(source)):
        match node:
            case ast.Import(names=names):
                imported = [alias.name for alias in names]
            case ast.ImportFrom(module=str(module), level=0):
                imported = [module]
            case ast.Call(func=ast.Name(id=name)) if name in CALLS:
                yield f"line {node.lineno}: {name}()"
                continue
            case _:
                continue
        for name in imported:
            if name.partition(".")[0] in IMPURE and name not in HARMLESS:
                yield f"line {node.lineno}: import {name}"


def test_modules_that_say_pure_are() -> None:
    modules = list(pure_modules())

    found = {str(path): list(impurities((ROOT / path).read_text())) for path in modules}
    assert {path: impure for path, impure in found.items() if impure} == {}
    assert len(modules) > 100


@pytest.mark.parametrize(
    ("source", "found"),
    [
        ("import os.path", ["line 1: import os.path"]),
        ("from time import monotonic", ["line 1: import time"]),
        ("def f(file):\n    return open(file)", ["line 2: open()"]),
        (
            "from urllib.parse import quote\nfrom urllib.request import urlopen",
            ["line 2: import urllib.request"],
        ),
        ("import math\nfrom datetime import datetime", []),
    ],
)
def test_what_is_not_pure_is_found(source: str, found: list[str]) -> None:
    assert list(impurities(source)) == found


def test_the_pipeline_opens_no_file() -> None:
    folder = ROOT / "spark_app/landfall/pipeline"
    opening = [
        f"{path.relative_to(ROOT)}, {fault}"
        for path in sorted(folder.rglob("*.py"))
        for fault in impurities(path.read_text())
        if fault.endswith("()")
    ]
    assert opening == []
