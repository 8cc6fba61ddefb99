"""Which hot path runs: the extension ``landfall_native``, or pure Python.

Both read the same records and give the same errors. The extension needs less CPU time. It is built
from ``native/`` where a Rust compiler is; without it, or with ``LANDFALL_NATIVE=off``, pure Python
runs. The switch is for emergencies, so a word that is not known is an error. What is decided here
holds for a whole process.
"""

import importlib
import os
import sys
from dataclasses import dataclass
from functools import cache
from pathlib import Path
from typing import Any

VARIABLE = "LANDFALL_NATIVE"
"""The environment variable that switches the extension off."""
_OFF = frozenset({"off", "no", "false", "0"})
_ON = frozenset({"on", "yes", "true", "1", ""})


@dataclass(frozen=True, slots=True)
class HotPath:
    """The hot path of this process.

    Attributes:
        module: the extension; None if pure Python runs.
        librdkafka: the file of the library that confluent-kafka loads; empty if pure Python runs.
        why: why pure Python runs; empty if the extension does.
    """

    module: Any
    librdkafka: str
    why: str

    @property
    def name(self) -> str:
        """``native`` or ``python``, as in metrics and in the status."""
        return "native" if self.module else "python"

    def __str__(self) -> str:
        if self.module:
            return f"native (landfall-native {self.module.__version__})"
        return f"pure Python ({self.why})"


@cache
def hot_path() -> HotPath:
    """The hot path of this process; loads the extension, if it is there, at the first call.

    Raises:
        ValueError: ``LANDFALL_NATIVE`` is another word than those that switch it on or off.
    """
    word = os.environ.get(VARIABLE, "")
    if word.lower() in _OFF:
        return _python(f"{VARIABLE} is {word}")
    if word.lower() not in _ON:
        raise ValueError(f"environment variable {VARIABLE}: must be on or off, got {word!r}")
    try:
        module = importlib.import_module("landfall_native")
    except ImportError as error:
        is_absent = isinstance(error, ModuleNotFoundError)
        return _python("landfall-native is not installed" if is_absent else str(error))
    library = _librdkafka()
    if library is None:
        return _python("confluent-kafka brings no librdkafka of its own")
    return HotPath(module, str(library), "")


def _python(why: str) -> HotPath:
    return HotPath(None, "", why)


def _librdkafka() -> Path | None:
    """The library that confluent-kafka's wheel brings, or None."""
    # Not imported: commands that read no records must not wait for it.
    for folder in map(Path, sys.path):
        for name, pattern in (
            ("confluent_kafka.libs", "librdkafka-*.so.*"),
            ("confluent_kafka/.dylibs", "librdkafka*.dylib"),
        ):
            if found := sorted((folder / name).glob(pattern)):
                return found[0]
    return None
