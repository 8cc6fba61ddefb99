"""Which files of tests test a module: ``make test MODULE=spark_app/landfall/task/outage.py``.

Those that import it, or else those that import what imports it, and so on; and those that have its
name and are in the folder of its package (``tests/unit/cli/author/test_check.py`` is found for
``landfall.cli.author.check``, which the command line imports by name). Of a module without either,
all of that folder, or of the nearest folder above it.
"""

import sys
from pathlib import Path

from grimp import ImportGraph, build_graph

ROOT = Path(__file__).parents[1]
UNIT = ROOT / "tests/unit"
PACKAGES = {
    "landfall": ROOT / "spark_app",
    "pyspark_landfall": ROOT / "spark_app",
    "landfall_operator": ROOT / "operator",
    "landfall_audit": ROOT / "audit",
    "landfall_migrate": ROOT / "migrate",
}
"""Where each package is."""
FOLDERS = {"landfall": "", "landfall_audit": "audit", "landfall_migrate": "migrate"}
"""The folder below ``tests/unit`` of a package's tests, if it is not called as the package."""


def graph() -> ImportGraph:
    """Which module of the code and of the tests imports which."""
    sys.path[:0] = [str(ROOT)]
    return build_graph(*PACKAGES, "tests", cache_dir=None)


def module(path: str) -> str:
    """Return the name of the module in a file.

    Raises:
        ValueError: the file is not of a package here.
    """
    file = Path(path).resolve()
    for package, folder in PACKAGES.items():
        if file.is_relative_to(folder / package) and file.is_file():
            parts = file.relative_to(folder).with_suffix("").parts
            return ".".join(parts[:-1] if parts[-1] == "__init__" else parts)
    raise ValueError(f"{path} is no file of {', '.join(PACKAGES)}")


def files(name: str, imports: ImportGraph) -> list[str]:
    """Return the files of a module's tests, relative to the folder above ``tests``, sorted."""
    importing = {f"{test.replace('.', '/')}.py" for test in _importing(name, imports)}
    package, *path = name.split(".")
    folder = UNIT.joinpath(FOLDERS.get(package, package), *path)
    named = {*folder.rglob("test_*.py"), *folder.parent.glob(f"test_{folder.name.strip('_')}*.py")}
    while not (importing or named):
        folder = folder.parent
        named = {*folder.rglob("test_*.py")}
    return sorted({*importing, *(file.relative_to(ROOT).as_posix() for file in named)})


def _importing(name: str, imports: ImportGraph) -> set[str]:
    """Return the modules of tests that import a module by the fewest steps.

    What tests share is no step: a test that imports it imports what it imports. Models are found as
    well, and not instead of other tests.
    """
    seen = level = {name} & imports.modules
    models = set[str]()
    while level:
        level = _with_shared(level, imports)
        tests = {found for found in level if found.rpartition(".")[2].startswith("test_")}
        models |= {test for test in tests if test.startswith("tests.model.")}
        if tests - models:
            return tests | models
        level = _importers(level, imports) - seen
        seen |= level
    return models


def _with_shared(level: set[str], imports: ImportGraph) -> set[str]:
    found, shared = level, {module for module in level if _is_shared(module)}
    while shared:
        importers = _importers(shared, imports) - found
        found, shared = found | importers, {module for module in importers if _is_shared(module)}
    return found


def _is_shared(name: str) -> bool:
    return name.startswith("tests.") and not name.rpartition(".")[2].startswith("test_")


def _importers(modules: set[str], imports: ImportGraph) -> set[str]:
    return set[str]().union(*map(imports.find_modules_that_directly_import, modules))


def main() -> None:
    """Print the files of one module's tests."""
    try:
        asked = module(sys.argv[1])
    except ValueError as error:
        sys.exit(str(error))
    print(" ".join(files(asked, graph())))


if __name__ == "__main__":
    main()
