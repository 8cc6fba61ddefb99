"""The operator's own Lease: of all that run, the holder alone acts.

A holder renews it every few seconds, in a thread of its own: an event loop that is busy with a
thousand groups must not cost the lease. Another one takes it when it was given back, or when it has
not changed for as long as it is held, by that one's own clock: clocks of different machines are
never compared. A holder that could not renew it in time stops before anybody may take it, and looks
at its age before each write, so one that was frozen writes nothing when it wakes. What was under
way is
harmless: see docs/adr/0006.
"""

import asyncio
import logging
import threading
import time
from collections.abc import Callable
from dataclasses import dataclass
from datetime import datetime

from landfall.errors import Fenced, LandfallError
from landfall_operator.objects.overlay import Json
from landfall_operator.runtime.kube_client import Conflict, Kube, NotFound, RequestRejected

log = logging.getLogger(__name__)

LOOK = 0.5
"""Seconds between two looks of the event loop at whether the lease is still ours."""


def since_boot() -> float:
    """Seconds by a clock that nobody sets, and that passes while a process is stopped or its machine sleeps."""
    return (
        time.clock_gettime(time.CLOCK_BOOTTIME)
        if hasattr(time, "CLOCK_BOOTTIME")
        else time.monotonic()
    )


@dataclass(frozen=True, slots=True)
class Terms:
    """Times of a Lease, in seconds.

    Attributes:
        held: how long a holder may be silent before another one takes it.
        stops: how long a holder that cannot renew it goes on; less than ``held`` by more than a
            request takes.
        renewed: how often it is renewed.
        again: how soon after a renewal that failed the next one is tried.
        tried: how often others look at it.
    """

    held: float = 20.0
    stops: float = 12.0
    renewed: float = 4.0
    again: float = 1.0
    tried: float = 2.0


class Lease:
    """One Lease, as one that wants it sees it."""

    def __init__(
        self,
        kube: Kube,
        where: tuple[str, str],
        holder: str,
        clock: Callable[[], datetime],
        terms: Terms = Terms(),  # frozen
        seconds: Callable[[], float] = since_boot,
    ) -> None:
        """Of a namespace and a name; ``holder`` is who wants it: no two that run at the same time may have the same."""
        self._kube = kube
        self._where = where
        self._holder = holder
        self._clock = clock
        self._terms = terms
        self._seconds = seconds
        self._seen = ""
        self._seen_since = 0.0
        self._renewed = 0.0
        self._lost = "nobody yet"
        self._over = threading.Event()
        self._thread = threading.Thread(target=self._renew, name="lease", daemon=True)
        self.stands_by = False
        self.looked = time.monotonic()

    @property
    def held(self) -> bool:
        """Whether it is ours for certain."""
        return not self._others()

    def check(self) -> None:
        """Do nothing while it is ours; to be asked before each thing that only the holder may do, from any thread.

        Raises:
            Fenced: another one has it, or may soon. That stays so.
        """
        if others := self._others():
            raise Fenced(f"the lease {'/'.join(self._where)} belongs to {others}")

    async def acquire(self) -> None:
        """Wait until it is ours; from then on it is renewed.

        Raises:
            Refused: we may not have it at all.
        """
        told = ""
        while True:
            began = self._seconds()
            try:
                other = await asyncio.to_thread(self._try)
            except RequestRejected:
                raise
            except LandfallError as error:
                other = f"({error})"
            self.looked = time.monotonic()
            if not other:
                self._renewed, self._lost = began, ""
                self._thread.start()
                log.info("leading", extra={"lease": "/".join(self._where), "holder": self._holder})
                return
            self.stands_by = True
            if other != told:
                log.info("standing by for %s", other, extra={"lease": "/".join(self._where)})
                told = other
            await asyncio.sleep(self._terms.tried)

    async def keep(self) -> None:
        """Wait as long as it is ours.

        Raises:
            Fenced: another one has it, or may soon.
        """
        while self.held:  # noqa: ASYNC110  # time passes by itself
            await asyncio.sleep(LOOK)
        self.check()

    def _renew(self) -> None:
        """Renew it, until it is lost or given back: in a thread of its own, however busy the event loop is."""
        wait = self._terms.renewed
        while not self._over.wait(wait) and self.held:
            began, wait = self._seconds(), self._terms.again
            try:
                other = self._try()
            except LandfallError as error:
                log.warning("lease not renewed: %s", error)
            else:
                self._renewed, wait = began, self._terms.renewed
                self._lost = other or self._lost
            self.looked = time.monotonic()

    def _others(self) -> str:
        """Who has it, or may soon have it; empty if it is ours for certain."""
        if not self._lost and self._seconds() - self._renewed > self._terms.stops:
            self._lost = "whoever is next: it could not be renewed in time"
        return self._lost

    async def release(self) -> None:
        """Give it back, so that the next one need not wait."""
        if self.held:
            self._lost = "whoever is next: it is given back"
            try:
                await asyncio.to_thread(self._give_back)
            except LandfallError as error:
                log.info("lease not given back: %s", error)

    def _try(self) -> str:
        """Take or renew it; returns who has it if that is not us."""
        try:
            lease = self._kube.get("Lease", *self._where)
        except NotFound:
            return self._written(self._kube.create, self._manifest({}, transitions=0))
        spec, version = lease["spec"], lease["metadata"]["resourceVersion"]
        if version != self._seen:
            self._seen, self._seen_since = version, self._seconds()
        holder: str = spec.get("holderIdentity") or ""
        silent = self._seconds() - self._seen_since > spec.get("leaseDurationSeconds", 0)
        if holder not in {"", self._holder} and not silent:
            return holder
        moved = holder != self._holder
        transitions = spec.get("leaseTransitions", 0) + (1 if moved else 0)
        ours = self._manifest(
            lease["metadata"], transitions, began=None if moved else spec.get("acquireTime")
        )
        return self._written(self._kube.replace, ours)

    def _written(self, write: Callable[[Json], Json], lease: Json) -> str:
        try:
            self._seen = write(lease)["metadata"]["resourceVersion"]
        except Conflict:
            return "whoever was quicker"
        self._seen_since = self._seconds()
        return ""

    def _give_back(self) -> None:
        self._over.set()
        self._thread.join()
        lease = self._kube.get("Lease", *self._where)
        if lease["spec"].get("holderIdentity") == self._holder:
            self._kube.replace(
                {
                    **lease,
                    "spec": {**lease["spec"], "holderIdentity": "", "leaseDurationSeconds": 1},
                }
            )

    def _manifest(self, metadata: Json, transitions: int, began: str | None = None) -> Json:
        now = self._clock().strftime("%Y-%m-%dT%H:%M:%S.%fZ")
        namespace, name = self._where
        version = {"resourceVersion": metadata["resourceVersion"]} if metadata else {}
        return {
            "apiVersion": "coordination.k8s.io/v1",
            "kind": "Lease",
            "metadata": {"name": name, "namespace": namespace, **version},
            "spec": {
                "holderIdentity": self._holder,
                "leaseDurationSeconds": round(self._terms.held),
                "acquireTime": began or now,
                "renewTime": now,
                "leaseTransitions": transitions,
            },
        }
