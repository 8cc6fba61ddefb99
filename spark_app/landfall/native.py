"""The hot path in use: the extension ``landfall_native``, or pure Python.

Both read the same records and give the same errors. The extension needs less CPU time. It is built
from ``native/`` where a Rust compiler is; without it, or with ``LANDFALL_NATIVE=off``, pure Python
runs. The switch is for emergencies, so a word that is not known is an error. What is decided here
holds for a whole process.

The extension calls the librdkafka that confluent-kafka's compiled module is linked to: it opens
that module, and the dynamic linker finds the library, wherever it is. So there is never a second
librdkafka in a process. What cannot be opened is a reason to run pure Python.
"""

import importlib
import logging
import os
import sys
from dataclasses import dataclass
from functools import cache
from importlib.machinery import PathFinder
from importlib.util import find_spec
from typing import Any

VARIABLE = "LANDFALL_NATIVE"
"""The environment variable that switches the extension off."""
_OFF = frozenset({"off", "no", "false", "0"})
_ON = frozenset({"on", "yes", "true", "1", ""})
_CLIENT = "confluent_kafka"

log = logging.getLogger(__name__)


@dataclass(frozen=True, slots=True)
class HotPath:
    """The hot path of this process.

    Attributes:
        module: the extension; None if pure Python runs.
        librdkafka: the extension's ``Librdkafka``, opened; None if pure Python runs.
        why: why pure Python runs; empty if the extension does.
    """

    module: Any
    librdkafka: Any
    why: str

    @property
    def name(self) -> str:
        """``native`` or ``python``, as in metrics and in the status."""
        return "native" if self.module else "python"

    def __str__(self) -> str:
        if self.module:
            versions = (self.module.__version__, self.librdkafka.version)
            return "native (landfall-native {}, librdkafka {})".format(*versions)
        return f"pure Python ({self.why})"


@cache
def hot_path() -> HotPath:
    """The hot path of this process; loads the extension and librdkafka at the first call.

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
    try:
        return HotPath(module, _librdkafka(module), "")
    except (OSError, AttributeError, LookupError) as error:
        log.warning("landfall-native not loaded", extra={"why": str(error)})
        return _python(str(error))


def _python(why: str) -> HotPath:
    return HotPath(None, None, why)


def _librdkafka(module: Any) -> Any:
    """Open the librdkafka of confluent-kafka.

    Raises:
        OSError: it cannot be opened, or lacks a function.
        AttributeError: the extension is older than this.
        LookupError: confluent-kafka is not installed, or loaded with another librdkafka.
    """
    # Not imported: commands that read no records must not wait for it.
    package = find_spec(_CLIENT)
    found = package and PathFinder.find_spec(f"{_CLIENT}.cimpl", package.submodule_search_locations)
    if not found or not found.origin:
        raise LookupError("confluent-kafka is not installed")
    library = module.Librdkafka(found.origin)
    client = sys.modules.get(_CLIENT)
    if client is not None and (loaded := client.libversion()[0]) != library.version:
        raise LookupError(f"librdkafka {library.version} opened, confluent-kafka loaded {loaded}")
    return library
