"""A process of its own that does what it is told: a line of JSON in, a line of JSON out.

The runner holds its standard input. When the runner ends, however it ends, the input ends, and the
process with it.
"""

import subprocess
import sys
import threading
from collections.abc import Callable
from pathlib import Path
from typing import Any, TypeVar

import msgspec

T = TypeVar("T")
_ROOT = Path(__file__).resolve().parents[2]
PATIENCE = 60
"""Seconds until a process that should end is killed."""


class Refused(RuntimeError):  # noqa: N818  # says what is the case
    """The process could not do it; says why."""


class Child:
    """A running ``python -m tests.chaos.<module>``; what it says beside its answers goes to a log."""

    def __init__(self, module: str, *arguments: str, log: Path) -> None:
        """Start it."""
        self.log = log
        log.parent.mkdir(parents=True, exist_ok=True)
        with log.open("ab") as said:
            self._popen = subprocess.Popen(
                [sys.executable, "-m", f"tests.chaos.{module}", *arguments],
                stdin=subprocess.PIPE,
                stdout=subprocess.PIPE,
                stderr=said,
                cwd=_ROOT,
                start_new_session=True,
            )
        self._lock = threading.Lock()

    @property
    def pid(self) -> int:
        """Its process."""
        return self._popen.pid

    def ask(self, do: str, answer: type[T], **arguments: Any) -> T:
        """Tell it something, and wait until it is done.

        Raises:
            Refused: it could not, or is no more.
        """
        with self._lock:
            assert self._popen.stdin
            try:
                self._popen.stdin.write(msgspec.json.encode({"do": do, **arguments}) + b"\n")
                self._popen.stdin.flush()
            except OSError as error:
                raise Refused(f"{do}: {error}\n{self.said}") from error
            return self.told(answer)

    def told(self, answer: type[T]) -> T:
        """The next line it says.

        Raises:
            Refused: it says why not, or is no more.
        """
        assert self._popen.stdout
        line = self._popen.stdout.readline()
        if not line:
            raise Refused(f"ended with {self._popen.wait(PATIENCE)}: {self.said}")
        found = msgspec.json.decode(line)
        if isinstance(found, dict) and "refused" in found:
            raise Refused(found["refused"])
        return msgspec.convert(found, answer, str_keys=True)

    @property
    def said(self) -> str:
        """Its log's end."""
        return self.log.read_text(errors="replace")[-4000:]

    def end(self) -> int:
        """Let it end, and return its exit code."""
        assert self._popen.stdin
        assert self._popen.stdout
        self._popen.stdin.close()
        try:
            return self._popen.wait(PATIENCE)
        except subprocess.TimeoutExpired:
            self._popen.kill()
            return self._popen.wait()
        finally:
            self._popen.stdout.close()


def listen(obey: Callable[[dict[str, Any]], object]) -> None:
    """In the process: do what each line says, answer it, and return when the input ends."""
    for line in sys.stdin.buffer:
        try:
            say(obey(msgspec.json.decode(line)))
        except Exception as error:  # noqa: BLE001  # whatever it was, the runner is told and may go on
            say({"refused": f"{type(error).__name__}: {error}"})


def say(answer: object) -> None:
    """Answer in one line."""
    sys.stdout.buffer.write(msgspec.json.encode(answer) + b"\n")
    sys.stdout.buffer.flush()
