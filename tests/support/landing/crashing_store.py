"""A store that stops or kills its own process at a step that the environment names.

It is opened by ``spec.output.store``, so a whole ``landfall run`` dies where a test wants it to,
without a change to the product. ``LANDFALL_TEST_STRIKE`` holds a signal and a step, such as
``KILL before create COMMIT``. A step is ``before`` or ``after``, followed by one of these:

- ``create TYPE``: a ledger record of this type (``OPEN``, ``ADD``, ``COMMIT``, ``YIELD``) is
  created;
- ``complete N``: the N-th data object, counted from 1, is made visible. Objects are completed one
  after the other here, so that exactly N, or N - 1, are visible then;
- ``copy N``: the N-th part is copied from another object;
- ``keep N``: the N-th copy of an object that retires is made visible;
- ``retire N``: the N-th object retires. Copies and retirements, too, are one after the other.

``LANDFALL_TEST_GATE`` names a file. Until it exists, tasks block when they upload a part of a data
object; that one does is shown by another file, ``waiting_at`` it.
"""

import json
import os
import re
import signal
from collections import Counter
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from threading import Lock, get_ident
from typing import Any

from landfall.api import spec
from landfall.objects import Part, Upload
from landfall.store import Created
from landfall.store.urls import open_store
from tests.support.waiting import wait_for

STRIKE, GATE = "LANDFALL_TEST_STRIKE", "LANDFALL_TEST_GATE"
OWN = "_landfall/"
"""Prefix of objects that are not data, such as those of the probe at startup."""
KEPT = re.compile("_landfall/[^/]+/[^/]+-retired/")
"""What the keys of copies of retired objects begin with."""


def waiting_at(gate: Path) -> Path:
    """The file that shows that a task blocks at this gate."""
    return gate.with_name(f"{gate.name}.waiting")


class CrashingStore:
    """Passes calls on to the store of ``output.url``; see the module."""

    def __init__(self, store: Any) -> None:
        self._store = store
        self._signal, _, self._step = os.environ.get(STRIKE, "").partition(" ")
        self._gate = os.environ.get(GATE)
        self._done = Counter[str]()
        self._one_at_a_time = Lock()

    @classmethod
    def of(cls, output: spec.Output) -> "CrashingStore":
        return cls(open_store(output.model_copy(update={"store": None})))

    def __getattr__(self, name: str) -> Any:
        return getattr(self._store, name)

    def create(self, key: str, body: bytes) -> Created:
        what = f"create {_record_type(body)}"
        self._at(f"before {what}")
        created: Created = self._store.create(key, body)
        self._at(f"after {what}")
        return created

    def put_part(self, key: str, upload_id: str, number: int, body: bytes) -> Part:
        if self._gate and not key.startswith(OWN):
            waiting_at(Path(self._gate)).touch()
            wait_for(Path(self._gate).exists, f"{self._gate} is there")
        part: Part = self._store.put_part(key, upload_id, number, body)
        return part

    def put_copy(
        self, key: str, upload_id: str, number: int, source: str, start: int, length: int
    ) -> Part:
        with self._counted("copy"):
            part: Part = self._store.put_copy(key, upload_id, number, source, start, length)
            return part

    def complete(self, upload: Upload, *, is_fresh: bool = False) -> None:
        if upload.key.startswith(OWN) and not KEPT.match(upload.key):
            self._store.complete(upload, is_fresh=is_fresh)
            return
        with self._counted("keep" if KEPT.match(upload.key) else "complete"):
            self._store.complete(upload, is_fresh=is_fresh)

    def retire(self, upload: Upload) -> None:
        with self._counted("retire"):
            self._store.retire(upload)

    @contextmanager
    def _counted(self, what: str) -> Iterator[None]:
        with self._one_at_a_time:
            self._done[what] += 1
            self._at(f"before {what} {self._done[what]}")
            yield
            self._at(f"after {what} {self._done[what]}")

    def _at(self, step: str) -> None:
        if step == self._step:
            self._step = ""  # only once, as a call may be repeated
            # To this thread, so that it does not take another step; the signal ends or stops all
            # others.
            signal.pthread_kill(get_ident(), signal.Signals[f"SIG{self._signal}"])


def _record_type(body: bytes) -> str:
    try:
        return str(json.loads(body)["type"])
    except (ValueError, KeyError, TypeError):
        return ""
