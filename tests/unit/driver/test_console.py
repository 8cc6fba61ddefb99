import json
import re
import urllib.request
from collections.abc import Iterator, Mapping
from dataclasses import replace
from datetime import UTC, datetime
from http.server import ThreadingHTTPServer
from itertools import pairwise

import pytest
from hypothesis import given
from hypothesis import strategies as st

from landfall.api import console
from landfall.driver.http import history
from landfall.driver.http.history import Point, StatusHistory
from landfall.driver.http.server import StatusBoard, serve
from tests.support.driver import console_pages
from tests.support.driver.console_pages import NOW
from tests.support.waiting import wait_for

BROWSER = {"Accept": "text/html,application/xhtml+xml,*/*;q=0.8"}


@pytest.fixture
def board() -> StatusBoard:
    return StatusBoard(lambda: NOW)


@pytest.fixture
def server(board: StatusBoard) -> Iterator[ThreadingHTTPServer]:
    server = serve(board, "127.0.0.1", 0)
    yield server
    server.shutdown()


def get(
    server: ThreadingHTTPServer, path: str, headers: Mapping[str, str]
) -> tuple[Mapping[str, str], str]:
    request = urllib.request.Request(
        f"http://127.0.0.1:{server.server_port}{path}", headers=dict(headers)
    )
    with urllib.request.urlopen(request) as answer:
        return answer.headers, answer.read().decode()


def test_a_browser_gets_the_page_and_a_program_the_list_of_paths(
    server: ThreadingHTTPServer,
) -> None:
    headers, page = get(server, "/", BROWSER)
    _, paths = get(server, "/", {"Accept": "*/*"})

    assert headers["Content-Type"] == "text/html; charset=utf-8"
    assert page.startswith("<!doctype html>")
    assert "/history " in paths


def test_the_page_needs_nothing_but_files_of_its_own(server: ThreadingHTTPServer) -> None:
    _, page = get(server, "/", BROWSER)
    asked = re.findall(r'(?:src|href)="([^"#]+)"', page)
    files = [name for name in asked if console.content_type(name)]
    rest = {name for name in asked if name not in files}

    assert sorted(files) == ["console.css", "console.js", "shared.js"]
    assert rest == {"data:,", "status", "status?summary=true", "history", "metrics", "healthcheck"}
    for name in files:
        headers, text = get(server, f"/{name}", {})
        assert headers["Content-Type"] == console.content_type(name)
        assert "http" not in re.sub(r"http://www\.w3\.org/2000/svg", "", text)


@pytest.mark.parametrize(
    "path", ["/", "/console.js", "/status", "/history", "/metrics", "/version"]
)
def test_no_script_runs_but_that_of_the_page(
    server: ThreadingHTTPServer, board: StatusBoard, path: str
) -> None:
    console_pages.post(board, console_pages.troubled())

    headers, _ = get(server, path, BROWSER)

    assert headers["Content-Security-Policy"] == console.CONTENT_SECURITY_POLICY
    assert headers["X-Content-Type-Options"] == "nosniff"


def test_the_policy_forbids_nothing_that_the_page_has() -> None:
    pages = "".join(console.content(name).decode() for name in ("index.html", "groups.html"))
    names = ("shared.js", "console.js", "groups.js")
    scripts = "".join(console.content(name).decode() for name in names)

    assert not re.search(r"<script>|<style|\son\w+=|style=", pages)
    assert not re.search(r"innerHTML|insertAdjacentHTML|document\.write|\.style\b", scripts)


def test_a_driver_remembers_what_it_has_shown(board: StatusBoard) -> None:
    console_pages.post(board, console_pages.healthy())
    server = serve(board, "127.0.0.1", 0, remember_every=0.01)

    wait_for(lambda: board.history.columns()["time"], "a point of the history")

    _, text = get(server, "/history", {})
    shown = json.loads(text)
    assert shown["lag_records"] == [3600]
    assert shown["time"] == [int(NOW.timestamp() * 1000)]
    server.shutdown()


def test_an_unknown_lag_is_no_zero() -> None:
    unknown = Point.of(replace(console_pages.healthy(), lag_known=False), NOW)

    assert (unknown.lag_records, unknown.lag_seconds, unknown.overdue_seconds) == (None,) * 3
    assert unknown.landed_records == 12_345_678


def point(seconds: float) -> Point:
    now = datetime.fromtimestamp(seconds, UTC)
    return Point.of(console_pages.healthy(), now)


@given(st.lists(st.floats(-3600, 7200), max_size=60))
def test_the_points_of_a_history_are_apart_and_in_order_whatever_the_clock_does(
    steps: list[float],
) -> None:
    past, now = StatusHistory(), 1_700_000_000.0
    for step in steps:
        now += step
        past.add(point(now))

    times = past.columns()["time"]
    assert times == sorted(times)
    assert all(b - a >= history.SHORTEST_SECONDS * 1000 for a, b in pairwise(times))
    assert not times or times[-1] <= now * 1000


@pytest.mark.parametrize("hours", [1, 2.5, 9, 40, 100])
def test_a_history_has_a_bound_and_reaches_back_a_day(hours: float) -> None:
    past, start = StatusHistory(), 1_700_000_000.0
    for number in range(int(hours * 240) + 1):
        past.add(point(start + 15 * number))

    times = [time / 1000 for time in past.columns()["time"]]
    assert len(times) <= history.MOST_POINTS
    assert times[0] <= start + max(0, hours - 24) * 3600
    assert times[-1] > start + hours * 3600 - past.seconds
    assert len(times) >= min(hours * 240, history.MOST_POINTS / 2)


def test_a_clock_that_is_set_back_takes_later_points_with_it() -> None:
    past = StatusHistory()
    for seconds in (0, 15, 30, 45):
        past.add(point(1000 + seconds))

    past.add(point(1016))

    assert past.columns()["time"] == [1_000_000, 1_015_000]
    past.add(point(1030))
    assert past.columns()["time"] == [1_000_000, 1_015_000, 1_030_000]
