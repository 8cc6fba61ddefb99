"""A reconciler with an API server in memory and with drivers that answer as a test says."""

from collections.abc import Callable
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass, field, replace
from datetime import datetime, timedelta
from typing import Any

import msgspec

from landfall.api.contract import (
    CommitStatus,
    DriverPhase,
    PartitionStatus,
    Rates,
    Status,
    Workers,
)
from landfall_operator.core.cache import GROUP, Key, ObjectCache
from landfall_operator.objects.names import GROUP_LABEL, REVISION_LABEL, ROLE_LABEL
from landfall_operator.objects.overlay import Json
from landfall_operator.runtime.action_executor import ActionExecutor
from landfall_operator.runtime.control_port import Bearer, Credentials
from landfall_operator.runtime.driver_client import Command, Unauthorized
from landfall_operator.runtime.event_recorder import EventRecorder
from landfall_operator.runtime.kube_client import KINDS
from landfall_operator.runtime.metrics import Metrics, OperatorSnapshot
from landfall_operator.runtime.reconciler import Reconciler, ReconcilerSettings
from landfall_operator.runtime.watcher import SELECTORS
from tests.support.operator.api_objects import KEY, resource
from tests.support.operator.cluster_model import SITE, START
from tests.support.operator.fake_api import FakeApi

PARTITIONS = 30
"""Topic partitions of the group."""


@dataclass
class AnsweringDrivers:
    """Drivers that answer ``/status`` with ``answer`` and accept commands with ``token``.

    Attributes:
        answer: The answer of every driver; None for none.
        changes: The fields in which the next answer differs from that of an idle driver.
        token: The token that the drivers accept; empty for any.
        sent: The accepted commands.
        credentials: Those of all commands, accepted or not.
    """

    answer: Status | None = None
    changes: Callable[[], dict[str, Any]] = dict
    token: str = ""
    sent: list[Command] = field(default_factory=list)
    credentials: list[Credentials] = field(default_factory=list)

    async def status(self, address: str) -> bytes | None:
        """See ``DriverClient``."""
        assert address
        if self.answer is None:
            return None
        return msgspec.json.encode(replace(self.answer, **self.changes()))

    async def send(self, address: str, command: Command, credentials: Credentials) -> None:
        """See ``DriverClient``."""
        self.credentials.append(credentials)
        if isinstance(credentials, Bearer) and self.token not in {"", credentials.token}:
            raise Unauthorized(f"{address}: 401")
        self.sent.append(command)


class Reconciled:
    """One group, reconciled pass by pass at times that the test sets."""

    def __init__(self) -> None:
        """The group exists and has had no pass."""
        self.now = START
        self.api = FakeApi()
        self.drivers = AnsweringDrivers()
        self.pool = ThreadPoolExecutor(1)
        self.api.store(self.path(), resource())
        self.restart_operator()

    def restart_operator(self) -> None:
        """Continue with an operator that has just started and has listed everything."""
        self.cache = ObjectCache()
        self.metrics = Metrics(lambda: OperatorSnapshot(is_leader=True, groups=1, oldest_pass=0))
        recorder = EventRecorder(self.api, self.metrics, self.clock)
        self.executor = ActionExecutor(self.api, self.cache, self.drivers, recorder, self.pool)
        settings = ReconcilerSettings(SITE, self.clock)
        self.reconciler = Reconciler(
            self.cache, self.drivers, self.executor, self.metrics, settings
        )
        self.watch()
        self.api.requests.clear()

    def watch(self) -> None:
        """Bring the cache up to date, as the watches do."""
        for path, body in self.api.objects.items():
            for kind in SELECTORS:
                if path.startswith(self.path(kind, "")):
                    self.cache.put(kind, body)

    def clock(self) -> datetime:
        """The present time."""
        return self.now

    def path(self, kind: str = GROUP, name: str = KEY[1]) -> str:
        """The URL path of an object of the group."""
        return KINDS[kind].path(KEY[0], name)

    @property
    def group(self) -> Json:
        """The group as the API server has it."""
        return self.api.objects[self.path()]

    def edit(self, **spec: object) -> None:
        """Change the spec as a user does; the operator's watch does not see it yet."""
        body = self.group
        metadata = {**body["metadata"], "generation": body["metadata"]["generation"] + 1}
        self.api.store(
            self.path(), {**body, "metadata": metadata, "spec": {**body["spec"], **spec}}
        )

    async def run(self, seconds: float, key: Key = KEY) -> None:
        """Run a pass whenever one is due for this long; the last one may be due later."""
        end = self.now + timedelta(seconds=seconds)
        while self.now < end:
            wait = await self.reconciler.reconcile(key)
            assert wait is not None
            self.now += timedelta(seconds=max(0.3, wait))

    async def start(self) -> None:
        """Let the group settle with a driver that has nothing to land."""
        while not any(kind == "Deployment" for kind, _ in self.cache.owned(KEY)):
            await self.run(1)
        self.drivers.answer = status_of(self.revision, self.now)
        self._run_pod(self.revision)
        await self.run(900)
        self.api.requests.clear()

    @property
    def revision(self) -> str:
        """The revision of the group's only Deployment."""
        (revision,) = (
            cached.revision
            for (kind, _), cached in self.cache.owned(KEY).items()
            if kind == "Deployment"
        )
        return revision

    def _run_pod(self, revision: str) -> None:
        labels = {GROUP_LABEL: KEY[1], ROLE_LABEL: "driver", REVISION_LABEL: revision}
        name = f"{KEY[1]}-{revision}-0"
        metadata = {"name": name, "namespace": KEY[0], "labels": labels}
        running = {"name": "driver", "restartCount": 0, "ready": True, "state": {"running": {}}}
        status = {"phase": "Running", "podIP": "10.0.0.1", "containerStatuses": [running]}
        path = self.path("Pod", name)
        self.api.store(path, {"metadata": metadata, "status": status})
        self.watch()

    def stop_pod(self) -> None:
        """Replace the driver's pod by one that does not start."""
        (path,) = (path for path in self.api.objects if path.startswith(self.path("Pod", "")))
        self.api.store(path, {**self.api.objects[path], "status": {"phase": "Pending"}})
        self.drivers.answer = None
        self.watch()


def status_of(revision: str, now: datetime) -> Status:
    """The status of a driver that lands and has nothing to do."""
    return Status(
        version="0",
        group=KEY[1],
        namespace=KEY[0],
        generation=1,
        epoch=1,
        lane="0",
        phase=DriverPhase.RUNNING,
        time=now.isoformat(),
        started=now.isoformat(),
        lag_records=0,
        lag_seconds=0.0,
        overdue_seconds=0.0,
        rounds=0,
        commits=CommitStatus(5, 0, 0, now.isoformat(), None, 0),
        rates=Rates(100, 100, 100, 0, 1.0, 1.0, arrived_records=100, task_seconds=1.0),
        partitions=tuple(
            PartitionStatus("clicks", n, 10, 10, 0, 0.0, 0.0) for n in range(PARTITIONS)
        ),
        revision=revision,
        workers=Workers(1, 1, 1),
    )
