"""Ports for servers on this machine, saved so that a restarted server keeps its address."""

import json
import random
import socket
import time
from contextlib import suppress
from pathlib import Path

# Below the range of ephemeral ports, so no outgoing connection takes the port of a stopped server.
PORTS = range(20_000, 32_000)
_RANDOM = random.SystemRandom()
"""Not seedable: two processes with the same seed would choose the same free ports."""


def chosen(memory: Path, count: int, host: str, *, keep: bool) -> tuple[int, ...]:
    """The saved ports. Unless ``keep`` is set, new ones are chosen if any of them is in use."""
    ports = tuple(json.loads(memory.read_text())) if memory.exists() else ()
    if keep or (ports and _all_free_soon(host, ports)):
        return ports
    ports = any_free(host, count)
    write(memory, json.dumps(ports))
    return ports


def any_free(host: str, count: int) -> tuple[int, ...]:
    """Free ports outside the ephemeral range, so that no program is given one that asks for any."""
    return tuple(port for port in _RANDOM.sample(PORTS, 200) if free(host, port))[:count]


def free(host: str, port: int) -> bool:
    """Return whether no socket listens on the port."""
    with socket.socket() as probe:
        probe.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
        with suppress(OSError):
            probe.bind((host, port))
            return True
    return False


def answers(host: str, port: int) -> bool:
    """Return whether the port accepts connections."""
    with suppress(OSError), socket.create_connection((host, port), timeout=1):
        return True
    return False


def write(path: Path, text: str, mode: int = 0o644) -> None:
    """Replace a file atomically: a crash leaves the old or the new content."""
    scratch = path.with_name(f"{path.name}.new")
    scratch.touch(mode)
    scratch.write_text(text)
    scratch.replace(path)


def _all_free_soon(host: str, ports: tuple[int, ...]) -> bool:
    """Return whether all ports are free within 20 seconds."""
    # A killed process is gone from /proc shortly before the kernel closes its ports.
    deadline = time.monotonic() + 20
    while not (all_free := all(free(host, port) for port in ports)) and time.monotonic() < deadline:
        time.sleep(0.02)
    return all_free
