"""The HTTP server of the fault proxy: it forwards requests to S3 and injects the faults.

A request that no rule hits is forwarded unchanged. S3 signs Host, path and query, so these keep
every byte; bodies are streamed in both directions and never decompressed. Each request has a
connection of its own to the server, and no request is sent twice: the server gets exactly what the
client sent, unless a fault was counted. Each fault is a line in the log, with the server's status
if the server answered.
"""

import asyncio
import sys
from collections import Counter
from contextlib import suppress
from datetime import UTC, datetime
from pathlib import Path
from typing import Any

import aiohttp
import msgspec
from aiohttp import web
from multidict import CIMultiDict
from yarl import URL

from tests.chaos.faults import (
    LATE,
    ActiveRule,
    Counters,
    Fault,
    Operation,
    Rule,
    Rules,
    S3Request,
    parse_request,
)
from tests.chaos.wire import (
    S3Error,
    body,
    close_connection,
    error_response,
    forwarded_headers,
    peer,
    reset,
    response_like,
)

_LONG_LINE = 1 << 16
_BUFFER_BYTES = 1 << 18
_CONNECTION_LOST = (ConnectionError, aiohttp.ClientError, asyncio.IncompleteReadError, TimeoutError)
"""What the client's or the server's end of a connection raises when the other end is gone."""
_ERRORS = {
    Fault.ERROR_500: S3Error(
        500, "InternalError", "We encountered an internal error. Please try again."
    ),
    Fault.SLOW_DOWN: S3Error(503, "SlowDown", "Please reduce your request rate."),
    Fault.DENIED: S3Error(403, "AccessDenied", "Access Denied."),
    Fault.ERROR_200: S3Error(
        200, "InternalError", "We encountered an internal error. Please try again."
    ),
}
_ERRORS |= {
    Fault.ERROR_500_AFTER: _ERRORS[Fault.ERROR_500],
    Fault.ERROR_200_AFTER: _ERRORS[Fault.ERROR_200],
}
_EXECUTED_FIRST = {Fault.RESET_AFTER, Fault.ERROR_500_AFTER, Fault.ERROR_200_AFTER}
"""The faults that replace the answer to a request that the server has executed."""


