"""A proxy in front of an S3 server that does to some requests what networks and stores do: see
``faults``.

    python -m tests.chaos.proxy --upstream http://127.0.0.1:7070 --listen 10.0.0.1:7071 --seed 7
    --log faults.jsonl

Everything else passes as it is: S3 signs Host, path and query, so those are kept to the byte;
bodies are streamed both ways and never unpacked. Each request has a connection of its own to the
server, and none is sent twice: what comes out of here is what came in, or a fault that was counted.
Each fault is a line in the log, with what the server answered where it did.

It takes orders as lines of JSON on standard input, and ends with it; ``FaultProxy`` is the other
end.
"""

import argparse
import asyncio
import sys
import threading
from collections import Counter
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from datetime import UTC, datetime
from pathlib import Path
from typing import Any

import aiohttp
import msgspec
from aiohttp import web
from multidict import CIMultiDict
from yarl import URL

from tests.chaos.child_process import Child, listen, say
from tests.chaos.faults import (
    LATE,
    Active,
    Asked,
    Counts,
    Fault,
    Operation,
    Rule,
    Rules,
    Tally,
    asked,
)
from tests.chaos.wire import Answer, body, cut, error, kept, like, peer, reset

_LONG_LINE = 1 << 16
_PIECE_BYTES = 1 << 18
_GONE = (ConnectionError, aiohttp.ClientError, asyncio.IncompleteReadError, TimeoutError)
"""A neighbour that went away in the middle."""
_ANSWERS = {
    Fault.ERROR_500: Answer(
        500, "InternalError", "We encountered an internal error. Please try again."
    ),
    Fault.SLOW_DOWN: Answer(503, "SlowDown", "Please reduce your request rate."),
    Fault.ERROR_200: Answer(
        200, "InternalError", "We encountered an internal error. Please try again."
    ),
}
_ANSWERS |= {
    Fault.ERROR_500_AFTER: _ANSWERS[Fault.ERROR_500],
    Fault.ERROR_200_AFTER: _ANSWERS[Fault.ERROR_200],
}
_AFTER = {Fault.RESET_AFTER, Fault.ERROR_500_AFTER, Fault.ERROR_200_AFTER}


