import json
import logging
import sys

from landfall.logs import JsonLines


def record(message: str, **extra: object) -> logging.LogRecord:
    made = logging.makeLogRecord(
        {"msg": message, "levelname": "INFO", "name": "landfall.driver", **extra}
    )
    made.created = 0.0
    return made


def test_an_event_is_one_json_object_with_what_it_carries() -> None:
    line = JsonLines().format(record("batch committed", slot=3, topics={"a"}))

    assert json.loads(line) == {
        "time": "1970-01-01T00:00:00+00:00",
        "level": "info",
        "logger": "landfall.driver",
        "event": "batch committed",
        "slot": 3,
        "topics": "{'a'}",
    }


def test_a_traceback_stays_in_the_line() -> None:
    try:
        int("two\nlines")
    except ValueError:
        line = JsonLines().format(record("failed", exc_info=sys.exc_info()))

    assert "\n" not in line
    assert "ValueError: invalid literal" in json.loads(line)["trace"]
