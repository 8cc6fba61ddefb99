"""Lines of the log."""

import json
import logging

from landfall_operator.logs import JsonLines, TextLines


def record(**extra: object) -> logging.LogRecord:
    made = logging.makeLogRecord(
        {"name": "x", "levelno": logging.INFO, "levelname": "INFO", "created": 0.0}
    )
    made.msg, made.args = "scaled to %d", (3,)
    vars(made).update(extra)
    return made


def test_a_line_for_machines_has_the_fields() -> None:
    assert json.loads(JsonLines().format(record(group="logs/clicks", replicas=3))) == {
        "time": "1970-01-01T00:00:00.000+00:00",
        "level": "info",
        "logger": "x",
        "message": "scaled to 3",
        "group": "logs/clicks",
        "replicas": 3,
    }


def test_a_line_for_people_begins_with_the_group() -> None:
    line = TextLines().format(record(group="logs/clicks", reason="Opening"))

    assert line == "1970-01-01 00:00:00 info    logs/clicks: scaled to 3 reason=Opening"
