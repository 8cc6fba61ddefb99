"""A child process that takes commands over its standard streams.

A command is one line of JSON on standard input, its answer one line of JSON on standard output.
The parent holds the child's standard input open. When the parent ends, for whatever reason, that
input ends, and the child ends with it: a crashed run leaves no load and no proxy behind.
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
EXIT_TIMEOUT = 60
"""Seconds that a child has to end by itself before it is killed."""
_LOG_TAIL_CHARACTERS = 4000


class Refused(RuntimeError):  # noqa: N818  # the word of the protocol
    """The child could not execute a command; the message says why."""


class Child:
    """A running ``python -m tests.chaos.<module>``; its standard error goes to ``log``."""

    def __init__(self, module: str, *arguments: str, log: Path) -> None:
        """Start the process."""
        self.log = log
        log.parent.mkdir(parents=True, exist_ok=True)
        with log.open("ab") as stderr:
            self._popen = subprocess.Popen(
                [sys.executable, "-m", f"tests.chaos.{module}", *arguments],
                stdin=subprocess.PIPE,
                stdout=subprocess.PIPE,
                stderr=stderr,
                cwd=_ROOT,
                # Ctrl-C in the terminal reaches the parent only, which then ends its children.
                start_new_session=True,
            )
        # One command at a time, so that each thread reads the answer to its own command.
        self._lock = threading.Lock()

    @property
    def pid(self) -> int:
        """The process id of the child."""
        return self._popen.pid

    def request(self, command: str, answer: type[T], **arguments: Any) -> T:
        """Send a command, wait until it has been executed, and return its answer.

        Raises:
            Refused: the command failed, or the child has ended.
        """
        with self._lock:
            assert self._popen.stdin
            try:
                line = msgspec.json.encode({"command": command, **arguments})
                self._popen.stdin.write(line + b"\n")
                self._popen.stdin.flush()
            except OSError as error:
                raise Refused(f"{command}: {error}\n{self.log_tail}") from error
            return self.read_answer(answer)

    def read_answer(self, answer: type[T]) -> T:
        """Return the next line of the child's standard output.

        Raises:
            Refused: the line is a refusal, or the child has ended.
        """
        assert self._popen.stdout
        line = self._popen.stdout.readline()
        if not line:
            code = self._popen.wait(EXIT_TIMEOUT)
            raise Refused(f"the process ended with exit code {code}: {self.log_tail}")
        found = msgspec.json.decode(line)
        if isinstance(found, dict) and "refused" in found:
            raise Refused(found["refused"])
        return msgspec.convert(found, answer, str_keys=True)

    @property
    def log_tail(self) -> str:
        """The end of the child's log."""
        return self.log.read_text(errors="replace")[-_LOG_TAIL_CHARACTERS:]

    def stop(self) -> int:
        """Close the child's input, wait until the child has ended, and return its exit code."""
        assert self._popen.stdin
        assert self._popen.stdout
        self._popen.stdin.close()
        try:
            return self._popen.wait(EXIT_TIMEOUT)
        except subprocess.TimeoutExpired:
            self._popen.kill()
            return self._popen.wait()
        finally:
            self._popen.stdout.close()


def serve_commands(execute: Callable[[dict[str, Any]], object]) -> None:
    """In the child: execute and answer each command; return when the input ends."""
    for line in sys.stdin.buffer:
        try:
            send_answer(execute(msgspec.json.decode(line)))
        except Exception as error:  # noqa: BLE001  # the parent gets every error and decides
            send_answer({"refused": f"{type(error).__name__}: {error}"})


def send_answer(answer: object) -> None:
    """In the child: write one line of JSON for the parent."""
    sys.stdout.buffer.write(msgspec.json.encode(answer) + b"\n")
    sys.stdout.buffer.flush()
