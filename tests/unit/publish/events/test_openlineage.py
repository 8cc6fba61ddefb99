"""Runs of OpenLineage: what a server of it gets."""

from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

from landfall.errors import DestinationAway, Stalled
from landfall.publish.events.openlineage import data_set
from tests.support.ledger.event_ledger import CLICKS, ORDERS, EventLedger
from tests.support.stores.web_server import LOST, WebServer, web_server


@pytest.fixture
def server() -> Iterator[WebServer]:
    with web_server() as made:
        yield made


def event_ledger(server: WebServer, **options: Any) -> EventLedger:
    spec = {
        "output__url": "s3://logs/parsed",
        "decode__columns": [{"name": "user", "field": "u", "type": "String"}],
        "decode__format": "Json",
        "route__pattern": "dt={date}/hr={hour}",
        "source__kafka__bootstrapServers": "SASL_SSL://kafka-0:9092,kafka-1:9092",
        "route__timezone": "Europe/Berlin",
    }
    made = EventLedger("OpenLineage", {"url": server.url, **options}, spec)
    made.land(CLICKS, ORDERS).settle()
    return made.finish("orders", "2026-11-21T04:00:00+00:00").settle()


def facets(found: dict[str, Any]) -> dict[str, dict[str, Any]]:
    """Facets without what every facet has."""
    for facet in found.values():
        assert facet.pop("_producer") == "https://landfall.dev"
        assert facet.pop("_schemaURL").startswith("https://openlineage.io/spec/facets/")
    return found


def test_what_landed_is_a_run_that_starts_and_completes(server: WebServer) -> None:
    event_ledger(server, events=["Landed"]).publish()

    events = [asked.json for asked in server.asked]
    assert {asked.path for asked in server.asked} == {"/api/v1/lineage"}
    assert [(e["eventType"], e["job"]["name"]) for e in events] == [
        ("START", "shop.clicks"),
        ("COMPLETE", "shop.clicks"),
        ("START", "shop.orders"),
        ("COMPLETE", "shop.orders"),
    ]
    last = events[3]
    assert last["run"]["runId"] == events[2]["run"]["runId"] != events[1]["run"]["runId"]
    assert last["eventTime"] == "2026-11-21T05:00:00+00:00"
    (read,), (written,) = last["inputs"], last["outputs"]
    assert (read["namespace"], read["name"]) == ("kafka://kafka-0:9092", "orders")
    assert (written["namespace"], written["name"]) == ("s3://logs", "parsed/orders")
    statistics = {"rowCount": 10, "size": 80, "fileCount": 1}
    assert facets(written["outputFacets"]) == {"outputStatistics": statistics}
    columns = [{"name": "user", "type": "String"}]
    assert facets(written["facets"]) == {"schema": {"fields": columns}}
    assert last["job"]["namespace"] == "default"
    assert facets(last["job"]["facets"])["jobType"]["integration"] == "LANDFALL"


def test_a_period_that_is_complete_is_the_nominal_time_of_a_run(server: WebServer) -> None:
    event_ledger(server, events=["Finished"], namespace="lake").publish()

    hour = server.asked[-1].json
    assert (hour["job"]["namespace"], hour["job"]["name"]) == ("lake", "shop.orders.hour")
    assert facets(hour["run"]["facets"]) == {
        "nominalTime": {
            "nominalStartTime": "2026-11-21T04:00:00+01:00",
            "nominalEndTime": "2026-11-21T04:00:00+00:00",
        }
    }


def test_a_run_that_is_sent_again_is_the_same(server: WebServer) -> None:
    scene = event_ledger(server)
    server.next(200)
    server.next(LOST)

    with pytest.raises(DestinationAway):
        scene.publish()
    scene.publish()

    first, again = server.asked[0], server.asked[2]
    assert (first.body, server.asked[1].body) == (again.body, server.asked[3].body)


def test_a_token_is_sent(
    server: WebServer, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("LANDFALL_SECRETS", str(tmp_path))
    (tmp_path / "lineage").mkdir()
    (tmp_path / "lineage/token").write_text("abc\n")
    scene = event_ledger(server)
    scene.entry = {"secretRef": {"name": "lineage"}}

    scene.publish()

    assert {asked.headers["authorization"] for asked in server.asked} == {"Bearer abc"}


def test_late_objects_are_no_runs_of_their_own(server: WebServer) -> None:
    with pytest.raises(Stalled, match="events: must be of Landed, Finished, got"):
        event_ledger(server, events=["Reopened"]).publisher()


@pytest.mark.parametrize(
    ("url", "expected"),
    [
        ("s3://logs/parsed/orders", ("s3://logs", "parsed/orders")),
        ("s3://logs", ("s3://logs", "/")),
        ("gs://lake/a", ("gs://lake", "a")),
        ("file:///data/landed", ("file", "/data/landed")),
    ],
)
def test_names_of_data_sets(url: str, expected: tuple[str, str]) -> None:
    assert data_set(url) == expected


def test_an_hour_of_a_group_that_has_landed_nothing_has_a_run(server: WebServer) -> None:
    empty = EventLedger("OpenLineage", {"url": server.url}, {"route__pattern": "dt={date}"})
    empty.finish("orders", "2026-11-21T00:00:00+00:00").settle().publish()

    day = server.asked[0].json
    assert day["job"]["name"] == "shop.orders.day"
    assert day["eventTime"] == "2026-11-21T00:00:00+00:00"
