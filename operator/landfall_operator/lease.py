"""The operator's own Lease: of all that run, the holder alone acts.

A holder renews it every few seconds. Another one takes it when it was given back, or when it has not changed for as long as
it is held, by that one's own clock: clocks of different machines are never compared. A holder that could not renew it in
time stops before anybody may take it. What was under way then is harmless: see docs/adr/0006.
"""

import asyncio
import logging
import time
from collections.abc import Callable
from dataclasses import dataclass
from datetime import datetime

from landfall.errors import Fenced, LandfallError
from landfall_operator.kube import Absent, Conflict, Kube, Refused
from landfall_operator.merge import Json

log = logging.getLogger(__name__)


@dataclass(frozen=True, slots=True)
class Terms:
    """Times of a Lease, in seconds.

    Attributes:
        held: how long a holder may be silent before another one takes it.
        stops: how long a holder that cannot renew it goes on; less than ``held`` by more than a request takes.
        renewed: how often it is renewed.
        tried: how often others look at it.
    """

    held: float = 20.0
    stops: float = 12.0
    renewed: float = 4.0
    tried: float = 2.0


class Lease:
    """One Lease, as one that wants it sees it."""

    def __init__(
        self,
        kube: Kube,
        namespace: str,
        name: str,
        holder: str,
        clock: Callable[[], datetime],
        terms: Terms = Terms(),  # frozen
    ) -> None:
        """``holder`` names who wants it; no two that run at the same time may have the same."""
        self._kube = kube
        self._where = namespace, name
        self._holder = holder
        self._clock = clock
        self._terms = terms
        self._seen = ""
        self._seen_since = 0.0
        self.held = False
        self.stands_by = False
        self.looked = time.monotonic()

    async def acquire(self) -> None:
        """Wait until it is ours.

        Raises:
            Refused: we may not have it at all.
        """
        told = ""
        while True:
            try:
                other = await asyncio.to_thread(self._try)
            except Refused:
                raise
            except LandfallError as error:
                other = f"({error})"
            self.looked = time.monotonic()
            if not other:
                self.held = True
                log.info("leading", extra={"lease": "/".join(self._where), "holder": self._holder})
                return
            self.stands_by = True
            if other != told:
                log.info("standing by for %s", other, extra={"lease": "/".join(self._where)})
                told = other
            await asyncio.sleep(self._terms.tried)

    async def keep(self) -> None:
        """Renew it, for ever.

        Raises:
            Fenced: another one has it, or may soon.
        """
        renewed = time.monotonic()
        while True:
            await asyncio.sleep(self._terms.renewed)
            began = time.monotonic()
            try:
                async with asyncio.timeout(self._terms.stops - (began - renewed)):
                    other = await asyncio.to_thread(self._try)
            except TimeoutError:
                other = "whoever is next: it could not be renewed in time"
            except LandfallError as error:
                log.warning("lease not renewed: %s", error)
                other = "" if began - renewed < self._terms.stops else "whoever is next: it could not be renewed"
            else:
                renewed = began
            if other:
                self.held = False
                raise Fenced(f"the lease {'/'.join(self._where)} belongs to {other}")
            self.looked = time.monotonic()

    async def release(self) -> None:
        """Give it back, so that the next one need not wait."""
        if self.held:
            self.held = False
            try:
                await asyncio.to_thread(self._give_back)
            except LandfallError as error:
                log.info("lease not given back: %s", error)

    def _try(self) -> str:
        """Take or renew it; returns who has it if that is not us."""
        try:
            lease = self._kube.get("Lease", *self._where)
        except Absent:
            return self._written(self._kube.create, self._manifest({}, transitions=0))
        spec, version = lease["spec"], lease["metadata"]["resourceVersion"]
        if version != self._seen:
            self._seen, self._seen_since = version, time.monotonic()
        holder: str = spec.get("holderIdentity") or ""
        silent = time.monotonic() - self._seen_since > spec.get("leaseDurationSeconds", 0)
        if holder not in {"", self._holder} and not silent:
            return holder
        moved = holder != self._holder
        transitions = spec.get("leaseTransitions", 0) + (1 if moved else 0)
        ours = self._manifest(lease["metadata"], transitions, began=None if moved else spec.get("acquireTime"))
        return self._written(self._kube.replace, ours)

    def _written(self, write: Callable[[Json], Json], lease: Json) -> str:
        try:
            self._seen = write(lease)["metadata"]["resourceVersion"]
        except Conflict:
            return "whoever was quicker"
        self._seen_since = time.monotonic()
        return ""

    def _give_back(self) -> None:
        lease = self._kube.get("Lease", *self._where)
        if lease["spec"].get("holderIdentity") == self._holder:
            self._kube.replace({**lease, "spec": {**lease["spec"], "holderIdentity": "", "leaseDurationSeconds": 1}})

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
