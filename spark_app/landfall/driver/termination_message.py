"""What a driver leaves behind when it ends with an error: one line, ``REASON: message``, where Kubernetes picks it up."""

from contextlib import suppress
from pathlib import Path

from landfall.api.contract import ExitCode, Status
from landfall.errors import Reason

LONGEST = 1000
_REASONS = frozenset(Reason)


class TerminationMessage:
    """Remembers what the driver said last, and writes it down in the end."""

    def __init__(self, path: Path) -> None:
        """Write to ``path`` if it is there; it is made by whoever wants to read it."""
        self._path = path
        self._message = ""

    def note(self, status: Status) -> None:
        """Keep what this picture says."""
        self._message = status.message

    def of(self, code: ExitCode) -> ExitCode:
        """Leave the message of a driver that ended so; nothing if it ended well."""
        if code is not ExitCode.OK:
            reason, _, _ = self._message.partition(":")
            self.say(self._message if reason in _REASONS else f"{code.name}: {self._message}")
        return code

    def say(self, text: str) -> None:
        """Leave these words, as one line."""
        line = "; ".join(text.splitlines())[:LONGEST]
        with suppress(OSError):  # on a bare machine there is nobody to read it
            if self._path.exists():
                self._path.write_text(f"{line}\n", "utf-8")
