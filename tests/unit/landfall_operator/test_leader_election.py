"""The operator's lease: kept by whoever renews it, however busy, and never believed in for too
long.
"""

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
from landfall_operator.runtime.leader_election import Lease, Terms

pytestmark = pytest.mark.asyncio

QUICK = Terms(renewed=0.01, again=0.01, tried=0.01)
"""As in production, but that it is renewed all the time."""
SELDOM = Terms(renewed=3600)


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
class Watch:
    """Tells seconds as a test sets them."""

    seconds: float = 1000.0

    def __call__(self) -> float:
        return self.seconds


def lease_of(kube: FakeKube, holder: str, terms: Terms, watch: Watch | None = None) -> Lease:
    return Lease(
        kube, ("ns", "operator"), holder, lambda: datetime.now(UTC), terms, watch or Watch()
    )  # type: ignore[arg-type]  # a twin


async def until_written(kube: FakeKube, more: int) -> None:
    enough = kube.writes + more
    while kube.writes < enough:  # noqa: ASYNC110  # a thread writes
        await asyncio.sleep(0.001)


async def until_looked(lease: Lease) -> None:
    """From now on, to the end."""
    for _ in range(2):
        before = lease.looked
        while lease.looked == before:  # noqa: ASYNC110  # it looks by itself
            await asyncio.sleep(0.001)


async def test_nobody_has_it_before_it_was_taken() -> None:
    lease = lease_of(FakeKube(), "a", QUICK)

    with pytest.raises(Fenced, match="nobody yet"):
        lease.check()
    assert not lease.held


async def test_it_is_renewed_while_the_event_loop_is_busy() -> None:
    kube = FakeKube()
    lease = lease_of(kube, "a", QUICK)
    await lease.acquire()

    enough = kube.writes + 5
    while kube.writes < enough:
        time.sleep(0.001)  # noqa: ASYNC251  # nothing else runs in this loop meanwhile

    lease.check()
    await lease.release()


async def test_who_was_frozen_has_lost_it_and_does_not_get_it_back() -> None:
    kube, watch = FakeKube(), Watch()
    lease = lease_of(kube, "a", SELDOM, watch)
    await lease.acquire()

    watch.seconds += SELDOM.stops
    lease.check()
    watch.seconds += 0.1
    with pytest.raises(
        Fenced, match="ns/operator belongs to whoever is next: it could not be renewed in time"
    ):
        lease.check()

    watch.seconds -= 60
    assert not lease.held
    with pytest.raises(Fenced):
        await lease.keep()


async def test_who_cannot_renew_it_stops_before_others_may_take_it() -> None:
    kube, watch = FakeKube(), Watch()
    lease, other = lease_of(kube, "a", QUICK, watch), lease_of(kube, "b", QUICK, watch)
    await lease.acquire()
    waiting = asyncio.create_task(other.acquire())
    kube.away = True

    watch.seconds += QUICK.stops + 0.1
    with pytest.raises(Fenced):
        await lease.keep()
    kube.away = False
    await until_looked(other)

    assert (kube.holder, other.held) == ("a", False)
    watch.seconds += QUICK.held + 0.1
    await waiting
    assert (kube.holder, other.held) == ("b", True)
    await other.release()


async def test_a_renewal_that_fails_once_is_tried_again() -> None:
    kube = FakeKube()
    lease = lease_of(kube, "a", QUICK)
    await lease.acquire()
    kube.away = True
    await until_looked(lease)

    kube.away = False
    await until_written(kube, 2)

    lease.check()
    await lease.release()


async def test_who_finds_another_holder_has_lost_it() -> None:
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

    with pytest.raises(Fenced, match=r"belongs to (b|whoever was quicker)"):
        await lease.keep()


async def test_what_is_given_back_is_free_at_once_and_ours_no_more() -> None:
    kube = FakeKube()
    lease, other = lease_of(kube, "a", QUICK), lease_of(kube, "b", QUICK)
    await lease.acquire()

    await lease.release()

    assert (kube.holder, lease.held) == ("", False)
    await other.acquire()
    assert kube.holder == "b"
    await other.release()
