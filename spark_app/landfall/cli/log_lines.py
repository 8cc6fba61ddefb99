"""Log events as lines for people: time, event, then what was given with it as ``name=value``."""

import logging

_STANDARD = frozenset(vars(logging.makeLogRecord({}))) | {"message", "asctime", "taskName"}


class EventFormatter(logging.Formatter):
    """``05:12:09 batch committed  slot=12 records=3000``; anything above INFO says its level."""

    def __init__(self) -> None:
        super().__init__("%(asctime)s %(message)s", "%H:%M:%S")

    def formatMessage(self, record: logging.LogRecord) -> str:  # noqa: N802  # logging's own name
        """The line, without a traceback."""
        given = "".join(
            f" {name}={value}" for name, value in vars(record).items() if name not in _STANDARD
        )
        level = f"{record.levelname.lower()}: " if record.levelno > logging.INFO else ""
        return f"{record.asctime} {level}{record.message}{' ' if given else ''}{given}"
