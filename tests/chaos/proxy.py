"""A proxy in front of an S3 server that injects faults into some requests: see ``faults``.

    python -m tests.chaos.proxy --upstream http://127.0.0.1:7070 --listen 10.0.0.1:7071 --seed 7
        --log faults.jsonl

The proxy runs in a process of its own and takes commands as lines of JSON on standard input; it
ends when that input ends. ``FaultProxy`` is the parent's side of it, ``proxy_server`` is what
serves the requests.
"""

import argparse
import asyncio
import threading
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import msgspec
from aiohttp import web

from tests.chaos.child_process import Child, send_answer, serve_commands
from tests.chaos.faults import Counts, Rule, Rules
from tests.chaos.proxy_server import Proxy


class FaultProxy:
    """A fault proxy that runs in a process of its own.

    Attributes:
        endpoint: its URL, which replaces that of the S3 server.
        log: file that gets a line of JSON for each fault.
    """

    def __init__(self, upstream: str, listen: str, *, seed: int, folder: Path) -> None:
        """Start it at ``HOST:PORT``, port 0 for any; ``folder`` gets ``faults.jsonl`` and a log."""
        self.log = folder / "faults.jsonl"
        arguments = [
            "--upstream",
            upstream,
            "--listen",
            listen,
            "--seed",
            str(seed),
            "--log",
            str(self.log),
        ]
        self._child = Child("proxy", *arguments, log=folder / "proxy.log")
        # The first line comes when the proxy accepts connections.
        self.endpoint = self._child.read_answer(str)

    def inject(self, rule: Rule) -> int:
        """Put a rule in force, and return its number.

        Raises:
            Refused: the rule is not valid.
        """
        return self._child.request("add", int, rule=rule)

    def lift(self, number: int | None = None) -> int:
        """End one rule, or all, and return how many were in force.

        Requests that ``DELAY`` holds back are still sent to the server.
        """
        return self._child.request("lift", int, number=number)

    @contextmanager
    def during(self, rule: Rule) -> Iterator[int]:
        """Keep a rule in force while the block runs; yields the rule's number.

        ``counts().rules[number]`` is the number of requests that the rule hit.
        """
        number = self.inject(rule)
        try:
            yield number
        finally:
            self.lift(number)

    def release(self) -> int:
        """Send all requests that ``DELAY`` holds back now, and return how many they were."""
        return self._child.request("release", int)

    def counts(self) -> Counts:
        """The counters of the proxy."""
        return self._child.request("counts", Counts)

    def stop(self) -> int:
        """Stop the process, and return its exit code."""
        return self._child.stop()


def main() -> int:
    """Serve until standard input ends."""
    parser = argparse.ArgumentParser(
        prog="python -m tests.chaos.proxy",
        description=__doc__,
        formatter_class=argparse.RawDescriptionHelpFormatter,
    )
    parser.add_argument("--upstream", required=True, help="URL of the S3 server")
    parser.add_argument(
        "--listen", default="127.0.0.1:0", help="HOST:PORT to listen on; port 0 takes any free port"
    )
    parser.add_argument(
        "--seed", type=int, default=0, help="seed of the rules' random generators (default: 0)"
    )
    parser.add_argument(
        "--log", type=Path, required=True, help="file that gets a line of JSON for each fault"
    )
    asyncio.run(_run(parser.parse_args()))
    return 0


async def _run(options: argparse.Namespace) -> None:
    proxy = Proxy(options.upstream, Rules(options.seed), options.log)
    runner = web.ServerRunner(proxy, handle_signals=False, shutdown_timeout=0.1)
    await runner.setup()
    host, _, port = options.listen.rpartition(":")
    await web.TCPSite(runner, host, int(port), backlog=1024).start()
    send_answer(f"http://{host}:{runner.addresses[0][1]}")
    loop, input_ended = asyncio.get_running_loop(), asyncio.Event()

    async def execute(command: dict[str, Any]) -> object:
        match command["command"]:
            case "add":
                return proxy.add(msgspec.convert(command["rule"], Rule))
            case "lift":
                return proxy.lift(command["number"])
            case "release":
                return await proxy.release()
            case "counts":
                return proxy.counters.snapshot()
            case unknown:
                raise ValueError(f"no such command: {unknown}")

    # Standard input is read in a thread, but rules change in the loop only, between two requests.
    def read_commands() -> None:
        serve_commands(
            lambda command: asyncio.run_coroutine_threadsafe(execute(command), loop).result()
        )
        loop.call_soon_threadsafe(input_ended.set)

    threading.Thread(target=read_commands, daemon=True).start()
    await input_ended.wait()
    await runner.cleanup()
    await proxy.close()


if __name__ == "__main__":
    raise SystemExit(main())
