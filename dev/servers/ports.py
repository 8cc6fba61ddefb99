"""Ports for servers on this machine, remembered so that clients find a restarted server where it was."""

import json
import random
import socket
import time
from contextlib import suppress
from pathlib import Path

# Under the range that systems hand to outgoing connections, so a stopped server finds its port free
# again.
PORTS = range(20_000, 32_000)
_DICE = random.SystemRandom()
"""Nobody seeds it: two processes with the same seed would choose the same ports, and find them free
at the same time.
"""


def chosen(memory: Path, count: int, host: str, *, keep: bool) -> tuple[int, ...]:
    """The remembered ports; unless they must be kept, new ones are chosen where somebody else took them."""
    ports = tuple(json.loads(memory.read_text())) if memory.exists() else ()
    if keep or (ports and _all_free_soon(host, ports)):
        return ports
    ports = tuple(port for port in _DICE.sample(PORTS, 200) if free(host, port))[:count]
    write(memory, json.dumps(ports))
    return ports


def free(host: str, port: int) -> bool:
    """Whether nobody listens there."""
    with socket.socket() as probe:
        probe.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
        with suppress(OSError):
            probe.bind((host, port))
            return True
    return False


def answers(host: str, port: int) -> bool:
    """Whether something accepts connections."""
    with suppress(OSError), socket.create_connection((host, port), timeout=1):
        return True
    return False


def write(path: Path, text: str, mode: int = 0o644) -> None:
    """Replace a file's content in one step, so a crash leaves the old or the new."""
    scratch = path.with_name(f"{path.name}.new")
    scratch.touch(mode)
    scratch.write_text(text)
    scratch.replace(path)


def _all_free_soon(host: str, ports: tuple[int, ...]) -> bool:
    """Whether all are free within a moment: a killed process has lost its command line before it has closed its ports."""
    deadline = time.monotonic() + 20
    while not (all_free := all(free(host, port) for port in ports)) and time.monotonic() < deadline:
        time.sleep(0.02)
    return all_free