class Proxy(web.Server):
    """Passes everything on to ``upstream`` but what the rules strike."""

    def __init__(self, upstream: str, rules: Rules, log: Path) -> None:
        """Within a running loop."""
        super().__init__(
            self._serve,
            access_log=None,
            auto_decompress=False,
            keepalive_timeout=3600,
            max_line_size=_LONG_LINE,
            max_field_size=_LONG_LINE,
            read_bufsize=_PIECE_BYTES,
        )
        self._upstream = upstream.rstrip("/")
        self.rules = rules
        self.tally = Tally()
        self._log = log.open("a", buffering=1)
        self._lifted: dict[int, asyncio.Event] = {}
        self._late: set[asyncio.Task[None]] = set()
        self._release = asyncio.Event()
        self._session = aiohttp.ClientSession(
            connector=aiohttp.TCPConnector(limit=0, force_close=True),
            auto_decompress=False,
            skip_auto_headers=("Accept", "Accept-Encoding", "Content-Type", "User-Agent"),
            timeout=aiohttp.ClientTimeout(total=None, sock_connect=10),
            read_bufsize=_PIECE_BYTES,
            max_line_size=_LONG_LINE,
            max_field_size=_LONG_LINE,
        )
        self._session._retry_connection = (
            False  # a request sent twice would be a fault that nobody counted
        )

    # --------------------------------------------------------------------------------------- orders

    def add(self, rule: Rule) -> int:
        """Put a rule in force, and return its number; a partition cuts what is connected."""
        active = self.rules.add(rule)
        self._lifted[active.number] = asyncio.Event()
        if rule.fault is Fault.PARTITION:
            for connection in self.connections:
                if connection.transport and rule.is_for_client(peer(connection.transport)):
                    self._refuse(active, connection.transport)
        return active.number

    def lift(self, number: int | None) -> int:
        """End a rule, or all of them, and return how many were in force."""
        lifted = self.rules.lift(number)
        for active in lifted:
            self._lifted.pop(active.number).set()
        return len(lifted)

    async def release(self) -> int:
        """Have all that is held back done now, and return how many that was."""
        late = tuple(self._late)
        self._release.set()
        await asyncio.gather(*late)
        self._release.clear()
        return len(late)

    async def close(self) -> None:
        """Forget what is held back."""
        for task in self._late:
            task.cancel()
        await self._session.close()
        self._log.close()

    # ---------------------------------------------------------------------------------- connections

    def connection_made(self, handler: Any, transport: asyncio.Transport) -> None:
        """Refuse whom a partition keeps out."""
        super().connection_made(handler, transport)
        if partition := self.rules.partition_of(peer(transport)):
            self._refuse(partition, transport)

    def _refuse(self, partition: Active, transport: asyncio.BaseTransport) -> None:
        self._count(partition, Asked(Operation.CONNECT, "", peer(transport)))
        reset(transport)

    # ------------------------------------------------------------------------------------- requests

    async def _serve(self, request: web.BaseRequest) -> web.StreamResponse:
        assert request.transport
        what = asked(request.method, request.raw_path, peer(request.transport))
        self.tally.requests[what.operation] += 1
        for latency in self.rules.latencies(what):
            seconds = latency.seconds()
            self._count(latency, what, seconds=round(seconds, 3))
            await asyncio.sleep(seconds)
        struck = self.rules.strike(what)
        try:
            return await (self._strike(struck, what, request) if struck else self._pass(request))
        except _GONE as error:
            _note(f"{what}: {type(error).__name__}: {error}")
            return cut(request)

    async def _strike(
        self, struck: Active, what: Asked, request: web.BaseRequest
    ) -> web.StreamResponse:
        match struck.rule.fault:
            case Fault.RESET | Fault.PARTITION:
                self._count(struck, what)
                return cut(request)
            case Fault.SILENCE:
                self._count(struck, what)
                await self._lifted[struck.number].wait()
                return cut(request)
            case Fault.DELAY:
                return await self._delay(struck, what, request)
            case Fault.TRUNCATE:
                return await self._truncate(struck, what, request)
            case _:
                return await self._spoil(struck, what, request)

    async def _spoil(
        self, struck: Active, what: Asked, request: web.BaseRequest
    ) -> web.StreamResponse:
        """Another answer than the server's, which may have been asked or not."""
        fault = struck.rule.fault
        if fault in _AFTER:
            async with self._ask(request) as answer:
                await answer.read()
            self._count(struck, what, status=answer.status)
        else:
            async for _ in body(request):
                """The client is not to see a connection closed on it while it sends."""
            self._count(struck, what)
        return error(_ANSWERS[fault]) if fault in _ANSWERS else cut(request)

    async def _truncate(
        self, struck: Active, what: Asked, request: web.BaseRequest
    ) -> web.StreamResponse:
        async with self._ask(request) as answer:
            length = answer.content_length or 0
            if request.method == "HEAD" or not length:
                struck.give_back()
                return await self._answer(request, answer)
            self._count(struck, what, status=answer.status)
            back = like(answer)
            await back.prepare(request)
            await back.write(await answer.content.readexactly(length // 2))
            # A reset would throw away what the client has not read yet.
            return cut(request, politely=True)

    async def _delay(
        self, struck: Active, what: Asked, request: web.BaseRequest
    ) -> web.StreamResponse:
        held = b"".join([piece async for piece in body(request)])
        seconds = struck.seconds()
        self._count(struck, what, seconds=round(seconds, 3))
        self.tally.pending += 1
        task = asyncio.create_task(
            self._later(seconds, what, (request.method, request.raw_path), kept(request), held)
        )
        self._late.add(task)
        task.add_done_callback(self._late.discard)
        return cut(request)

    async def _later(
        self,
        seconds: float,
        what: Asked,
        line: tuple[str, str],
        headers: CIMultiDict[str],
        held: bytes,
    ) -> None:
        with suppress(TimeoutError):
            await asyncio.wait_for(self._release.wait(), seconds)
        status = 0
        with suppress(*_GONE):
            async with self._session.request(
                line[0],
                URL(self._upstream + line[1], encoded=True),
                headers=headers,
                data=held or None,
            ) as answer:
                status = answer.status
        self.tally.pending -= 1
        self._tell(LATE, what, status=status)

    # -------------------------------------------------------------------------------------- passing

    async def _pass(self, request: web.BaseRequest) -> web.StreamResponse:
        async with self._ask(request) as answer:
            return await self._answer(request, answer)

    def _ask(self, request: web.BaseRequest) -> Any:
        """Put the client's request to the server."""
        return self._session.request(
            request.method,
            URL(self._upstream + request.raw_path, encoded=True),
            headers=kept(request),
            data=body(request) if request.body_exists else None,
            allow_redirects=False,
        )

    async def _answer(
        self, request: web.BaseRequest, answer: aiohttp.ClientResponse
    ) -> web.StreamResponse:
        """Give the client the server's answer."""
        back = like(answer)
        await back.prepare(request)
        async for piece in answer.content.iter_any():
            await back.write(piece)
        await back.write_eof()
        return back

    def _count(self, struck: Active, what: Asked, **more: object) -> None:
        self.tally.rules[struck.number] += 1
        self.tally.faults.setdefault(struck.rule.fault, Counter())[what.operation] += 1
        self._tell(struck.rule.fault, what, rule=struck.number, **more)

    def _tell(self, kind: str, what: Asked, **more: object) -> None:
        told = {
            "time": datetime.now(UTC),
            "kind": kind,
            "operation": what.operation,
            "key": what.key,
        }
        self._log.write(
            msgspec.json.encode({**told, "client": what.client, **more}).decode() + "\n"
        )


def _note(message: str) -> None:
    sys.stderr.write(f"{datetime.now(UTC):%H:%M:%S} {message}\n")


# ------------------------------------------------------------------------------------- the two ends


class FaultProxy:
    """A proxy in a process of its own."""

    def __init__(self, upstream: str, listen: str, *, seed: int, folder: Path) -> None:
        """Start it at ``HOST:PORT`` (port 0: any); ``folder`` gets ``faults.jsonl`` and its log."""
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
        self.endpoint = self._child.told(str)
        """Where it is."""

    def inject(self, rule: Rule) -> int:
        """Put a rule in force; its number lifts it."""
        return self._child.ask("add", int, rule=rule)

    def lift(self, number: int | None = None) -> int:
        """End a rule, or all; how many were in force. Requests held back by ``DELAY`` come all the
        same.
        """
        return self._child.ask("lift", int, number=number)

    @contextmanager
    def during(self, rule: Rule) -> Iterator[int]:
        """Have a rule in force for a block, and its number, by which ``counts().rules`` tells how
        often it struck.
        """
        number = self.inject(rule)
        try:
            yield number
        finally:
            self.lift(number)

    def release(self) -> int:
        """Have all that is held back by ``DELAY`` done now; how many requests that was."""
        return self._child.ask("release", int)

    def counts(self) -> Counts:
        """What it did so far."""
        return self._child.ask("counts", Counts)

    def stop(self) -> int:
        """End it, and return its exit code."""
        return self._child.end()


def main() -> int:
    """See the module."""
    parser = argparse.ArgumentParser(prog="python -m tests.chaos.proxy", description=__doc__)
    parser.add_argument("--upstream", required=True, help="URL of the S3 server")
    parser.add_argument("--listen", default="127.0.0.1:0", help="HOST:PORT, port 0 for any")
    parser.add_argument("--seed", type=int, default=0, help="of its dice")
    parser.add_argument(
        "--log", type=Path, required=True, help="file that gets a line of JSON for each fault"
    )
    asyncio.run(_run(parser.parse_args()))
    return 0


async def _run(chosen: argparse.Namespace) -> None:
    proxy = Proxy(chosen.upstream, Rules(chosen.seed), chosen.log)
    runner = web.ServerRunner(proxy, handle_signals=False, shutdown_timeout=0.1)
    await runner.setup()
    host, _, port = chosen.listen.rpartition(":")
    await web.TCPSite(runner, host, int(port), backlog=1024).start()
    say(f"http://{host}:{runner.addresses[0][1]}")
    loop, over = asyncio.get_running_loop(), asyncio.Event()

    async def obey(order: dict[str, Any]) -> object:
        match order["do"]:
            case "add":
                return proxy.add(msgspec.convert(order["rule"], Rule))
            case "lift":
                return proxy.lift(order["number"])
            case "release":
                return await proxy.release()
            case "counts":
                return proxy.tally.told()
            case unknown:
                raise ValueError(f"no such order: {unknown}")

    def take_orders() -> None:
        listen(lambda order: asyncio.run_coroutine_threadsafe(obey(order), loop).result())
        loop.call_soon_threadsafe(over.set)

    threading.Thread(target=take_orders, daemon=True).start()
    await over.wait()
    await runner.cleanup()
    await proxy.close()


if __name__ == "__main__":
    raise SystemExit(main())
