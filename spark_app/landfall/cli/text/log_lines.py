"""Log events as lines for people: the time, the event, then its fields as ``name=value``."""

import logging
from dataclasses import dataclass, field

from landfall.errors import Reason
from landfall.logs import event_fields, visible

_SHORT = 40
"""Texts up to this length are repeated; longer ones refer to a line above."""
_REASONS = frozenset(map(str, Reason))
ABOVE = "as above"


@dataclass
class Printed:
    """Failures already printed, so that events and statuses print each only once."""

    details: list[str] = field(default_factory=list)
    lines: set[str] = field(default_factory=set)

    def once(self, text: str) -> str:
        """The text, without details that were printed; what is left counts as printed."""
        left = self._without(text)
        if left == text and len(text) > _SHORT:
            self.details.append(text)
        return left

    def message(self, text: str) -> str:
        """The message of a status, on one line: of a failure that was printed, its reason."""
        return "; ".join(map(self._line, text.splitlines()))

    def _line(self, line: str) -> str:
        reason, _, detail = line.partition(": ")
        if reason not in _REASONS or len(detail) <= _SHORT:
            return line
        if line in self.lines:
            return reason
        self.lines.add(line)
        return f"{reason}: {self.once(detail)}"

    def _without(self, text: str) -> str:
        for detail in sorted(self.details, key=len, reverse=True):
            text = text.replace(detail, ABOVE)
        return text


class EventFormatter(logging.Formatter):
    """Formats ``05:12:09 batch committed  slot=12 records=3000``; levels above INFO are named."""

    def __init__(self, printed: Printed | None = None) -> None:
        super().__init__("%(asctime)s %(message)s", "%H:%M:%S")
        self._printed = printed or Printed()

    def formatMessage(self, record: logging.LogRecord) -> str:  # noqa: N802  # logging's own name
        """The line, without a traceback."""
        values = event_fields(record)
        if "why" in values:
            values["why"] = self._printed.once(str(values["why"]))
        fields = "".join(f" {name}={value}" for name, value in values.items())
        level = f"{record.levelname.lower()}: " if record.levelno > logging.INFO else ""
        return visible(f"{record.asctime} {level}{record.message}{' ' if fields else ''}{fields}")
