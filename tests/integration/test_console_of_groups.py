"""The operator's page of all groups, rendered by a browser."""

import asyncio
import os
import re
import threading
from collections.abc import Callable, Iterator
from pathlib import Path

import pytest
from prometheus_client import CollectorRegistry

from landfall_operator.runtime import http
from landfall_operator.runtime.group_list import group_list
from tests.support.driver import console_pages
from tests.support.driver.live_page import live_page
from tests.support.operator.group_snapshots import fleet

BROWSER = console_pages.browser()
pytestmark = pytest.mark.skipif(BROWSER is None, reason="no browser is installed")


@pytest.fixture
def serve() -> Iterator[Callable[[int], str]]:
    loop = asyncio.new_event_loop()
    threading.Thread(target=loop.run_forever, daemon=True).start()
    runners = []

    def served(number: int) -> str:
        snapshots = fleet(number)
        starting = http.serve(
            CollectorRegistry(),
            lambda: (True, "ok"),
            lambda: (True, "ok"),
            "127.0.0.1",
            0,
            groups=lambda: group_list(snapshots, is_leader=True),
        )
        runners.append(asyncio.run_coroutine_threadsafe(starting, loop).result())
        return f"http://127.0.0.1:{runners[0].addresses[0][1]}/"

    yield served
    for runner in runners:
        asyncio.run_coroutine_threadsafe(runner.cleanup(), loop).result()
    loop.call_soon_threadsafe(loop.stop)


def test_a_thousand_groups_are_shown_the_worst_first(
    serve: Callable[[int], str], tmp_path: Path
) -> None:
    page, reported = console_pages.rendered(str(BROWSER), serve(1000), tmp_path / "profile")

    rows = re.findall(r"<tr><td>([^<]+)</td><td[^>]*>([^<]+)</td>", page)
    assert len(rows) == 100
    assert [phase for _, phase in rows[:21]] == ["Stalled"] * 20 + ["Running"]
    assert "1,000 groups · 20 with something wrong" in page
    assert '<td class="bad">Ready, Stalled</td>' in page
    assert "Show all 1,000" in page
    first = rows[0][0].split("/")
    assert f"kubectl -n {first[0]} describe consumergroup {first[1]}" in page
    assert "not shown" not in page
    assert "CONSOLE" not in reported


def test_an_operator_without_groups_has_a_page(serve: Callable[[int], str], tmp_path: Path) -> None:
    page, reported = console_pages.rendered(str(BROWSER), serve(0), tmp_path / "profile")

    assert "0 groups · 0 with something wrong" in page
    assert "CONSOLE" not in reported


FIRST_PAINT = "performance.getEntriesByName('first-contentful-paint')[0]?.startTime || 0"


@pytest.mark.asyncio
async def test_a_thousand_groups_are_painted_soon_filtered_and_copied_by_keyboard(
    serve: Callable[[int], str], tmp_path: Path
) -> None:
    async with live_page(str(BROWSER), serve(1000), tmp_path / "live") as page:
        await page.until(FIRST_PAINT)
        await page.until("document.querySelectorAll('tbody tr').length === 100")
        assert await page.value(FIRST_PAINT) < 1000 * patience()

        await page.press("Tab", 9)
        assert await page.value("document.activeElement.className") == "skip"
        await page.press("Tab", 9)
        assert await page.value("document.activeElement.name") == "text"
        await page.call("Input.insertText", text="group-004")
        await page.until("document.querySelectorAll('tbody tr').length === 10")
        await page.press("Tab", 9)
        await page.press(" ", 32, " ")
        await page.until("document.querySelectorAll('tbody tr').length === 1")

        await page.value(
            "navigator.clipboard.writeText = async (text) => { window.copied = text; }; 1"
        )
        await page.value("document.querySelector('#more button').focus()")
        await page.press("Enter", 13, "\r")
        await page.until("document.querySelector('#more button').textContent === 'Copied'")
        copied = await page.value("window.copied")
    assert copied == "kubectl -n team-004 describe consumergroup group-0049"


def patience() -> float:
    """How much slower than idle this machine may be now."""
    return max(1.0, os.getloadavg()[0] / (os.cpu_count() or 1))
