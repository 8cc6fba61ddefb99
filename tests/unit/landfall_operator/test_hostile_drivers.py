"""Pods of tenants that answer the operator with anything: it keeps little and goes nowhere."""

import asyncio
import gzip
import json
import random
from collections.abc import Awaitable, Callable, Iterator
from dataclasses import replace
from datetime import timedelta
from typing import Any

import aiohttp
import msgspec
import pytest
from aiohttp import web
from hypothesis import given, settings
from hypothesis import strategies as st

from landfall.api.compaction_status import CompactionStatus
from landfall.api.contract import (
    CommitStatus,
    ExecutorProblem,
    Failure,
    PartitionStatus,
    PublisherStatus,
    Status,
    TopicCompleteness,
    WantExecutors,
    Workers,
)
from landfall.api.feed_status import FeedStatus
from landfall.api.run_status import RunStatus, ScheduleStatus
from landfall.api.status_summary import MAX_BYTES, MAX_ITEMS, summarize, totals_of
from landfall_operator.core.desired_state import desired_state
from landfall_operator.core.parsing import report_of
from landfall_operator.core.snapshot import ReceivedStatus
from landfall_operator.reporting.group_status import report
from landfall_operator.runtime import control_port as control
from landfall_operator.runtime import driver_client
from landfall_operator.runtime.driver_client import DriverUnreachable, HttpDriverClient
from landfall_operator.runtime.metrics import Metrics, OperatorSnapshot
from landfall_operator.runtime.promotions import HttpPromotionClient
from tests.support.driver.signing import DRIVER, control_port
from tests.support.examples import share
from tests.support.operator.cluster_model import START, World, group
from tests.support.operator.reconciled import status_of

LOCAL = "127.0.0.1"
MAX_STATUS = 128 * 1024
"""Bytes that the most hostile status of a driver makes of the resource's status."""
TIME = START.isoformat()
Handler = Callable[[web.Request], Awaitable[web.StreamResponse]]


def metrics() -> Metrics:
    return Metrics(lambda: OperatorSnapshot(is_leader=True, groups=0, oldest_pass=0))


def answered(handler: Handler, ask: Callable[[aiohttp.ClientSession], Awaitable[Any]]) -> Any:
    """What ``ask`` returns while every port of a driver is answered by the handler."""

    async def run() -> Any:
        app = web.Application()
        app.router.add_route("*", "/{path:.*}", handler)
        runner = web.AppRunner(app, shutdown_timeout=0.1)
        await runner.setup()
        site = web.TCPSite(runner, LOCAL, 0)
        await site.start()
        port = runner.addresses[0][1]
        with pytest.MonkeyPatch.context() as patch:
            patch.setattr(driver_client, "HTTP_PORT", port)
            patch.setattr(control, "CONTROL_PORT", port)
            try:
                async with aiohttp.ClientSession() as session:
                    return await ask(session)
            finally:
                await runner.cleanup()

    return asyncio.run(run())


async def ask_status(session: aiohttp.ClientSession) -> bytes | None:
    return await HttpDriverClient(session, control_port(session), metrics()).status(LOCAL)


async def ask_scale(session: aiohttp.ClientSession) -> None:
    await HttpDriverClient(session, control_port(session), metrics()).send(
        LOCAL, WantExecutors(3), DRIVER
    )


async def ask_promotion(session: aiohttp.ClientSession) -> str:
    return (
        await HttpPromotionClient(control_port(session), metrics()).promote(LOCAL, DRIVER, "s", "1")
    ).outcome


def test_a_compressed_answer_is_no_status() -> None:
    async def bomb(request: web.Request) -> web.Response:
        assert request.headers["Accept-Encoding"] == "identity"
        return web.Response(body=gzip.compress(b" " * 2**26), headers={"Content-Encoding": "gzip"})

    assert answered(bomb, ask_status) is None
    assert answered(bomb, ask_promotion) == "failed"


