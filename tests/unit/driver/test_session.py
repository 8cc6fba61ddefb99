import logging

import pytest

from landfall.driver.spark.session import quiet_py4j


def test_what_py4j_logs_is_dropped_and_all_else_is_not(caplog: pytest.LogCaptureFixture) -> None:
    quiet_py4j()
    root = logging.getLogger()

    for path in ("site-packages/py4j/java_gateway.py", "landfall/app/driver.py"):
        root.handle(logging.LogRecord("root", logging.ERROR, path, 1, path, None, None))

    assert caplog.messages == ["landfall/app/driver.py"]
