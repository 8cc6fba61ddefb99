"""Events of assets: what Airflow's API is asked, and what becomes of its answers.

``tests/publishers/test_airflow.py`` has a real one.
"""

from collections.abc import Iterator
from contextlib import suppress
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any
from urllib.parse import parse_qs, urlsplit

import pytest

from landfall.errors import DestinationAway, DestinationDenied, Stalled
from landfall.publish.events.airflow import Airflow
from tests.support.ledger.event_ledger import ORDERS, EventLedger
from tests.support.stores.scripted import Asked
from tests.support.stores.web_server import LOST, WebServer, web_server

HOURS = ["2026-11-21T03:00:00", "2026-11-21T04:00:00", "2026-11-21T05:00:00"]


@dataclass
class FakeAirflow:
    """What an Airflow has: assets by id, and events."""

    server: WebServer
    assets: dict[int, str] = field(default_factory=lambda: {7: "s3://logs/parsed/orders"})
    events: list[dict[str, Any]] = field(default_factory=list)
    tokens: list[str] = field(default_factory=list)
    page: int = 100

    def reply(self, asked: Asked) -> tuple[int, object]:  # noqa: PLR0911  # a table
        path, query = urlsplit(asked.path).path, parse_qs(urlsplit(asked.path).query)
        if path == "/auth/token":
            if asked.json != {"username": "landfall", "password": "secret"}:
                return 401, {"detail": "Invalid credentials"}
            self.tokens.append(f"token-{len(self.tokens)}")
            return 201, {"access_token": self.tokens[-1]}
        if asked.headers.get("authorization") not in [f"Bearer {t}" for t in self.tokens[-1:]]:
            return 401, {"detail": "Invalid or missing authentication"}
        if path == "/api/v2/assets":
            pattern = query.get("uri_pattern", query.get("name_pattern", []))[0]
            found = [
                {"id": ident, "uri": uri, "name": f"name of {uri}"}
                for ident, uri in self.assets.items()
                if pattern in uri or pattern in f"name of {uri}"
            ]
            offset = int(query["offset"][0])
            return 200, {
                "assets": found[offset : offset + self.page],
                "total_entries": len(found),
            }
        if asked.method == "GET":
            mine = [e for e in self.events if str(e["asset_id"]) == query["asset_id"][0]]
            return 200, {"asset_events": mine[::-1]}
        if asked.json["asset_id"] not in self.assets:
            return 404, {"detail": "not found"}
        self.events.append(asked.json)
        return 200, {}

    @property
    def keys(self) -> list[str]:
        return [each["partition_key"] for each in self.events]


