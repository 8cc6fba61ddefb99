"""Both hot paths for one suite: pure Python, and the extension where it is built."""

import os
from collections.abc import Iterator
from contextlib import contextmanager

import pytest

from landfall.native import VARIABLE, HotPath, hot_path

PYTHON = HotPath(None, "", "a test asks for it")
NATIVE = hot_path()
"""The process's own; pure Python where the extension is not built."""
needs_native = pytest.mark.skipif(NATIVE.module is None, reason=str(NATIVE))
BOTH = (
    pytest.param(PYTHON, id="python"),
    pytest.param(NATIVE, id="native", marks=needs_native),
)


@contextmanager
def running(path: HotPath) -> Iterator[None]:
    """Whatever asks for the hot path of the process gets this one."""
    before = os.environ.get(VARIABLE)
    os.environ[VARIABLE] = "on" if path.module else "off"
    hot_path.cache_clear()
    try:
        yield
    finally:
        if before is None:
            del os.environ[VARIABLE]
        else:
            os.environ[VARIABLE] = before
        hot_path.cache_clear()
