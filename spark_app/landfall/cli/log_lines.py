"""Log events as lines for people: the time, the event, then its fields as ``name=value``."""

import logging

from landfall.logs import event_fields, visible


class EventFormatter(logging.Formatter):
    """Formats ``05:12:09 batch committed  slot=12 records=3000``; levels above INFO are named."""

    def __init__(self) -> None:
        super().__init__("%(asctime)s %(message)s", "%H:%M:%S")

    def formatMessage(self, record: logging.LogRecord) -> str:  # noqa: N802  # logging's own name
        """The line, without a traceback."""
        fields = "".join(f" {name}={value}" for name, value in event_fields(record).items())
        level = f"{record.levelname.lower()}: " if record.levelno > logging.INFO else ""
        return visible(f"{record.asctime} {level}{record.message}{' ' if fields else ''}{fields}")