@pytest.fixture
def airflow(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Iterator[FakeAirflow]:
    monkeypatch.setenv("LANDFALL_SECRETS", str(tmp_path))
    (tmp_path / "airflow").mkdir()
    (tmp_path / "airflow/username").write_text("landfall")
    (tmp_path / "airflow/password").write_text("secret\n")
    with web_server() as server:
        made = FakeAirflow(server)
        server.reply = made.reply
        yield made


def event_ledger(airflow: FakeAirflow, **options: Any) -> EventLedger:
    """Three hours of orders that are complete."""
    spec = {"output__url": "s3://logs/parsed", "route__pattern": "dt={date}/hr={hour}"}
    entry = {"secretRef": {"name": "airflow"}}
    made = EventLedger("Airflow", {"url": airflow.server.url, **options}, spec, entry)
    made.land(ORDERS).settle().finish("orders", "2026-11-21T04:00:00+00:00").settle()
    return made.finish("orders", "2026-11-21T06:00:00+00:00").settle()


def test_an_hour_that_is_complete_is_a_partition_of_the_asset(airflow: FakeAirflow) -> None:
    scene = event_ledger(airflow)

    scene.publish()
    scene.publish()

    assert airflow.keys == HOURS
    first = airflow.events[0]
    assert (first["asset_id"], first["extra"]["outputPartition"]) == (7, "dt=2026-11-21/hr=03")
    assert first["extra"]["id"] == "shop/0/4/finished/orders/dt=2026-11-21/hr=03"
    assert len(airflow.tokens) == 1


@pytest.mark.parametrize("at", range(8))
def test_an_answer_that_is_lost_repeats_nothing(airflow: FakeAirflow, at: int) -> None:
    scene = event_ledger(airflow)
    lost = iter(range(1_000))
    reply = airflow.reply
    airflow.server.reply = lambda asked: (LOST, reply(asked)) if next(lost) == at else reply(asked)

    while scene.publisher().position() < scene.sample.state.seq:
        with suppress(DestinationAway):
            scene.publish()

    assert airflow.keys == HOURS


def test_an_asset_that_no_dag_knows_is_waited_for(airflow: FakeAirflow) -> None:
    scene, known = event_ledger(airflow), airflow.assets
    airflow.assets = {3: "s3://logs/parsed/orders_2"}

    with pytest.raises(DestinationAway, match="no DAG knows an asset with the URI or the name s3:"):
        scene.publish()
    airflow.assets = known
    scene.publish()

    assert airflow.keys == HOURS


def test_an_asset_that_is_gone_is_looked_for_again(airflow: FakeAirflow) -> None:
    scene = event_ledger(airflow)
    publisher = scene.publisher()
    publisher.publish(scene.follower())
    airflow.assets = {8: "s3://logs/parsed/orders"}
    scene.finish("orders", "2026-11-21T07:00:00+00:00").settle()

    with pytest.raises(DestinationAway, match="with status 404"):
        publisher.publish(scene.follower())
    publisher.publish(scene.follower())

    assert airflow.events[-1]["asset_id"] == 8


def test_an_asset_is_found_by_its_name_on_any_page(airflow: FakeAirflow) -> None:
    airflow.assets = {n: f"s3://logs/parsed/orders/{n}" for n in range(5)}
    airflow.assets[9] = "orders"
    airflow.page = 2

    event_ledger(airflow, asset="name of {topic}").publish()

    assert {each["asset_id"] for each in airflow.events} == {9}


@pytest.mark.parametrize(
    ("assets", "error"), [(100, "its list of assets with .* has no end"), (0, "no DAG knows")]
)
@pytest.mark.timeout(60)
def test_a_list_of_assets_without_end_is_given_up(
    airflow: FakeAirflow, assets: int, error: str
) -> None:
    page = [{"id": n, "uri": "another", "name": "one"} for n in range(assets)]

    def endless(asked: Asked) -> tuple[int, object]:
        status, answer = airflow.reply(asked)
        if urlsplit(asked.path).path == "/api/v2/assets":
            return 200, {"assets": page, "total_entries": 2**62}
        return status, answer

    airflow.server.reply = endless

    with pytest.raises(DestinationAway, match=error):
        event_ledger(airflow).publish()


def test_a_token_that_is_no_longer_valid_is_fetched_anew(airflow: FakeAirflow) -> None:
    scene = event_ledger(airflow)
    publisher = scene.publisher()
    publisher.publish(scene.follower())
    airflow.tokens.append("another")
    scene.finish("orders", "2026-11-21T07:00:00+00:00").settle()

    publisher.publish(scene.follower())

    assert len(airflow.keys) == 4


def test_a_password_that_is_wrong_is_said_without_it(airflow: FakeAirflow, tmp_path: Path) -> None:
    (tmp_path / "airflow/password").write_text("wr0ng")

    with pytest.raises(DestinationDenied, match="login answered with status 401") as caught:
        event_ledger(airflow).publish()

    assert "wr0ng" not in str(caught.value)


def test_a_request_that_airflow_refuses_is_for_somebody(airflow: FakeAirflow) -> None:
    reply = airflow.reply
    airflow.server.reply = lambda asked: (
        (422, {"detail": "partition_key: extra"})
        if asked.path == "/api/v2/assets/events"
        else reply(asked)
    )

    with pytest.raises(Stalled, match=r"status 422: .*partition_key"):
        event_ledger(airflow).publish()


@pytest.mark.parametrize(
    ("options", "expected"),
    [
        ({"unit": "Day"}, ["2026-11-20T00:00:00"]),
        ({"partitionKey": "%Y%m%d%H"}, ["2026112103", "2026112104", "2026112105"]),
    ],
)
def test_keys_of_periods(
    airflow: FakeAirflow, options: dict[str, str], expected: list[str]
) -> None:
    event_ledger(airflow, **options).publish()

    assert airflow.keys == expected


def test_what_landed_has_no_key(airflow: FakeAirflow) -> None:
    event_ledger(airflow, events=["Landed"]).publish()

    (event,) = airflow.events
    assert "partition_key" not in event
    assert (event["extra"]["rows"], event["extra"]["objects"]) == (10, 1)


@pytest.mark.parametrize(
    ("options", "message"),
    [
        ({"asset": "{group}"}, "option asset: has {url} and {topic}, got '{group}'"),
        ({"unit": "hour"}, "option unit: must be of Year, Month"),
    ],
)
def test_options_that_do_not_fit(options: dict[str, object], message: str) -> None:
    with pytest.raises(ValueError, match="option") as caught:
        Airflow.of({"url": "http://a", **options}, EventLedger("Airflow", {}).context)

    assert str(caught.value).startswith(message)
