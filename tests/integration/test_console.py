"""The page of a driver, rendered by a browser."""

from collections.abc import Callable, Iterator
from pathlib import Path

import pytest

from landfall.api.contract import Status
from landfall.driver.http.server import StatusBoard, serve
from tests.support.driver import console_pages
from tests.support.driver.console_pages import HOSTILE, NOW

BROWSER = console_pages.browser()
pytestmark = pytest.mark.skipif(
    BROWSER is None, reason=f"no browser: none of {', '.join(console_pages.BROWSERS)} is installed"
)

Render = Callable[[Status], tuple[str, str]]


@pytest.fixture
def render(tmp_path: Path) -> Iterator[Render]:
    board = StatusBoard(lambda: NOW)
    server = serve(board, "127.0.0.1", 0)

    def rendered(status: Status) -> tuple[str, str]:
        console_pages.post(board, status)
        console_pages.add_hours(board, status)
        url = f"http://127.0.0.1:{server.server_port}/"
        return console_pages.rendered(str(BROWSER), url, tmp_path / "profile")

    yield rendered
    server.shutdown()


def test_a_driver_that_lands_shows_its_lag_and_that_nothing_is_wrong(render: Render) -> None:
    page, reported = render(console_pages.healthy())

    assert "<title>web/clicks · Running · Landfall</title>" in page
    for text in ("Nothing is wrong.", "3,600 records", "last 20 s ago", "clicks/2", "3 of 3"):
        assert text in page
    assert page.count("<figure>") == 4
    assert (
        'aria-label="Age of the oldest record: now lag 60 s, overdue 0 s; at most 11 min"' in page
    )
    assert "CONSOLE" not in reported


def test_each_thing_that_is_wrong_is_named_with_its_command_and_no_payload_runs(
    render: Render,
) -> None:
    page, reported = render(console_pages.troubled())

    for text in (
        "3 failures since the last commit: StoreUnavailable",
        "clicks/1 is stopped at offset 1000: BadRecords",
        "<code>landfall unblock GROUP.yaml clicks/1 --why '…'</code>",
        "Publisher lake is stopped: SchemaIncompatible",
        "<code>landfall files retry GROUP.yaml bills --why '…'</code>",
        "clicks is not complete: clicks/1",
        "Executors are missing: OutOfMemory",
        "dt=2026-11-20: full",
        "<code>landfall undo GROUP.yaml 9 --why '…'</code>",
        "Records wait 90 s longer than the upload policy allows",
        "oldest waits 42 s, without 1 stopped topic partition</small>",
    ):
        assert text in page
    assert "Nothing is wrong." not in page
    assert "<title>web/clicks · Running · Landfall</title>" in page
    assert HOSTILE.replace("<", "&lt;").replace(">", "&gt;") in page
    assert "CONSOLE" not in reported


def test_ten_thousand_topic_partitions_are_the_worst_few_and_sums(render: Render) -> None:
    page, _ = render(console_pages.healthy(partitions=10_000))

    assert "Topic partitions: the worst 5 of 10,000" in page
    assert "12,000,000 records" in page
