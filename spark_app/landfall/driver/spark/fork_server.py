"""A local run's workers begin as copies of its own process, instead of importing all of it again.

Driver and workers use the same libraries. Before a local run has a second thread, it forks a
process that waits. Spark starts its daemon as ever (``worker_daemon``), which gives its pipes and
its environment to the process that waits, and stays only to pass SIGTERM on. The copy becomes the
daemon: it has imported everything already, and shares that memory with the driver.

Where no copy can be made (another thread runs, the system is not Linux), and after a daemon has
died, the daemon imports what it needs itself.

In a cluster, no copy of the driver is where the tasks run. There, a process of its own waits
(``early_daemon``).
"""

import gc
import json
import logging
import os
import select
import signal
import socket
import sys
import traceback
from collections.abc import Callable, Sequence
from contextlib import suppress
from dataclasses import dataclass
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import IO, Any, NoReturn

VARIABLE = "LANDFALL_FORK_SERVER"
"""The environment variable with the path of the socket on which the copy waits."""
_HARMLESS_THREADS = frozenset({"jemalloc_bg_thd"})
"""Threads that are prepared for forks: Arrow's jemalloc stops its own before one."""


@dataclass(frozen=True, slots=True)
class ForkServer:
    """A copy of this process that waits to become Spark's daemon.

    Attributes:
        pid: the copy's.
        socket: the path of the socket it waits on, in a folder that only this user can enter.
    """

    pid: int
    socket: Path
    _folder: TemporaryDirectory[str]
    _lifeline: int

    def close(self) -> None:
        """End the copy, if it still waits; a daemon ends when Spark closes its input."""
        os.close(self._lifeline)
        self._folder.cleanup()
        with suppress(ChildProcessError):
            os.waitpid(self.pid, os.WNOHANG)


def fork_server(
    become: Callable[[], None], not_shared: Sequence[IO[Any]] = ()
) -> ForkServer | None:
    """Fork a copy of this process; None where that is not safe.

    Args:
        become: what the copy runs once its pipes and its environment are the daemon's.
        not_shared: open files of this process that the copy closes.
    """
    if sys.platform != "linux" or not has_one_thread():
        return None
    folder = TemporaryDirectory(prefix="landfall-")  # mode 0700
    path = Path(folder.name) / "fork"
    try:
        listener = listening(path)
    except OSError:  # the path is too long
        folder.cleanup()
        return None
    alive, lifeline = os.pipe()
    # What is written before is written once, and the collector writes to nothing that is shared.
    sys.stdout.flush()
    sys.stderr.flush()
    gc.freeze()
    pid = os.fork()
    if pid == 0:
        try:
            os.close(lifeline)
            for end in not_shared:
                end.close()
            take_over(listener, alive)
            become()
        except SystemExit:
            pass
        except BaseException:  # noqa: BLE001  # nothing may run on as a second driver
            traceback.print_exc()
        finally:
            _exit()
    os.close(alive)
    listener.close()
    return ForkServer(pid, path, folder, lifeline)


def has_one_thread() -> bool:
    """Return whether the process has no thread that a fork would lose."""
    names = [(task / "comm").read_text().strip() for task in Path("/proc/self/task").iterdir()]
    return len([name for name in names if name not in _HARMLESS_THREADS]) == 1


def hand_over(path: str) -> bool:
    """Let the copy that waits at ``path`` replace this process, until it ends.

    Returns:
        False if no copy waits there.
    """
    whole = {"env": dict(os.environ), "argv": sys.argv, "path": sys.path, "folder": str(Path.cwd())}
    # A signal that comes while the copy begins is passed on, too.
    before = signal.pthread_sigmask(signal.SIG_BLOCK, {signal.SIGTERM})
    with socket.socket(socket.AF_UNIX) as copy:
        try:
            copy.connect(path)
            socket.send_fds(copy, [b"\0"], [0, 1, 2])
            copy.sendall(json.dumps(whole).encode())
            copy.shutdown(socket.SHUT_WR)
            answer = copy.recv(20)
        except OSError:
            answer = b""
        if answer:
            pid = int(answer)
            signal.signal(signal.SIGTERM, lambda number, _: _kill_all(pid, number))
        signal.pthread_sigmask(signal.SIG_SETMASK, before)
        if not answer:
            return False
        with suppress(OSError):
            copy.recv(1)  # nothing comes but its end
    return True


def _kill_all(pid: int, number: int) -> None:
    """Send a signal to the copy and to its workers, which are in its process group.

    A JVM that ends closes the copy's input as well. PySpark's daemon then takes SIGTERM's default
    action before it signals its workers: a SIGTERM to the copy alone would end it in between.
    """
    with suppress(ProcessLookupError):
        os.killpg(pid, number)


def listening(path: Path) -> socket.socket:
    """Return a socket on which the first process that hands over is waited for.

    Raises:
        OSError: there cannot be one.
    """
    listener = socket.socket(socket.AF_UNIX)
    try:
        listener.bind(str(path))
        listener.listen(1)
    except OSError:
        listener.close()
        raise
    return listener


def take_over(listener: socket.socket, alive: int) -> None:
    """Return when this process has the pipes and the environment of the one that hands over.

    If the other end of the pipe ``alive`` is closed first, this process ends.
    """
    # Ctrl-C at the terminal is for the driver alone, so PySpark's daemon does this, too.
    os.setpgid(0, 0)
    _forget_driver()
    poll = select.poll()
    poll.register(listener, select.POLLIN)
    poll.register(alive, select.POLLIN)
    if alive in {number for number, _ in poll.poll()}:
        _exit()
    connection, _ = listener.accept()
    _, pipes, _, _ = socket.recv_fds(connection, 1, 3)
    for target, pipe in enumerate(pipes):
        os.dup2(pipe, target)
        os.close(pipe)
    with connection.makefile("rb") as stream:
        whole = json.load(stream)
    os.environ.clear()
    os.environ.update(whole["env"])
    sys.argv[:], sys.path[:] = whole["argv"], whole["path"]
    os.chdir(whole["folder"])
    listener.close()
    os.close(alive)
    connection.sendall(str(os.getpid()).encode())
    # Closed by the end of this process, and of no other: its end is what the other side waits for.
    os.register_at_fork(after_in_child=connection.close)


def _forget_driver() -> None:
    """Undo what a driver sets up for its own terminal and its own log."""
    sys.stdout = sys.__stdout__
    sys.stderr = sys.__stderr__
    root = logging.getLogger()
    root.handlers.clear()
    root.filters.clear()
    root.setLevel(logging.WARNING)
    logging.getLogger("landfall").setLevel(logging.NOTSET)


def _exit() -> NoReturn:
    """End without running what the driver has registered for its own end."""
    with suppress(OSError, ValueError):
        sys.stdout.flush()
        sys.stderr.flush()
    os._exit(0)