class Proxy(web.Server):
    """Forwards requests to ``upstream``, except those that a rule hits."""

    def __init__(self, upstream: str, rules: Rules, log: Path) -> None:
        """Create it; an event loop must be running."""
        super().__init__(
            self._serve,
            access_log=None,
            auto_decompress=False,
            keepalive_timeout=3600,
            max_line_size=_LONG_LINE,
            max_field_size=_LONG_LINE,
            read_bufsize=_BUFFER_BYTES,
        )
        self._upstream = upstream.rstrip("/")
        self.rules = rules
        self.counters = Counters()
        self._log_file = log.open("a", buffering=1)
        self._lifted: dict[int, asyncio.Event] = {}
        self._held_back: set[asyncio.Task[None]] = set()
        self._release = asyncio.Event()
        self._session = aiohttp.ClientSession(
            connector=aiohttp.TCPConnector(limit=0, force_close=True),
            auto_decompress=False,
            skip_auto_headers=("Accept", "Accept-Encoding", "Content-Type", "User-Agent"),
            timeout=aiohttp.ClientTimeout(total=None, sock_connect=10),
            read_bufsize=_BUFFER_BYTES,
            max_line_size=_LONG_LINE,
            max_field_size=_LONG_LINE,
        )
        # A request that aiohttp repeats would be a fault that is not counted.
        self._session._retry_connection = False

    # ------------------------------------------------------------------------------------- commands

    def add(self, rule: Rule) -> int:
        """Put a rule in force, and return its number; a partition resets existing connections."""
        active = self.rules.add(rule)
        self._lifted[active.number] = asyncio.Event()
        if rule.fault is Fault.PARTITION:
            for connection in self.connections:
                if connection.transport and rule.matches_client(peer(connection.transport)):
                    self._refuse(active, connection.transport)
        return active.number

    def lift(self, number: int | None) -> int:
        """End one rule, or all, and return how many were in force."""
        lifted = self.rules.lift(number)
        for active in lifted:
            self._lifted.pop(active.number).set()  # ends the requests that SILENCE holds
        return len(lifted)

    async def release(self) -> int:
        """Send all requests that ``DELAY`` holds back now, and return how many they were."""
        held_back = tuple(self._held_back)
        self._release.set()
        await asyncio.gather(*held_back)
        self._release.clear()
        return len(held_back)

    async def close(self) -> None:
        """Drop the requests that are held back, and close the log."""
        for task in self._held_back:
            task.cancel()
        await self._session.close()
        self._log_file.close()

    # ---------------------------------------------------------------------------------- connections

    def connection_made(self, handler: Any, transport: asyncio.Transport) -> None:
        """Reset the connection if a partition refuses the client."""
        super().connection_made(handler, transport)
        if partition := self.rules.partition_of(peer(transport)):
            self._refuse(partition, transport)

    def _refuse(self, partition: ActiveRule, transport: asyncio.BaseTransport) -> None:
        self._count(partition, S3Request(Operation.CONNECT, "", peer(transport)))
        reset(transport)

    # ------------------------------------------------------------------------------------- requests

    async def _serve(self, request: web.BaseRequest) -> web.StreamResponse:
        assert request.transport
        s3_request = parse_request(request.method, request.raw_path, peer(request.transport))
        self.counters.requests[s3_request.operation] += 1
        for latency in self.rules.latencies(s3_request):
            seconds = latency.seconds()
            self._count(latency, s3_request, seconds=round(seconds, 3))
            await asyncio.sleep(seconds)
        active = self.rules.choose_fault(s3_request)
        try:
            return await (
                self._inject(active, s3_request, request) if active else self._forward(request)
            )
        except _CONNECTION_LOST as error:
            _log_error(f"{s3_request}: {type(error).__name__}: {error}")
            return close_connection(request)

    async def _inject(
        self, active: ActiveRule, s3_request: S3Request, request: web.BaseRequest
    ) -> web.StreamResponse:
        match active.rule.fault:
            case Fault.RESET | Fault.PARTITION:
                self._count(active, s3_request)
                return close_connection(request)
            case Fault.SILENCE:
                self._count(active, s3_request)
                await self._lifted[active.number].wait()
                return close_connection(request)
            case Fault.DELAY:
                return await self._hold_back(active, s3_request, request)
            case Fault.TRUNCATE:
                return await self._truncate(active, s3_request, request)
            case _:
                return await self._replace_answer(active, s3_request, request)

    async def _replace_answer(
        self, active: ActiveRule, s3_request: S3Request, request: web.BaseRequest
    ) -> web.StreamResponse:
        """Answer with an error or a reset, after the server has executed the request or without."""
        fault = active.rule.fault
        if fault in _EXECUTED_FIRST:
            async with self._send(request) as answer:
                await answer.read()
            self._count(active, s3_request, status=answer.status)
        else:
            async for _ in body(request):
                """A client whose connection closes while it sends sees another error."""
            self._count(active, s3_request)
        return error_response(_ERRORS[fault]) if fault in _ERRORS else close_connection(request)

    async def _truncate(
        self, active: ActiveRule, s3_request: S3Request, request: web.BaseRequest
    ) -> web.StreamResponse:
        async with self._send(request) as answer:
            length = answer.content_length or 0
            if request.method == "HEAD" or not length:
                active.restore()
                return await self._relay(request, answer)
            self._count(active, s3_request, status=answer.status)
            response = response_like(answer)
            await response.prepare(request)
            await response.write(await answer.content.readexactly(length // 2))
            # A reset would discard the half that the client has not read yet.
            return close_connection(request, graceful=True)

    async def _hold_back(
        self, active: ActiveRule, s3_request: S3Request, request: web.BaseRequest
    ) -> web.StreamResponse:
        content = b"".join([chunk async for chunk in body(request)])
        seconds = active.seconds()
        self._count(active, s3_request, seconds=round(seconds, 3))
        self.counters.pending += 1
        task = asyncio.create_task(
            self._send_later(
                seconds,
                s3_request,
                (request.method, request.raw_path),
                forwarded_headers(request),
                content,
            )
        )
        self._held_back.add(task)
        task.add_done_callback(self._held_back.discard)
        return close_connection(request)

    async def _send_later(
        self,
        seconds: float,
        s3_request: S3Request,
        request_line: tuple[str, str],
        headers: CIMultiDict[str],
        content: bytes,
    ) -> None:
        with suppress(TimeoutError):  # the usual case: the delay ends before a release
            await asyncio.wait_for(self._release.wait(), seconds)
        status = 0
        with suppress(*_CONNECTION_LOST):
            async with self._session.request(
                request_line[0],
                URL(self._upstream + request_line[1], encoded=True),
                headers=headers,
                data=content or None,
            ) as answer:
                status = answer.status
        self.counters.pending -= 1
        self._log_event(LATE, s3_request, status=status)

    # ----------------------------------------------------------------------------------- forwarding

    async def _forward(self, request: web.BaseRequest) -> web.StreamResponse:
        async with self._send(request) as answer:
            return await self._relay(request, answer)

    def _send(self, request: web.BaseRequest) -> Any:
        """Send the client's request to the server."""
        return self._session.request(
            request.method,
            URL(self._upstream + request.raw_path, encoded=True),
            headers=forwarded_headers(request),
            data=body(request) if request.body_exists else None,
            allow_redirects=False,
        )

    async def _relay(
        self, request: web.BaseRequest, answer: aiohttp.ClientResponse
    ) -> web.StreamResponse:
        """Send the server's answer to the client."""
        response = response_like(answer)
        await response.prepare(request)
        async for chunk in answer.content.iter_any():
            await response.write(chunk)
        await response.write_eof()
        return response

    def _count(self, active: ActiveRule, s3_request: S3Request, **more: object) -> None:
        self.counters.rules[active.number] += 1
        self.counters.faults.setdefault(active.rule.fault, Counter())[s3_request.operation] += 1
        self._log_event(active.rule.fault, s3_request, rule=active.number, **more)

    def _log_event(self, kind: str, s3_request: S3Request, **more: object) -> None:
        event = {
            "time": datetime.now(UTC),
            "kind": kind,
            "operation": s3_request.operation,
            "key": s3_request.key,
            "client": s3_request.client,
            **more,
        }
        self._log_file.write(msgspec.json.encode(event).decode() + "\n")


def _log_error(message: str) -> None:
    sys.stderr.write(f"{datetime.now(UTC):%H:%M:%S} {message}\n")
