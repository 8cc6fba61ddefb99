"""A real Airflow: DAGs that start when an hour is complete. ``make publisher-suite`` runs them."""

import re
import shutil
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

from dev.servers.airflow import DAGS, PASSWORD, USER
from landfall.errors import DestinationAway, DestinationDenied
from tests.support.ledger.event_ledger import CLICKS, ORDERS, EventLedger
from tests.support.publishers.airflow_api import Api
from tests.support.waiting import eventually

pytestmark = [pytest.mark.full, pytest.mark.xdist_group("airflow")]

ROOT = Path(__file__).parents[2]
HOURS = ["2026-11-21T03:00:00", "2026-11-21T04:00:00", "2026-11-21T05:00:00"]
WITHOUT_KEY = """
from airflow.sdk import DAG, Asset

with DAG("without_key", schedule=[Asset("s3://logs/parsed/clicks")]):
    pass
"""


@pytest.fixture(scope="module")
def api(tmp_path_factory: pytest.TempPathFactory, request: pytest.FixtureRequest) -> Iterator[Api]:
    """An Airflow with the DAG of the examples, that of the page, and one without keys."""
    dags = tmp_path_factory.mktemp("dags")
    shutil.copy(ROOT / "examples/publish/airflow_hourly.py", dags)
    page = (ROOT / "docs/publishers/airflow.md").read_text()
    (shown,) = re.findall(r"```python\n(.*?)```", page, re.DOTALL)
    (dags / "page.py").write_text(shown)
    (dags / "without_key.py").write_text(WITHOUT_KEY)
    with pytest.MonkeyPatch.context() as patched:
        patched.setenv(DAGS, str(dags))
        yield Api(request.getfixturevalue("airflow"))


@pytest.fixture
def secret(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    monkeypatch.setenv("LANDFALL_SECRETS", str(tmp_path))
    (made := tmp_path / "airflow").mkdir()
    (made / "username").write_text(USER)
    (made / "password").write_text(PASSWORD)
    return made


def event_ledger(api: Api, **options: Any) -> EventLedger:
    spec = {"output__url": "s3://logs/parsed", "route__pattern": "dt={date}/hr={hour}"}
    entry = {"secretRef": {"name": "airflow"}}
    return EventLedger("Airflow", {"url": api.address, **options}, spec, entry)


def three_hours(scene: EventLedger) -> EventLedger:
    """Three hours of orders that are complete."""
    scene.land(ORDERS).settle().finish("orders", "2026-11-21T04:00:00+00:00").settle()
    return scene.finish("orders", "2026-11-21T06:00:00+00:00").settle()


@pytest.mark.usefixtures("secret")
def test_an_hour_that_is_complete_starts_dags_with_its_partition_once(api: Api) -> None:
    scene = three_hours(event_ledger(api))

    scene.publish()

    done = [(hour, "success") for hour in HOURS]
    for dag in ("orders_hourly", "hourly"):
        eventually(lambda dag=dag: api.runs(dag), lambda runs: runs == done)  # type: ignore[misc]
    extra = api.events("orders")[0]["extra"]
    assert extra["outputPartition"] == "dt=2026-11-21/hr=03"
    scene.publisher().reset(scene.follower())
    scene.publish()
    assert [each["partition_key"] for each in api.events("orders")] == HOURS


@pytest.mark.usefixtures("secret")
def test_a_dag_without_partitions_starts_by_events_without_a_key(api: Api) -> None:
    scene = event_ledger(api, partitionKey="", events=["Landed"])

    scene.land(CLICKS).settle().publish()

    eventually(lambda: api.runs("without_key"), lambda runs: runs == [(None, "success")])
    assert [each["extra"]["rows"] for each in api.events("clicks")] == [10]


@pytest.mark.usefixtures("secret")
def test_an_asset_that_no_dag_names_is_waited_for(api: Api) -> None:
    scene = three_hours(event_ledger(api, asset="{url}/{topic}/other"))

    with pytest.raises(DestinationAway, match="no DAG knows an asset with the URI or the name s3:"):
        scene.publish()


def test_a_wrong_password_is_denied(api: Api, secret: Path) -> None:
    (secret / "password").write_text("wr0ng")

    with pytest.raises(DestinationDenied, match="login answered with status 401"):
        three_hours(event_ledger(api)).publish()
