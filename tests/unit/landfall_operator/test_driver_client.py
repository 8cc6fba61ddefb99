"""What the operator asks of a driver's HTTP server."""

import asyncio
from dataclasses import replace
from datetime import UTC, datetime

import aiohttp
import pytest

from landfall.api.contract import PartitionStatus
from landfall.driver.core.counters import DriverCounters
from landfall.driver.http.server import StatusBoard, serve
from landfall.driver.http.status import StatusReport
from landfall_operator.core.parsing import report_of
from landfall_operator.runtime import driver_client
from landfall_operator.runtime.driver_client import HttpDriverClient
from landfall_operator.runtime.metrics import Metrics, OperatorSnapshot
from tests.support.driver.signing import control_port
from tests.support.operator.reconciled import status_of

NOW = datetime(2026, 11, 21, tzinfo=UTC)
LOCAL = "127.0.0.1"


async def answer() -> bytes | None:
    metrics = Metrics(lambda: OperatorSnapshot(is_leader=True, groups=0, oldest_pass=0))
    async with aiohttp.ClientSession() as session:
        return await HttpDriverClient(session, control_port(session), metrics).status(LOCAL)


def test_a_driver_of_many_topic_partitions_answers_with_a_few_of_them(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    many = tuple(PartitionStatus("clicks", n, 0, n, n, float(n), 0.0) for n in range(10_000))
    board = StatusBoard(lambda: NOW)
    status = replace(status_of("g1-a", NOW), partitions=many)
    board.post(StatusReport(status), DriverCounters(NOW))
    server = serve(board, LOCAL, 0)
    monkeypatch.setattr(driver_client, "HTTP_PORT", server.server_port)
    try:
        body = asyncio.run(answer())
    finally:
        server.shutdown()
        server.server_close()

    assert body
    assert len(body) < 10_000
    report = report_of(body, NOW)
    assert report
    assert report.status.totals
    assert report.status.totals.count == 10_000