def test_of_a_long_answer_little_is_read() -> None:
    sent = 0

    async def flood(request: web.Request) -> web.StreamResponse:
        nonlocal sent
        response = web.StreamResponse()
        await response.prepare(request)
        for _ in range(1000):
            await response.write(b" " * 2**16)
            sent += 2**16
        return response

    assert answered(flood, ask_status) is None
    assert answered(flood, ask_promotion) == "failed"
    assert sent < 2**25


def test_headers_without_end_are_no_answer() -> None:
    sent = 0

    async def endless(request: web.Request) -> web.StreamResponse:
        nonlocal sent
        transport = request.transport
        assert isinstance(transport, asyncio.Transport)
        transport.write(b"HTTP/1.1 200 OK\r\n")
        while not transport.is_closing() and sent < 1000:
            transport.write(f"X-{sent}: {'x' * 4000}\r\n".encode())
            sent += 1
            await asyncio.sleep(0.001)
        return web.Response()

    assert answered(endless, ask_status) is None
    assert sent < 500


def test_a_driver_that_never_ends_its_answer_is_given_up(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(driver_client, "TIMEOUT_SECONDS", 0.2)
    ended = asyncio.Event()

    async def drip(request: web.Request) -> web.StreamResponse:
        response = web.StreamResponse()
        await response.prepare(request)
        while not ended.is_set():
            await response.write(b" ")
            await asyncio.sleep(0.02)
        return response

    async def ask(session: aiohttp.ClientSession) -> bytes | None:
        async with asyncio.timeout(5):
            body = await ask_status(session)
        ended.set()
        return body

    assert answered(drip, ask) is None


@pytest.mark.parametrize("code", [301, 302, 303, 307, 308])
def test_no_request_goes_where_a_driver_sends_it(code: int) -> None:
    seen: list[str] = []

    async def elsewhere(request: web.Request) -> web.Response:
        seen.append(request.path)
        return web.Response(status=code, headers={"Location": "/internal/metadata"})

    assert answered(elsewhere, ask_status) is None
    with pytest.raises(DriverUnreachable, match=f"/control/executors of {LOCAL}: {code}"):
        answered(elsewhere, ask_scale)
    assert answered(elsewhere, ask_promotion) == "failed"
    assert seen == ["/status", "/control/executors", "/control/promote"]


@pytest.mark.parametrize("code", [101, 300, 304, 400, 503, 799])
def test_a_command_is_accepted_by_a_success_only(code: int) -> None:
    async def refuse(_: web.Request) -> web.Response:
        return web.Response(status=code)

    with pytest.raises(DriverUnreachable):
        answered(refuse, ask_scale)


# ------------------------------------------------------------------------------------ what is kept


def most(texts: int, items: int, topics: int = 10**9, words: int = 10**9) -> Status:
    """A status with so many characters in each text, and so many items in each list.

    ``topics`` and ``words`` bound the names of topics, and what is one word of a driver.
    """
    text = "x" * texts
    name, word = text[:topics], text[:words]
    partition = PartitionStatus(
        name, 0, 0, 9, 9, 9.0, 9.0, blocked=word, message=text, next_step=text, read_from=name
    )
    publisher = PublisherStatus(word, word, 1, 1, 1.0, 1, 1, 1, TIME, word, text, text)
    feed = FeedStatus(name, 1, 1, 1, 1, 1, 1, 1, TIME, text, text, 1)
    run = RunStatus(TIME, TIME, TIME, 1, 1, 1, 1, (name,) * items)
    topic = TopicCompleteness(name, TIME, name, text)
    made = replace(
        status_of("g1-a", START),
        version=word,
        message=text,
        hot_path=word,
        commits=CommitStatus(5, 0, 9, TIME, Failure(TIME, word, text), 0),
        workers=Workers(2, 1, 1, ExecutorProblem(word, text)),
        partitions=tuple(
            replace(partition, partition=n, blocked=f"{n}{word}"[:texts]) for n in range(items)
        ),
        publishers=tuple(replace(publisher, name=f"{n}{word}"[:texts]) for n in range(items)),
        completeness=(topic,) * items,
        schedule=ScheduleStatus(TIME, waits=True, runs=(run,) * items),
        feeds=tuple(replace(feed, topic=f"{n}{name}"[:texts]) for n in range(items)),
        compaction=CompactionStatus(problem=text),
    )
    return replace(made, totals=totals_of(made))


def lists_and_texts(value: Any, field: str = "") -> Iterator[tuple[str, int]]:
    if isinstance(value, str):
        yield field, len(value)
    elif isinstance(value, list):
        yield f"{field}[]", len(value)
        for item in value:
            yield from lists_and_texts(item, field)
    elif isinstance(value, dict):
        for name, item in value.items():
            yield from lists_and_texts(item, name)


@given(texts=st.integers(1, 5000), items=st.integers(1, 120))
@settings(max_examples=share(15), deadline=None)
def test_every_list_and_text_of_a_driver_is_cut(texts: int, items: int) -> None:
    read = report_of(msgspec.json.encode(most(texts, items)), START)

    assert read
    sizes = list(lists_and_texts(msgspec.to_builtins(read.status)))
    assert {field for field, size in sizes if field.endswith("[]") and size > 100} == set()
    assert {field for field, size in sizes if size > 1000} == set()
    assert len(read.status.partitions) <= MAX_ITEMS["partitions"]
    assert read.status.schedule
    assert {run.left_topics for run in read.status.schedule.runs} <= {items}


def test_the_longest_summary_of_a_driver_is_read() -> None:
    summary = summarize(most(5000, 120, topics=249, words=40))

    assert len(msgspec.json.encode(summary)) <= MAX_BYTES
    assert summarize(summary) == summary


@pytest.mark.parametrize("spec", [{}, {"schedule": {"cron": "0 * * * *"}}])
def test_the_status_of_the_resource_stays_small(spec: dict[str, Any]) -> None:
    world = World(group("good", **spec))
    world.run(timedelta(minutes=5))
    observed = world.observe()
    (driver,) = observed.drivers.values()
    hostile = report_of(msgspec.json.encode(most(5000, 120)), observed.now)
    assert hostile
    answer = ReceivedStatus(hostile.status, observed.now)
    observed = replace(
        observed,
        drivers={driver.revision: replace(driver, report=answer)},
        spec_error="y" * 10**6,
    )

    made = report(observed, desired_state(observed)).model_dump(mode="json", by_alias=True)

    assert len(json.dumps(made)) < MAX_STATUS
    sizes = list(lists_and_texts(made))
    assert {field for field, size in sizes if field.endswith("[]") and size > 20} == set()
    assert {field for field, size in sizes if size > 2500} == set()


@pytest.mark.parametrize(
    "changes",
    [
        {"lag_seconds": float("inf")},
        {"lag_seconds": float("nan")},
        {"lag_records": 10**30},
        {"lag_records": -5},
        {"commits": {"last_time": "yesterday"}},
        {"commits": {"last_time": "2026-11-21T12:00:00"}},
        {"commits": {"last_failure": {"time": "", "reason": "r", "message": "m"}}},
        {"feeds": [{**msgspec.to_builtins(FeedStatus("t", 0, 0, 0, 0, 0, 0)), "looked": "x"}]},
    ],
)
def test_a_time_or_number_that_no_driver_writes_is_no_status(changes: dict[str, Any]) -> None:
    plain = msgspec.to_builtins(status_of("g1-a", START))
    nested = {
        name: {**plain[name], **value} if isinstance(value, dict) else value
        for name, value in changes.items()
    }

    assert report_of(json.dumps(plain), START)
    assert report_of(json.dumps({**plain, **nested}), START) is None


def test_random_answers_are_no_status() -> None:
    generator = random.Random(1)

    for size in (1, 100, MAX_BYTES):
        assert report_of(generator.randbytes(size), START) is None
    assert report_of(b"[" * MAX_BYTES, START) is None
    assert report_of(b'{"lag_records":' + b"9" * 100_000 + b"}", START) is None
