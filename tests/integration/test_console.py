"""The page of a driver, rendered by a browser."""

from collections.abc import Iterator
from pathlib import Path
from typing import Protocol
from urllib.parse import quote

import pytest

from landfall.api.contract import Status
from landfall.driver.http.server import StatusBoard, serve
from landfall.ledger.offsets import TopicPartition
from tests.support.driver import console_pages
from tests.support.driver.console_pages import HOSTILE, NOW
from tests.support.driver.live_page import live_page
from tests.support.ledger.sample_ledger import SampleLedger

BROWSER = console_pages.browser()
pytestmark = pytest.mark.skipif(
    BROWSER is None, reason=f"no browser: none of {', '.join(console_pages.BROWSERS)} is installed"
)

TP = TopicPartition("clicks", 0)


class Render(Protocol):
    """Returns the document of a page, and what it and the browser reported."""

    def __call__(self, status: Status, address: str = "") -> tuple[str, str]: ...


@pytest.fixture
def driver() -> Iterator[tuple[StatusBoard, str]]:
    """A driver that has landed a thousand records, and the address of its page."""
    board, sample = StatusBoard(lambda: NOW), SampleLedger().open().add(TP)
    sample.commit(sample.land(TP, 0, 1000))
    server = serve(board, "127.0.0.1", 0, finder=console_pages.finder_of(sample))
    yield board, f"http://127.0.0.1:{server.server_port}/"
    server.shutdown()


@pytest.fixture
def render(driver: tuple[StatusBoard, str], tmp_path: Path) -> Render:
    board, root = driver

    def rendered(status: Status, address: str = "") -> tuple[str, str]:
        console_pages.post(board, status)
        console_pages.add_hours(board, status)
        url = f"{root}{address}"
        return console_pages.rendered(str(BROWSER), url, tmp_path / "profile")

    return rendered


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


def test_an_address_names_a_record_which_is_looked_up(render: Render) -> None:
    page, reported = render(console_pages.healthy(), "#record/clicks/0/41")

    assert "clicks/0 offset 41 was landed by the COMMIT in slot 2" in page
    assert "s3://logs/root/clicks/dt=…/1_0_00000000000000000000.json</td>" in page
    assert '<td class="number">42</td><td class="number">1,000</td>' in page
    assert "lake (Iceberg) has it." in page
    assert "<code>landfall locate GROUP.yaml clicks 0 41</code>" in page
    assert "CONSOLE" not in reported


def test_a_record_that_no_driver_can_find_is_no_error_of_the_page(render: Render) -> None:
    page, _ = render(console_pages.healthy(), "#record/clicks/0/1200")
    hostile, reported = render(console_pages.healthy(), f"#record/{quote(HOSTILE, safe='')}/0/1")

    assert "is not landed yet: the next offset to land is 1000" in page
    assert "is not in this group's ledger" in hostile
    assert "<title>web/clicks · Running · Landfall</title>" in hostile
    assert "CONSOLE" not in reported


@pytest.mark.asyncio
async def test_a_record_is_looked_up_and_its_command_copied_by_keyboard(
    driver: tuple[StatusBoard, str], tmp_path: Path
) -> None:
    board, url = driver
    console_pages.post(board, console_pages.healthy())
    async with live_page(str(BROWSER), url, tmp_path / "live") as page:
        await page.until("document.querySelector('#group').textContent === 'web/clicks'")
        await page.value("document.querySelector('input[name=topic]').focus()")
        for text in ("clicks", "0", "41"):
            await page.call("Input.insertText", text=text)
            await page.press("Tab", 9)
        await page.press("Enter", 13, "\r")  # on the button
        await page.until("document.querySelector('#story').textContent.includes('in slot 2')")
        assert await page.value("location.hash") == "#record/clicks/0/41"

        await page.value(
            "navigator.clipboard.writeText = async (text) => { window.copied = text; }; 1"
        )
        await page.value("document.querySelector('#story .command button').focus()")
        await page.press(" ", 32, " ")
        await page.until("window.copied !== undefined")
        copied = await page.value("window.copied")
    assert copied == "landfall locate GROUP.yaml clicks 0 41"
