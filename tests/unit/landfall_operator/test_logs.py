"""How the operator sets up its log."""

import json
import logging
from collections.abc import Iterator

import pytest

from landfall_operator.main import configure_logs


@pytest.fixture(autouse=True)
def restored_logging() -> Iterator[None]:
    root = logging.getLogger()
    handlers, level = root.handlers[:], root.level
    libraries = {
        name: logging.getLogger(name).level for name in ("kopf", "kubernetes", "urllib3", "asyncio")
    }
    root.handlers[:] = []  # configure closes those that it finds, and these are pytest's
    yield
    root.handlers[:] = handlers
    root.setLevel(level)
    for name, own in libraries.items():
        logging.getLogger(name).setLevel(own)


def test_a_json_line_has_the_fields_but_not_those_of_kopf(
    capsys: pytest.CaptureFixture[str],
) -> None:
    configure_logs("json", "INFO")

    extra = {"group": "logs/clicks", "replicas": 3, "k8s_ref": {"kind": "Pod"}}
    logging.getLogger("x").info("scaled to %d", 3, extra=extra)

    line = json.loads(capsys.readouterr().err)
    assert line.pop("time").endswith("+00:00")
    assert line == {
        "level": "info",
        "logger": "x",
        "message": "scaled to 3",
        "group": "logs/clicks",
        "replicas": 3,
    }


def test_a_text_line_begins_with_the_group(capsys: pytest.CaptureFixture[str]) -> None:
    configure_logs("text", "INFO")

    logging.getLogger("x").info("scaled", extra={"group": "logs/clicks"})

    assert capsys.readouterr().err.endswith(" info    logs/clicks: scaled\n")


def test_libraries_log_warnings_only(capsys: pytest.CaptureFixture[str]) -> None:
    configure_logs("text", "INFO")

    logging.getLogger("kopf").info("resuming is handled")

    assert capsys.readouterr().err == ""
