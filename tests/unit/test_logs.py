"""The log lines that drivers and the operator write."""

import json
import logging
import sys

from landfall.logs import JsonFormatter, TextFormatter


def record(message: str, *values: object, **extra: object) -> logging.LogRecord:
    made = logging.makeLogRecord(
        {
            "msg": message,
            "args": values,
            "levelno": logging.INFO,
            "levelname": "INFO",
            "name": "landfall.driver",
            "created": 0.0,
        }
    )
    vars(made).update(extra)
    return made


def test_an_event_is_one_json_object_with_the_fields_it_carries() -> None:
    line = JsonFormatter().format(record("batch committed", slot=3, topics={"a"}))

    assert json.loads(line) == {
        "time": "1970-01-01T00:00:00.000+00:00",
        "level": "info",
        "logger": "landfall.driver",
        "message": "batch committed",
        "slot": 3,
        "topics": "{'a'}",
    }


def test_the_message_comes_before_its_fields_and_the_logger() -> None:
    line = JsonFormatter().format(record("batch committed", slot=3))

    assert [*json.loads(line)] == ["time", "level", "message", "slot", "logger"]


def test_values_are_filled_into_the_message() -> None:
    line = JsonFormatter().format(record("scaled to %d", 3, group="logs/clicks", replicas=3))

    assert json.loads(line) == {
        "time": "1970-01-01T00:00:00.000+00:00",
        "level": "info",
        "logger": "landfall.driver",
        "message": "scaled to 3",
        "group": "logs/clicks",
        "replicas": 3,
    }


def test_a_traceback_stays_in_the_json_line() -> None:
    try:
        int("two\nlines")
    except ValueError:
        line = JsonFormatter().format(record("failed", exc_info=sys.exc_info()))

    assert "\n" not in line
    assert "ValueError: invalid literal" in json.loads(line)["traceback"]


def test_a_text_line_begins_with_the_group() -> None:
    line = TextFormatter().format(record("scaled to %d", 3, group="logs/clicks", reason="Opening"))

    assert line == "1970-01-01 00:00:00 info    logs/clicks: scaled to 3 reason=Opening"
