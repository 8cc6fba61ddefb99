"""A page in a real browser that runs at its own pace, for tests that click, type and measure."""

import asyncio
import subprocess
import time
from collections.abc import AsyncIterator, Iterator
from contextlib import asynccontextmanager
from dataclasses import dataclass
from itertools import count
from pathlib import Path
from typing import Any

import aiohttp

PATIENCE = 60.0


@dataclass
class LivePage:
    """A page, by the browser's debugging protocol."""

    socket: aiohttp.ClientWebSocketResponse
    numbers: Iterator[int]

    async def call(self, method: str, **parameters: object) -> Any:
        """Return the result of a method; events that come meanwhile are passed over."""
        number = next(self.numbers)
        await self.socket.send_json({"id": number, "method": method, "params": parameters})
        while True:
            answer = await asyncio.wait_for(self.socket.receive_json(), PATIENCE)
            if answer.get("id") == number:
                assert "error" not in answer, answer
                return answer["result"]

    async def value(self, expression: str) -> Any:
        """Return the value of an expression of JavaScript, awaited if it is a promise."""
        found = await self.call(
            "Runtime.evaluate", expression=expression, awaitPromise=True, returnByValue=True
        )
        assert "exceptionDetails" not in found, found
        return found["result"].get("value")

    async def until(self, expression: str) -> None:
        """Return when an expression is true."""
        end = time.monotonic() + PATIENCE
        while not await self.value(expression):
            assert time.monotonic() < end, f"never true: {expression}"
            await asyncio.sleep(0.05)

    async def press(self, key: str, code: int, text: str = "") -> None:
        """Press a key and release it."""
        more = {"text": text} if text else {}
        await self.call(
            "Input.dispatchKeyEvent", type="keyDown", key=key, windowsVirtualKeyCode=code, **more
        )
        await self.call("Input.dispatchKeyEvent", type="keyUp", key=key, windowsVirtualKeyCode=code)


@asynccontextmanager
async def live_page(program: str, url: str, profile: Path) -> AsyncIterator[LivePage]:
    """Open a page in a browser of its own, which ends with the context."""
    flags = ("--headless", "--no-sandbox", "--disable-gpu", "--no-first-run")
    process = subprocess.Popen(  # noqa: ASYNC220  # it is only started here
        [program, *flags, f"--user-data-dir={profile}", "--remote-debugging-port=0", "about:blank"],
        stdout=subprocess.DEVNULL,
        stderr=subprocess.DEVNULL,
    )
    try:
        async with aiohttp.ClientSession() as session:
            address = await _address(profile / "DevToolsActivePort")
            async with session.get(f"{address}/json/list") as answer:
                pages = [page for page in await answer.json() if page["type"] == "page"]
            async with session.ws_connect(pages[0]["webSocketDebuggerUrl"]) as socket:
                page = LivePage(socket, count(1))
                await page.call("Page.enable")
                await page.call("Page.navigate", url=url)
                await page.until(
                    f"location.href.startsWith('{url}') && document.readyState === 'complete'"
                )
                yield page
    finally:
        process.terminate()
        process.wait(timeout=PATIENCE)


async def _address(file: Path) -> str:
    end = time.monotonic() + PATIENCE
    while not (file.exists() and (lines := file.read_text().split())):  # noqa: ASYNC240  # tiny
        assert time.monotonic() < end, "the browser does not start"
        await asyncio.sleep(0.05)
    return f"http://127.0.0.1:{lines[0]}"
