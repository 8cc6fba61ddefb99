"""What the operator imports: what its image has, and of kopf only what kopf exports."""

import ast
import pkgutil
import re
import subprocess
import sys
from collections.abc import Iterator
from importlib.metadata import packages_distributions
from pathlib import Path

import kopf

import landfall_operator

PINS = Path(__file__).parents[3] / "requirements" / "operator.txt"
ALWAYS = {"setuptools"}
"""Has a hook that every interpreter loads."""


def test_the_operator_imports_only_what_its_image_has() -> None:
    modules = [
        module.name
        for module in pkgutil.walk_packages(landfall_operator.__path__, "landfall_operator.")
        if not module.name.endswith("__main__")
    ]
    # Without namespace packages, and without google: kubernetes tries google.auth, which is not in
    # the image, and publishers need it here.
    files = "[name for name, it in sys.modules.items() if getattr(it, '__file__', None)]"
    names = ", ".join(modules)
    imported = subprocess.run(
        [
            sys.executable,
            "-c",
            f"import sys; sys.modules['google'] = None; import {names}; print(*{files})",
        ],
        check=True,
        capture_output=True,
        text=True,
    ).stdout.split()

    packages = {name.partition(".")[0] for name in imported}
    found = packages_distributions()
    needed = {_normal(name) for package in packages for name in found.get(package, ())}
    pinned = {_normal(name) for name in re.findall(r"^([\w.-]+)==", PINS.read_text(), re.MULTILINE)}

    assert {"kopf", "kubernetes", "pydantic"} <= needed
    assert needed - pinned - ALWAYS == set()


def test_of_kopf_only_its_public_names_are_used() -> None:
    sources = Path(landfall_operator.__path__[0]).rglob("*.py")
    trees = [ast.parse(source.read_text()) for source in sources]

    used = {name for tree in trees for node in ast.walk(tree) for name in _names_of_kopf(node)}

    assert {"on", "OperatorRegistry", "spawn_tasks"} <= used
    assert used - {*kopf.__all__, "on"} == set()


def _names_of_kopf(node: ast.AST) -> Iterator[str]:
    match node:
        case ast.Attribute(value=ast.Name(id="kopf"), attr=name):
            yield name
        case ast.ImportFrom(module=str(module)) if module.partition(".")[0] == "kopf":
            yield from ([module] if "." in module else [alias.name for alias in node.names])
        case ast.Import():
            yield from (alias.name for alias in node.names if alias.name.startswith("kopf."))


def _normal(name: str) -> str:
    return re.sub(r"[-_.]+", "-", name).lower()
