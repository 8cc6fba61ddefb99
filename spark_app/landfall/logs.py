"""The log format of Landfall's pods: one event per line, as JSON for machines, as text for people.

The driver and the operator log the same fields, so one parser reads both: ``time`` (ISO 8601 in
UTC, with milliseconds), ``level``, ``message``, then the fields that the event carries in
``extra``, ``logger``, and ``traceback`` after an exception. A terminal cuts long lines, so what
happened comes first. On a terminal, ``landfall run`` uses its own
short lines instead (``landfall.cli.text.log_lines``).

Names of files, answers of servers and payloads reach logs and terminals. ``visible`` shows their
control characters as escapes, so that they cannot forge a line or command a terminal, and so it
does with what changes the order of text or cannot be seen: a name must not look like another one.
"""

import json
import logging
import re
import sys
from datetime import UTC, datetime

_STANDARD = frozenset(vars(logging.makeLogRecord({}))) | {"message", "asctime", "taskName"}


_DECEIVING = "\\u200b\\u202a-\\u202e\\u2060-\\u206f\\ufeff\\U000e0000-\\U000e007f"
"""What changes the direction of text, or has no width; not what scripts join letters by."""
_CONTROLS = re.compile(f"[\x00-\x1f\x7f-\x9f\u2028\u2029{_DECEIVING}]")
_LINE_CONTROLS = re.compile(f"[\x00-\x08\x0b-\x1f\x7f-\x9f\u2028\u2029{_DECEIVING}]")


def visible(text: str, *, lines: bool = False) -> str:
    r"""Return text with its control characters as escapes: ESC is ``\x1b``.

    Args:
        text: from anywhere.
        lines: whether line breaks and tabs stay.
    """
    return (_LINE_CONTROLS if lines else _CONTROLS).sub(_escape, text)


def _escape(found: re.Match[str]) -> str:
    return repr(found[0])[1:-1]


class JsonFormatter(logging.Formatter):
    """Formats an event as one JSON object."""

    def format(self, record: logging.LogRecord) -> str:
        """One line without line breaks: JSON escapes a traceback's."""
        event = {
            "time": _time(record).isoformat(timespec="milliseconds"),
            "level": record.levelname.lower(),
            "message": record.getMessage(),
            **event_fields(record),
            "logger": record.name,
        }
        if record.exc_info:
            event["traceback"] = self.formatException(record.exc_info)
        # A value that JSON does not know must not cost the line: it is written as its text.
        return json.dumps(event, default=str)


class TextFormatter(logging.Formatter):
    """Formats an event as ``2026-11-21 08:30:00 info    logs/clicks: scaled to 3 reason=Lag``."""

    def format(self, record: logging.LogRecord) -> str:
        """One line, followed by the traceback if there is one."""
        fields = event_fields(record)
        group = fields.pop("group", None)
        subject = f"{group}: " if group else ""
        rest = "".join(f" {name}={value}" for name, value in fields.items())
        start = f"{_time(record):%Y-%m-%d %H:%M:%S} {record.levelname.lower():7}"
        line = visible(f"{start} {subject}{record.getMessage()}{rest}")
        if not record.exc_info:
            return line
        return f"{line}\n{visible(self.formatException(record.exc_info), lines=True)}"


def log_as_json() -> None:
    """Write Landfall's events, and the warnings of its libraries, to standard output as JSON."""
    handler = logging.StreamHandler(sys.stdout)
    handler.setFormatter(JsonFormatter())
    logging.basicConfig(level=logging.WARNING, handlers=[handler], force=True)
    logging.getLogger("landfall").setLevel(logging.INFO)


def _time(record: logging.LogRecord) -> datetime:
    return datetime.fromtimestamp(record.created, UTC)


def event_fields(record: logging.LogRecord) -> dict[str, object]:
    """Return the event's ``extra``: every attribute that logging does not set itself."""
    return {name: value for name, value in vars(record).items() if name not in _STANDARD}
