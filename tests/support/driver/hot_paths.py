"""Both hot paths for one suite: pure Python, and the extension where it is built."""

from collections.abc import Iterator
from contextlib import contextmanager

import pytest

from landfall.native import VARIABLE, HotPath, hot_path

PYTHON = HotPath(None, None, "a test asks for it")
NATIVE = hot_path()
"""The process's own; pure Python where the extension is not built."""
needs_native = pytest.mark.skipif(NATIVE.module is None, reason=str(NATIVE))
BOTH = (
    pytest.param(PYTHON, id="python"),
    pytest.param(NATIVE, id="native", marks=needs_native),
)


@contextmanager
def fresh_hot_path() -> Iterator[pytest.MonkeyPatch]:
    """Let a test change what decides the hot path.

    It is decided again once all is as before: a thread that asks earlier must not be remembered.
    """
    try:
        with pytest.MonkeyPatch.context() as patched:
            hot_path.cache_clear()
            yield patched
    finally:
        hot_path.cache_clear()


@contextmanager
def running(path: HotPath) -> Iterator[None]:
    """Let everything in this process run on a path, as the environment variable does."""
    with fresh_hot_path() as environment:
        environment.setenv(VARIABLE, "off" if path.module is None else "on")
        hot_path.cache_clear()
        yield
