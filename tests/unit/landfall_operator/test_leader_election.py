"""The operator's lease: renewed however busy the operator is, and never trusted for too long."""

import asyncio
import time
from collections.abc import Iterator
from dataclasses import dataclass, field
from datetime import UTC, datetime
from itertools import count
from typing import Any

import pytest

from landfall.errors import Fenced
from landfall_operator.runtime.kube_client import Conflict, NotFound, Unavailable
from landfall_operator.runtime.leader_election import LeaderLease, LeaseIdentity, LeaseTimes

pytestmark = pytest.mark.asyncio

QUICK = LeaseTimes(renew_interval=0.01, retry_interval=0.01, acquire_interval=0.01)
"""As in production, but with renewals all the time."""
SELDOM = LeaseTimes(renew_interval=3600)


@dataclass
class FakeKube:
    """An API server with one Lease; it does not answer while it is away."""

    lease: dict[str, Any] | None = None
    away: bool = False
    writes: int = 0
    versions: Iterator[int] = field(default_factory=lambda: count(1))

    def get(self, *_: str) -> dict[str, Any]:
        if self.away:
            raise Unavailable("no answer")
        if self.lease is None:
            raise NotFound("no lease")
        return self.lease

    def create(self, lease: dict[str, Any]) -> dict[str, Any]:
        return self._keep(lease)

    def replace(self, lease: dict[str, Any]) -> dict[str, Any]:
        assert self.lease
        if lease["metadata"]["resourceVersion"] != self.lease["metadata"]["resourceVersion"]:
            raise Conflict("changed")
        return self._keep(lease)

    def _keep(self, lease: dict[str, Any]) -> dict[str, Any]:
        if self.away:
            raise Unavailable("no answer")
        self.writes += 1
        self.lease = {
            **lease,
            "metadata": {**lease["metadata"], "resourceVersion": str(next(self.versions))},
        }
        return self.lease

    @property
    def holder(self) -> str:
        assert self.lease
        return str(self.lease["spec"]["holderIdentity"])


@dataclass
class FakeClock:
    """Seconds as a test sets them."""

    seconds: float = 1000.0

    def __call__(self) -> float:
        return self.seconds


def lease_of(
    kube: FakeKube, holder: str, times: LeaseTimes, clock: FakeClock | None = None
) -> LeaderLease:
    return LeaderLease(
        kube,
        LeaseIdentity("ns", "operator", holder),
        lambda: datetime.now(UTC),
        times,
        clock or FakeClock(),
    )  # type: ignore[arg-type]  # a fake


async def until_written(kube: FakeKube, more: int) -> None:
    enough = kube.writes + more
    while kube.writes < enough:  # noqa: ASYNC110  # a thread writes
        await asyncio.sleep(0.001)


async def until_checked(lease: LeaderLease) -> None:
    """Return after one complete check that begins from now on."""
    for _ in range(2):
        before = lease.last_check
        while lease.last_check == before:  # noqa: ASYNC110  # its thread does it
            await asyncio.sleep(0.001)


async def test_a_lease_is_not_held_before_it_is_acquired() -> None:
    lease = lease_of(FakeKube(), "a", QUICK)

    with pytest.raises(Fenced, match="nobody yet"):
        lease.check()
    assert not lease.held


async def test_the_lease_is_renewed_while_the_event_loop_is_busy() -> None:
    kube = FakeKube()
    lease = lease_of(kube, "a", QUICK)
    await lease.acquire()

    enough = kube.writes + 5
    while kube.writes < enough:
        time.sleep(0.001)  # noqa: ASYNC251  # nothing else runs in this loop meanwhile

    lease.check()
    await lease.release()


async def test_a_frozen_holder_loses_the_lease_for_good() -> None:
    kube, clock = FakeKube(), FakeClock()
    lease = lease_of(kube, "a", SELDOM, clock)
    await lease.acquire()

    clock.seconds += SELDOM.renew_deadline
    lease.check()
    clock.seconds += 0.1
    with pytest.raises(
        Fenced, match="ns/operator belongs to the next operator: it could not be renewed in time"
    ):
        lease.check()

    clock.seconds -= 60
    assert not lease.held
    with pytest.raises(Fenced):
        await lease.keep()


async def test_a_holder_that_cannot_renew_stops_before_others_may_take_the_lease() -> None:
    kube, clock = FakeKube(), FakeClock()
    lease, other = lease_of(kube, "a", QUICK, clock), lease_of(kube, "b", QUICK, clock)
    await lease.acquire()
    waiting = asyncio.create_task(other.acquire())
    kube.away = True

    clock.seconds += QUICK.renew_deadline + 0.1
    with pytest.raises(Fenced):
        await lease.keep()
    kube.away = False
    await until_checked(other)

    assert (kube.holder, other.held) == ("a", False)
    clock.seconds += QUICK.duration + 0.1
    await waiting
    assert (kube.holder, other.held) == ("b", True)
    await other.release()


async def test_a_failed_renewal_is_retried() -> None:
    kube = FakeKube()
    lease = lease_of(kube, "a", QUICK)
    await lease.acquire()
    kube.away = True
    await until_checked(lease)

    kube.away = False
    await until_written(kube, 2)

    lease.check()
    await lease.release()


async def test_a_holder_that_finds_another_one_has_lost_the_lease() -> None:
    kube = FakeKube()
    lease = lease_of(kube, "a", QUICK)
    await lease.acquire()

    assert kube.lease
    spec = {**kube.lease["spec"], "holderIdentity": "b"}
    kube.lease = {
        **kube.lease,
        "spec": spec,
        "metadata": {**kube.lease["metadata"], "resourceVersion": "stolen"},
    }

    with pytest.raises(Fenced, match=r"belongs to (b|an operator that was faster)"):
        await lease.keep()


async def test_a_released_lease_is_free_at_once_and_no_longer_held() -> None:
    kube = FakeKube()
    lease, other = lease_of(kube, "a", QUICK), lease_of(kube, "b", QUICK)
    await lease.acquire()

    await lease.release()

    assert (kube.holder, lease.held) == ("", False)
    await other.acquire()
    assert kube.holder == "b"
    await other.release()
