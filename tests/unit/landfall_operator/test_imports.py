"""The operator's image has only the packages that requirements/operator.txt pins."""

import pkgutil
import re
import subprocess
import sys
from importlib.metadata import packages_distributions
from pathlib import Path

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
    # Without namespace packages: kubernetes tries google.auth, and others may have a google, too.
    files = "[name for name, it in sys.modules.items() if getattr(it, '__file__', None)]"
    imported = subprocess.run(
        [sys.executable, "-c", f"import sys, {', '.join(modules)}; print(*{files})"],
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


def _normal(name: str) -> str:
    return re.sub(r"[-_.]+", "-", name).lower()
