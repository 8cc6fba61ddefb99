"""Bounds the memory that one step of reading a file takes: the auditor's own copy of this rule.

A few bytes of a Parquet, ORC, Avro or sequence file can claim to unpack to gigabytes, and the
libraries that read them allocate what the file claims: a page of 2 GiB for each column, a value of
a dictionary once for each row, a footer with a million row groups. A writer of such a file could
end the process, and with it all its other work. Within ``bounded`` the kernel refuses the
allocation (``RLIMIT_DATA``, see setrlimit(2)), the library raises, and the file counts as damaged.
No look at the file beforehand could do this: its own size fields may be wrong.

The limit holds for the whole process while a step runs, so steps are short: a batch of rows. Other
threads are refused memory only while such a step has taken nearly all that it may.
"""

import os
import resource
from collections.abc import Iterable, Iterator
from contextlib import contextmanager
from functools import cache
from pathlib import Path
from threading import Lock
from typing import TypeVar

import pyarrow as pa

T = TypeVar("T")

MIN_BYTES, MAX_BYTES = 1 << 30, 4 << 30
"""The least and the most that a step may take, for any memory of the container."""
_SPARE_BYTES = (256 + 16 * (os.cpu_count() or 1)) << 20
"""Memory that a step may always reserve, as for stacks of threads that libraries start in it.

Arrow's allocator has reserved a gigabyte, and used little of it, so that this may be the limit.
"""
_CONTAINER = (
    Path("/sys/fs/cgroup/memory.max"),
    Path("/sys/fs/cgroup/memory/memory.limit_in_bytes"),
)
_MEMORY = "/proc/self/statm"
"""In pages: size, resident, shared, text, 0, data, 0. See proc(5)."""
_PAGE_BYTES = os.sysconf("SC_PAGE_SIZE")


class _Depth:
    """How many steps run in this process, and the limit before the first of them."""

    def __init__(self) -> None:
        self.lock = Lock()
        self.steps = 0
        self.before = resource.RLIM_INFINITY


_DEPTH = _Depth()


@contextmanager
def bounded() -> Iterator[None]:
    """Let this process take ``step_bytes`` more, and no more, within.

    Raises:
        pa.ArrowInvalid: what is done within needs more. It is a ``ValueError``, too, and what
            Arrow raises for a damaged file.
    """
    _enter()
    try:
        yield
    except MemoryError as error:
        raise pa.ArrowInvalid(
            f"needs more than {step_bytes() >> 20} MiB of memory to be unpacked ({error})"
        ) from error
    finally:
        _leave()


def steps(items: Iterable[T]) -> Iterator[T]:
    """Yield items, each made within ``bounded``. Raises as that does."""
    iterator = iter(items)
    end = object()
    while True:
        with bounded():
            item = next(iterator, end)
        if item is end:
            return
        yield item  # type: ignore[misc]  # not the end


@cache
def step_bytes() -> int:
    """Return how much a step may take: half of the memory of the container or the machine."""
    sizes = [_PAGE_BYTES * os.sysconf("SC_PHYS_PAGES")]
    for file in _CONTAINER:
        try:
            sizes.append(int(file.read_text()))
        except (OSError, ValueError):
            continue  # no such controller, or "max"
    return max(MIN_BYTES, min(MAX_BYTES, min(sizes) // 2))


def _enter() -> None:
    with _DEPTH.lock:
        _DEPTH.steps += 1
        if _DEPTH.steps > 1:
            return
        pa.allocate_buffer(1)  # Arrow's allocator reserves a gigabyte at its first use
        reserved, used = _memory()
        soft, hard = resource.getrlimit(resource.RLIMIT_DATA)
        _DEPTH.before = soft
        if reserved:
            limit = max(used + step_bytes(), reserved + _SPARE_BYTES)
            known = [value for value in (limit, soft, hard) if value != resource.RLIM_INFINITY]
            resource.setrlimit(resource.RLIMIT_DATA, (min(known), hard))


def _leave() -> None:
    with _DEPTH.lock:
        _DEPTH.steps -= 1
        if not _DEPTH.steps:
            _, hard = resource.getrlimit(resource.RLIMIT_DATA)
            resource.setrlimit(resource.RLIMIT_DATA, (_DEPTH.before, hard))


def _memory() -> tuple[int, int]:
    """How many bytes of data this process has reserved, and uses; 0 where that is unknown."""
    try:
        with open(_MEMORY, "rb") as file:  # noqa: PTH123  # twice as fast, and once a batch
            _, resident, shared, _, _, data, _ = map(int, file.read().split())
    except (OSError, ValueError):
        return 0, 0
    return data * _PAGE_BYTES, (resident - shared) * _PAGE_BYTES
