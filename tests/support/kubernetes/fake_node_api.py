"""The requests that a kubelet sends to the API server."""

import asyncio
import json
import ssl
from collections.abc import AsyncIterator, Mapping
from contextlib import asynccontextmanager, suppress
from datetime import UTC, datetime
from http import HTTPStatus
from typing import Any, Self

import aiohttp

from tests.support.kubernetes.cluster import Cluster

Json = dict[str, Any]

_FORBIDDEN = {HTTPStatus.UNAUTHORIZED, HTTPStatus.FORBIDDEN}
_MERGE = {"Content-Type": "application/merge-patch+json"}


class NodeApi:
    """A client of the API server that retries every request until it is answered."""

    def __init__(self, session: aiohttp.ClientSession) -> None:
        self._session = session

    @classmethod
    @asynccontextmanager
    async def connected(cls, cluster: Cluster) -> AsyncIterator[Self]:
        """A client with the rights of the cluster's administrator."""
        configuration = cluster.admin.configuration
        trust = ssl.create_default_context(cafile=configuration.ssl_ca_cert)
        if configuration.cert_file:
            trust.load_cert_chain(configuration.cert_file, configuration.key_file)
        authorization = configuration.get_api_key_with_prefix("BearerToken")
        headers = {"Authorization": authorization} if authorization else {}
        connector = aiohttp.TCPConnector(ssl=trust, limit=16)
        async with aiohttp.ClientSession(
            configuration.host, headers=headers, connector=connector
        ) as session:
            yield cls(session)

    async def request(
        self, method: str, path: str, body: Json | None = None, **headers: str
    ) -> tuple[int, Json]:
        """Send a request until the API server answers it: it may be busy, or only starting."""
        while True:
            with suppress(aiohttp.ClientError, TimeoutError):
                async with self._session.request(
                    method, path, json=body, headers=headers or None
                ) as answer:
                    assert answer.status not in _FORBIDDEN, f"{method} {path}: {answer.status}"
                    if (
                        answer.status < HTTPStatus.INTERNAL_SERVER_ERROR
                        and answer.status != HTTPStatus.TOO_MANY_REQUESTS
                    ):
                        return answer.status, await answer.json(content_type=None)
            await asyncio.sleep(0.5)

    async def merge(self, path: str, body: Json) -> tuple[int, Json]:
        """Send a merge patch."""
        return await self.request("PATCH", path, body, **_MERGE)

    async def events(self, path: str, query: Mapping[str, str]) -> AsyncIterator[Json]:
        """The events of a watch, until the API server ends it."""
        timeout = aiohttp.ClientTimeout(total=None)
        async with self._session.get(path, params=query, timeout=timeout) as answer:
            if answer.status != HTTPStatus.OK:
                return  # it is busy, or the resourceVersion is too old
            rest = b""
            async for chunk in answer.content.iter_any():
                *lines, rest = (rest + chunk).split(b"\n")
                for line in lines:
                    event = json.loads(line)
                    if event["type"] == "ERROR":
                        return
                    yield event


def now() -> str:
    """The current time, as Kubernetes writes it."""
    return datetime.now(UTC).strftime("%Y-%m-%dT%H:%M:%SZ")


def pod_status(
    address: str,
    image: str,
    state: Json,
    restarts: int = 0,
    *,
    ready: bool = False,
    last: Json | None = None,
) -> Json:
    """The status of a driver's pod, as a kubelet writes it."""
    is_ready = "True" if ready else "False"
    conditions = {
        "PodScheduled": "True",
        "Initialized": "True",
        "ContainersReady": is_ready,
        "Ready": is_ready,
    }
    container = {
        "name": "driver",
        "image": image,
        "imageID": "",
        "ready": ready,
        "restartCount": restarts,
        "state": state,
        "lastState": last or {},
    }
    return {
        "status": {
            "phase": "Running" if address else "Pending",
            "conditions": [
                {"type": kind, "status": value, "lastTransitionTime": now()}
                for kind, value in conditions.items()
            ],
            "containerStatuses": [container],
            **({"podIP": address, "podIPs": [{"ip": address}]} if address else {}),
        }
    }
