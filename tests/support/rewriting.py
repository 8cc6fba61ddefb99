"""Compiles test modules once for all of xdist's workers.

pytest rewrites the asserts of each test module and keeps the result next to it, as Python keeps
compiled modules. In a new clone nothing is kept, so three workers, which begin with the same
module, would each rewrite all of them. Here each of them rewrites a share, largest modules first,
before it collects; modules that it then finds changed or missing it rewrites as ever.
"""

import sys
from collections.abc import Iterable, Iterator
from contextlib import suppress
from pathlib import Path

import pytest
from _pytest.assertion import rewrite  # pytest has no public name for it
from _pytest.assertion.rewrite import assertstate_key


def compile_share(
    config: pytest.Config, modules: Iterable[Path], worker: int, workers: int
) -> None:
    """Rewrite and keep those modules of a worker's share that are not kept as they are now.

    ``worker`` is counted from 0. Nothing is done if Python writes no bytecode, or pytest rewrites
    no asserts; modules that cannot be compiled are left to the collection, which reports them.
    """
    if sys.dont_write_bytecode or config.getoption("assertmode") != "rewrite":
        return
    by_size = sorted(modules, key=lambda module: (-module.stat().st_size, module))
    for module in by_size[worker::workers]:
        with suppress(SyntaxError):
            _keep(module, config)


def test_modules(config: pytest.Config) -> Iterator[Path]:
    """All test modules below the paths of this session."""
    paths = {config.invocation_params.dir / each.partition("::")[0] for each in config.args}
    for path in paths:
        yield from [path] if path.is_file() else path.rglob("test_*.py")


def _keep(module: Path, config: pytest.Config) -> None:
    folder = rewrite.get_cache_dir(module)
    kept = folder / f"{module.stem}{rewrite.PYC_TAIL}"
    if rewrite._read_pyc(module, kept) is None and rewrite.try_makedirs(folder):
        stat, code = rewrite._rewrite_test(module, config)
        rewrite._write_pyc(config.stash[assertstate_key], code, stat, kept)
