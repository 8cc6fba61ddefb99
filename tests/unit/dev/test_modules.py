"""``make test MODULE=…``: every module of the code has tests, and they are found."""

from pathlib import Path

import pytest
from grimp import ImportGraph

from tests.modules import PACKAGES, ROOT, files, graph, module

KEYED = "spark_app/landfall/publish/keyed/passes.py"


@pytest.fixture(scope="module")
def imports() -> ImportGraph:
    return graph()


@pytest.mark.parametrize(
    ("path", "test"),
    [
        ("spark_app/landfall/task/outage.py", "tests/unit/task/test_outage.py"),
        ("spark_app/landfall/cli/author/check.py", "tests/unit/cli/author/test_check.py"),
        ("spark_app/landfall/store/s3/__init__.py", "tests/unit/store/test_s3.py"),
        (KEYED, "tests/unit/publish/iceberg/test_keyed_iceberg.py"),
        (KEYED, "tests/unit/publish/keyed/test_keyed_tables.py"),
        ("operator/landfall_operator/api/crd.py", "tests/unit/landfall_operator/test_crd.py"),
    ],
)
def test_tests_are_found_by_import_through_shared_code_and_by_name(
    path: str, test: str, imports: ImportGraph
) -> None:
    assert test in files(module(str(ROOT / path)), imports)


def test_every_module_has_a_test(imports: ImportGraph) -> None:
    paths = [path for name, folder in PACKAGES.items() for path in (folder / name).rglob("*.py")]
    without = {path.as_posix() for path in paths if not files(module(str(path)), imports)}

    assert len(paths) > 700
    assert without == set()


@pytest.mark.parametrize("path", ["README.md", "spark_app/landfall/unknown.py", "tests/modules.py"])
def test_a_file_of_no_package_is_refused(path: str) -> None:
    with pytest.raises(ValueError, match=f"{Path(path).name} is no file of landfall"):
        module(str(ROOT / path))
