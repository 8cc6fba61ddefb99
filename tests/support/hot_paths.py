"""Both hot paths for one suite: pure Python, and the extension where it is built."""

import pytest

from landfall.native import HotPath, hot_path

PYTHON = HotPath(None, "", "a test asks for it")
NATIVE = hot_path()
"""The process's own; pure Python where the extension is not built."""
needs_native = pytest.mark.skipif(NATIVE.module is None, reason=str(NATIVE))
BOTH = (
    pytest.param(PYTHON, id="python"),
    pytest.param(NATIVE, id="native", marks=needs_native),
)
