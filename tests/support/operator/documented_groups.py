"""Groups in the states that docs/reference/consumer-group.md shows, each with its status."""

from collections.abc import Mapping
from dataclasses import dataclass, replace
from datetime import UTC, datetime, timedelta
from pathlib import Path
from typing import Any

from landfall.api.contract import (
    CommitStatus,
    Failure,
    PartitionStatus,
    PublisherStatus,
    Status,
)
from landfall_operator.api.status import GroupStatus
from landfall_operator.core.desired_state import desired_state
from landfall_operator.core.snapshot import GroupObservation
from landfall_operator.reporting.group_status import report
from tests.support.operator.cluster_model import World, group

PAGE = Path(__file__).resolve().parents[3] / "docs" / "reference" / "consumer-group.md"
IMAGE = "registry.example/landfall-spark"


def printed(command: str) -> str:
    """The output of a command, as the page shows it."""
    return PAGE.read_text().partition(f"\n$ {command}\n")[2].partition("```")[0].rstrip()


@dataclass(frozen=True)
class Shown:
    """A group as the API server has it."""

    name: str
    spec: Mapping[str, Any]
    status: GroupStatus

    @property
    def resource(self) -> dict[str, Any]:
        """What a user writes."""
        return {
            "apiVersion": "landfall.dev/v1alpha1",
            "kind": "ConsumerGroup",
            "metadata": {"name": self.name},
            "spec": self.spec,
        }


def shown() -> tuple[Shown, ...]:
    """All of them, by name."""
    return _archive(), _audit(), _billing(), _clickstream(), _devices(), _exports()


def _archive() -> Shown:
    spec = _spec("archive", state="Suspended")
    world = _world(spec)
    world.edit(group(**spec))
    world.run(timedelta(minutes=5))
    return _shown("archive", spec, world.observe())


def _audit() -> Shown:
    spec = _spec("audit", image=f"{IMAGE}:0.2.0", generation=2)
    world = _world(_spec("audit"))
    world.edit(group(**spec))
    world.run(timedelta(seconds=15))
    return _shown("audit", spec, world.observe())


def _billing() -> Shown:
    topics = {"topics": ["billing.invoices", "billing.payments"]}
    spec = _spec("billing", source={"kafka": {"bootstrapServers": "kafka:9092", **topics}})
    world = _world(spec)
    partitions = _status(world.observe()).partitions
    blocked = replace(
        partitions[0],
        topic="billing.payments",
        blocked="BadRecordsOverLimit",
        message="12 of 800 records",
        next_step="landfall unblock GROUP.yaml billing.payments/0 --why '…'",
    )
    return _shown("billing", spec, _with(world.observe(), partitions=(blocked,)))


def _clickstream() -> Shown:
    source = {"kafka": {"bootstrapServers": "kafka:9092", "topicPattern": r"app\..*"}}
    publish = [{"name": "lake", "type": "Iceberg"}, {"name": "hourly", "type": "Success"}]
    spec = _spec(
        "clickstream",
        source=source,
        generation=3,
        autoscaling={"maxReplicas": 20},
        publish=publish,
    )
    world = _world(spec)
    failure = Failure(
        (world.now - timedelta(hours=3)).isoformat(),
        "StoreUnavailable",
        "PUT s3://logs/clickstream/…: 503 SlowDown",
    )
    observed = _with(
        world.observe(),
        lag_records=17_877,
        lag_seconds=41.2,
        commits=CommitStatus(
            812, 3, 0, (world.now - timedelta(seconds=41)).isoformat(), failure, 1
        ),
        partitions=(
            PartitionStatus("app.web", 4, 100_000, 108_977, 8_977, 41.2, 0.0),
            PartitionStatus("app.web", 1, 90_000, 96_000, 6_000, 30.0, 0.0),
            PartitionStatus("app.shop", 0, 7_000, 9_900, 2_900, 12.0, 0.0),
        ),
        publishers=(
            PublisherStatus(
                "lake", "Iceberg", 1_204, 31, 720.0, 9_000, 14, 9, None, None, "catalog: no answer"
            ),
            PublisherStatus(
                "hourly", "Success", 1_235, 0, 0.0, 0, 0, 0, world.now.isoformat(), None, ""
            ),
        ),
    )
    return _shown("clickstream", spec, observed)


def _devices() -> Shown:
    spec = _spec("devices", image="broken")
    return _shown("devices", spec, _world(spec).observe())


def _exports() -> Shown:
    soon = datetime.now(UTC) + timedelta(minutes=20)
    spec = _spec("exports", schedule={"cron": f"{soon.minute} * * * *"})
    return _shown("exports", spec, _world(spec).observe())


def _spec(name: str, **more: Any) -> dict[str, Any]:
    return {
        "image": f"{IMAGE}:0.1.0",
        "source": {"kafka": {"bootstrapServers": "kafka:9092", "topics": [name]}},
        "output": {"url": f"s3://logs/{name}"},
        **more,
    }


def _world(spec: Mapping[str, Any]) -> World:
    """One where a group has run for half an hour, until now."""
    world = World(
        group(**{**spec, "state": "Running"}), now=datetime.now(UTC) - timedelta(minutes=30)
    )
    world.run(timedelta(minutes=30))
    return world


def _status(observed: GroupObservation) -> Status:
    (driver,) = observed.drivers.values()
    assert driver.report
    return driver.report.status


def _with(observed: GroupObservation, **changes: Any) -> GroupObservation:
    """The observation with changes to the driver's status."""
    (driver,) = observed.drivers.values()
    assert driver.report
    answer = replace(driver.report, status=replace(driver.report.status, **changes))
    return replace(observed, drivers={driver.revision: replace(driver, report=answer)})


def _shown(name: str, spec: Mapping[str, Any], observed: GroupObservation) -> Shown:
    named = replace(observed, name=name)
    return Shown(name, spec, report(named, desired_state(named)))
