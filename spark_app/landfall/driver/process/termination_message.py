"""Writes ``REASON: message`` to where Kubernetes finds it when the driver ends with an error."""

from contextlib import suppress
from pathlib import Path

from landfall.api.contract import ExitCode
from landfall.driver.http.status import StatusReport
from landfall.errors import Reason

MAX_LENGTH = 1000
"""Characters; Kubernetes keeps 4096 bytes."""
_REASONS = frozenset(Reason)


class TerminationMessage:
    """Keeps the driver's latest message, and writes it to the file when the driver has ended."""

    def __init__(self, path: Path) -> None:
        """Write to ``path`` if it exists; Kubernetes creates it, this class does not."""
        self._path = path
        self._message = ""

    def update(self, report: StatusReport) -> None:
        """Keep the message of this report."""
        self._message = report.summary.message

    def write_exit(self, code: ExitCode) -> ExitCode:
        """Write the latest message unless the driver ended with OK; return the code."""
        if code is not ExitCode.OK:
            reason, _, _ = self._message.partition(":")
            has_reason = reason in _REASONS
            self.write(self._message if has_reason else f"{code.name}: {self._message}")
        return code

    def write(self, text: str) -> None:
        """Write this text as one line."""
        line = "; ".join(text.splitlines())[:MAX_LENGTH]
        with suppress(
            OSError
        ):  # the exit code shows that the driver failed, with or without the file
            if self._path.exists():
                self._path.write_text(f"{line}\n", "utf-8")
