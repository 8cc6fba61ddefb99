"""Settings of glibc's allocator: how much freed memory a process keeps, and in how many arenas.

Executors get them as environment variables, which glibc reads when a process starts. A local run
sets them in its own process, from which the processes of its tasks are forked.
"""

import ctypes
from collections.abc import Mapping

MALLOC: Mapping[str, int] = {
    "MALLOC_ARENA_MAX": 2,
    "MALLOC_MMAP_THRESHOLD_": 12 * 2**20,
    "MALLOC_TRIM_THRESHOLD_": 64 * 2**20,
}
"""Environment variables and their values, see mallopt(3)."""
_PARAMETERS = {
    "MALLOC_ARENA_MAX": -8,
    "MALLOC_MMAP_THRESHOLD_": -3,
    "MALLOC_TRIM_THRESHOLD_": -1,
}


def tune_malloc(environment: Mapping[str, str]) -> None:
    """Set them in this process, except the ones in its environment; nothing without glibc."""
    mallopt = getattr(ctypes.CDLL(None), "mallopt", None)
    if mallopt is None:
        return
    for name, value in MALLOC.items():
        if name not in environment:
            mallopt(_PARAMETERS[name], value)
