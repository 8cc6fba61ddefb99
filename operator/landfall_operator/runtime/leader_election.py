"""The operator's leader election: of all operators with the same Lease, only its holder acts.

The holder renews the Lease every few seconds, in a separate thread: an event loop that is busy with
a thousand groups must not lose the lease. Another operator takes it when it was released, or when
it has not changed for the lease's duration by that operator's own clock: clocks of different
machines are never compared. A holder that cannot renew the lease in time stops before another
operator may take it. It also checks the age of its last renewal before each write, so a process
that was frozen writes nothing when it resumes. A request that is still in flight at that time is
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
from landfall_operator.runtime.kube_client import Conflict, KubeClient, NotFound, RequestRejected

log = logging.getLogger(__name__)

CHECK_INTERVAL = 0.5
"""Seconds between two checks of the event loop whether this operator still holds the lease."""


def since_boot() -> float:
    """Seconds of a clock that is never set and that runs while the machine is suspended."""
    return (
        time.clock_gettime(time.CLOCK_BOOTTIME)
        if hasattr(time, "CLOCK_BOOTTIME")
        else time.monotonic()
    )


@dataclass(frozen=True, slots=True)
class LeaseTimes:
    """The times of a Lease, in seconds.

    Attributes:
        duration: How long the holder may fail to renew the lease before another operator takes it.
        renew_deadline: How long a holder that cannot renew the lease keeps acting; less than
            ``duration`` by more than the time that a request may take.
        renew_interval: The time between two renewals.
        retry_interval: The time from a failed renewal to the next attempt.
        acquire_interval: The time between two attempts of another operator to acquire the lease.
    """

    duration: float = 20.0
    renew_deadline: float = 12.0
    renew_interval: float = 4.0
    retry_interval: float = 1.0
    acquire_interval: float = 2.0


@dataclass(frozen=True, slots=True)
class LeaseIdentity:
    """The Lease that an operator wants, and its name in it.

    Attributes:
        namespace: The namespace of the Lease.
        name: The name of the Lease.
        holder: The operator's name in the Lease; unique among the operators that run.
    """

    namespace: str
    name: str
    holder: str

    def __str__(self) -> str:
        return f"{self.namespace}/{self.name}"


class LeaderLease:
    """A Lease as one operator sees it.

    Attributes:
        on_standby: Whether another operator was found to hold the lease.
        last_check: When the Lease was last read or an attempt failed, by the monotonic clock; the
            liveness probe watches it.
    """

    def __init__(
        self,
        kube: KubeClient,
        identity: LeaseIdentity,
        now: Callable[[], datetime],
        times: LeaseTimes = LeaseTimes(),  # frozen
        seconds: Callable[[], float] = since_boot,
    ) -> None:
        """Nothing is requested before ``acquire``.

        Args:
            kube: The client, with a timeout that leaves time to retry within the renew deadline.
            identity: The Lease, and the holder to enter in it.
            now: The clock for the timestamps in the Lease; nothing is decided by them.
            times: The times of the Lease.
            seconds: The clock that decides.
        """
        self._kube = kube
        self._identity = identity
        self._now = now
        self._times = times
        self._seconds = seconds
        self._seen_version = ""
        self._seen_since = 0.0
        self._renewed_at = 0.0
        # The other holder, as far as it is known; empty while this operator holds the lease.
        self._other = "nobody yet"
        self._released = threading.Event()
        self._thread = threading.Thread(target=self._renew_forever, name="lease", daemon=True)
        self.on_standby = False
        self.last_check = time.monotonic()

    @property
    def held(self) -> bool:
        """Return whether this operator certainly holds the lease."""
        return not self._other_holder()

    def check(self) -> None:
        """Return while this operator holds the lease. Call it before each write, from any thread.

        Raises:
            Fenced: Another operator holds the lease or may take it soon. This is final.
        """
        if other := self._other_holder():
            raise Fenced(f"the lease {self._identity} belongs to {other}")

    async def acquire(self) -> None:
        """Wait until this operator holds the lease; from then on a thread renews it.

        Raises:
            RequestRejected: The operator has no right to read or write the Lease.
        """
        logged = ""
        while True:
            # Taken before the request: the lease may be valid for less time, never for more.
            began = self._seconds()
            try:
                other = await asyncio.to_thread(self._acquire_or_renew)
            except RequestRejected:
                raise
            except LandfallError as error:
                other = f"({error})"
            self.last_check = time.monotonic()
            if not other:
                self._renewed_at = began
                self._other = ""
                self._thread.start()
                log.info("became the leader", extra=self._fields())
                return
            self.on_standby = True
            if other != logged:
                log.info("standing by: the leader is %s", other, extra=self._fields())
                logged = other
            await asyncio.sleep(self._times.acquire_interval)

    async def keep(self) -> None:
        """Wait as long as this operator holds the lease.

        Raises:
            Fenced: Another operator holds the lease or may take it soon.
        """
        while self.held:  # noqa: ASYNC110  # time passes by itself
            await asyncio.sleep(CHECK_INTERVAL)
        self.check()

    def _renew_forever(self) -> None:
        """Renew the lease until it is lost or released."""
        wait = self._times.renew_interval
        while not self._released.wait(wait) and self.held:
            began = self._seconds()
            wait = self._times.retry_interval
            try:
                other = self._acquire_or_renew()
            except LandfallError as error:
                log.warning("lease not renewed: %s", error, extra=self._fields())
            else:
                self._renewed_at = began
                wait = self._times.renew_interval
                # A lost lease stays lost: `other` is empty when the renewal succeeded.
                self._other = other or self._other
            self.last_check = time.monotonic()

    def _other_holder(self) -> str:
        """Return who holds the lease or may soon hold it; empty if this operator certainly does."""
        overdue = self._seconds() - self._renewed_at > self._times.renew_deadline
        if not self._other and overdue:
            self._other = "the next operator: it could not be renewed in time"
        return self._other

    async def release(self) -> None:
        """Give up the lease, so that the next operator need not wait until it expires."""
        if self.held:
            # First of all, so that no write of this operator can follow the release.
            self._other = "the next operator: it was released"
            try:
                await asyncio.to_thread(self._clear_holder)
            except LandfallError as error:
                log.info("lease not released: %s", error, extra=self._fields())

    def _acquire_or_renew(self) -> str:
        """Take or renew the lease; returns its holder if that is another operator, else nothing."""
        try:
            lease = self._kube.get("Lease", self._identity.namespace, self._identity.name)
        except NotFound:
            return self._write(self._kube.create, self._manifest({}, transitions=0))
        spec = lease["spec"]
        version = lease["metadata"]["resourceVersion"]
        if version != self._seen_version:
            self._seen_version = version
            self._seen_since = self._seconds()
        holder: str = spec.get("holderIdentity") or ""
        # By the time for which this operator has seen no change, never by the Lease's renewTime:
        # that is of another machine's clock.
        expired = self._seconds() - self._seen_since > spec.get("leaseDurationSeconds", 0)
        if holder not in {"", self._identity.holder} and not expired:
            return holder
        is_new_holder = holder != self._identity.holder
        transitions = spec.get("leaseTransitions", 0) + (1 if is_new_holder else 0)
        renewed = self._manifest(
            lease["metadata"],
            transitions,
            acquired=None if is_new_holder else spec.get("acquireTime"),
        )
        return self._write(self._kube.replace, renewed)

    def _write(self, write: Callable[[Json], Json], lease: Json) -> str:
        """Write the Lease; returns who holds it if another operator was faster, else nothing."""
        try:
            self._seen_version = write(lease)["metadata"]["resourceVersion"]
        except Conflict:
            return "an operator that was faster"
        self._seen_since = self._seconds()
        return ""

    def _clear_holder(self) -> None:
        # The thread is joined first: a renewal in flight would enter this operator again.
        self._released.set()
        self._thread.join()
        lease = self._kube.get("Lease", self._identity.namespace, self._identity.name)
        if lease["spec"].get("holderIdentity") == self._identity.holder:
            spec = {**lease["spec"], "holderIdentity": "", "leaseDurationSeconds": 1}
            self._kube.replace({**lease, "spec": spec})

    def _fields(self) -> dict[str, str]:
        """The fields of a log event."""
        return {"lease": str(self._identity), "holder": self._identity.holder}

    def _manifest(self, metadata: Json, transitions: int, acquired: str | None = None) -> Json:
        now = self._now().strftime("%Y-%m-%dT%H:%M:%S.%fZ")
        namespace = self._identity.namespace
        name = self._identity.name
        version = {"resourceVersion": metadata["resourceVersion"]} if metadata else {}
        return {
            "apiVersion": "coordination.k8s.io/v1",
            "kind": "Lease",
            "metadata": {"name": name, "namespace": namespace, **version},
            "spec": {
                "holderIdentity": self._identity.holder,
                "leaseDurationSeconds": round(self._times.duration),
                "acquireTime": acquired or now,
                "renewTime": now,
                "leaseTransitions": transitions,
            },
        }
