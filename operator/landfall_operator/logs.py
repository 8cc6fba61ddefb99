"""How the operator logs: a line per event, as text for people or as JSON for machines; fields come as ``extra``."""

import json
import logging
import sys
from datetime import UTC, datetime

_KNOWN = frozenset(vars(logging.makeLogRecord({}))) | {"message", "asctime", "taskName"}
_LOUD = {
    "kopf": logging.WARNING,
    "kubernetes": logging.WARNING,
    "urllib3": logging.ERROR,
    "asyncio": logging.WARNING,
}
"""Libraries, and from what level on they have something to say to whoever runs this."""


def configure(form: str, level: str) -> None:
    """Log to standard error; ``form`` is text or json."""
    handler = logging.StreamHandler(sys.stderr)
    handler.setFormatter(JsonLines() if form == "json" else TextLines())
    logging.basicConfig(level=level, handlers=[handler], force=True)
    for name, least in _LOUD.items():
        logging.getLogger(name).setLevel(max(least, logging.getLogger().level))


class TextLines(logging.Formatter):
    """``08:30:00 info  logs/clicks: scaled …``."""

    def format(self, record: logging.LogRecord) -> str:
        """One line, and a traceback if there is one."""
        fields = _fields(record)
        group = fields.pop("group", None)
        where = f"{group}: " if group else ""
        rest = "".join(f" {name}={value}" for name, value in fields.items())
        text = f"{_time(record):%Y-%m-%d %H:%M:%S} {record.levelname.lower():7} {where}{record.getMessage()}{rest}"
        return f"{text}\n{self.formatException(record.exc_info)}" if record.exc_info else text


class JsonLines(logging.Formatter):
    """One JSON object a line: time, level, logger, message, and the fields."""

    def format(self, record: logging.LogRecord) -> str:
        """One line."""
        line = {
            "time": _time(record).isoformat(timespec="milliseconds"),
            "level": record.levelname.lower(),
            "logger": record.name,
            "message": record.getMessage(),
            **_fields(record),
        }
        if record.exc_info:
            line["traceback"] = self.formatException(record.exc_info)
        return json.dumps(line, default=str)


def _time(record: logging.LogRecord) -> datetime:
    return datetime.fromtimestamp(record.created, UTC)


def _fields(record: logging.LogRecord) -> dict[str, object]:
    return {
        name: value
        for name, value in vars(record).items()
        if name not in _KNOWN and not name.startswith("k8s_")
    }
