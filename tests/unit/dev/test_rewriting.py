"""Workers share the work of compiling test modules, and pytest takes what they have kept."""

import os
import subprocess
import sys
from pathlib import Path

import pytest
from _pytest.assertion import rewrite

from tests.support.rewriting import compile_share


@pytest.fixture
def modules(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> list[Path]:
    """Five test modules, the first the largest."""
    monkeypatch.setattr(sys, "dont_write_bytecode", False)
    made = [tmp_path / f"test_{n}.py" for n in range(5)]
    for n, module in enumerate(made):
        module.write_text("def test():\n    assert [] == []\n" + "#" * (100 - n))
    return made


def kept(modules: list[Path]) -> list[int]:
    """Of which modules pytest would read what is kept, instead of rewriting them."""
    folder = rewrite.get_cache_dir(modules[0])
    return [
        number
        for number, module in enumerate(modules)
        if rewrite._read_pyc(module, folder / f"{module.stem}{rewrite.PYC_TAIL}") is not None
    ]


def test_each_worker_compiles_its_share(modules: list[Path], pytestconfig: pytest.Config) -> None:
    compile_share(pytestconfig, modules, 0, 2)
    assert kept(modules) == [0, 2, 4]

    compile_share(pytestconfig, modules, 1, 2)
    assert kept(modules) == [0, 1, 2, 3, 4]


def test_a_changed_module_is_compiled_again(
    modules: list[Path], pytestconfig: pytest.Config
) -> None:
    compile_share(pytestconfig, modules, 0, 1)
    modules[3].write_text("def test():\n    assert 1 == 2\n")
    assert kept(modules) == [0, 1, 2, 4]

    compile_share(pytestconfig, modules, 0, 1)

    assert kept(modules) == [0, 1, 2, 3, 4]
    shown = subprocess.run(
        [sys.executable, "-m", "pytest", "-n0", "-p", "no:cacheprovider", str(modules[3])],
        cwd=modules[0].parent,
        env={name: value for name, value in os.environ.items() if name != "PYTEST_ADDOPTS"},
        capture_output=True,
        text=True,
        check=False,
    )
    assert "assert 1 == 2" in shown.stdout


def test_what_may_not_be_kept_is_not(
    modules: list[Path], pytestconfig: pytest.Config, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(sys, "dont_write_bytecode", True)

    compile_share(pytestconfig, modules, 0, 1)

    assert kept(modules) == []


def test_a_module_that_is_no_python_is_left_to_the_collection(
    modules: list[Path], pytestconfig: pytest.Config
) -> None:
    modules[1].write_text("def test(:\n")

    compile_share(pytestconfig, modules, 0, 1)

    assert kept(modules) == [0, 2, 3, 4]
