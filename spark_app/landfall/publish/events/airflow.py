"""Airflow: events of assets, so that a DAG starts when an hour is complete.

Airflow does not deduplicate events by id. So if the outcome of the last request is unknown, the
latest events of the asset are searched for the id, which is in their ``extra``: a single publisher
sends each event once.

Source: Apache Airflow 3, "Airflow public API reference", ``GET /api/v2/assets``, ``GET`` and ``POST
/api/v2/assets/events``, ``POST /auth/token``; ``partition_key`` exists since Airflow 3.2.
"""

import re
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from datetime import datetime
from typing import Any
from urllib.parse import urlencode

import msgspec

from landfall import untrusted_json
from landfall.errors import DestinationAway, DestinationDenied
from landfall.pipeline.calendar import Unit
from landfall.pipeline.decoders.options import read_options
from landfall.publish import Publisher
from landfall.publish.context import Context
from landfall.publish.events import (
    Event,
    EventKind,
    Events,
    LandedEvent,
    PeriodFinished,
    ReplacedEvent,
)
from landfall.publish.events.sending import EventPublisher, event_kinds, starts_now
from landfall.publish.events.web import (
    WebRequest,
    WebResponse,
    WebServer,
    timeout_option,
    url_option,
)

PAGE = 100
"""How many assets are requested at a time, and how many of the latest events are searched."""
MAX_ASSETS = 10_000
"""More assets whose URI or name contains the one that is searched are not looked at."""
_MAX_KEY = 250
_UNITS = tuple(unit.value.capitalize() for unit in Unit)


class Options(msgspec.Struct, frozen=True, forbid_unknown_fields=True, rename="camel"):
    """The options of the type ``Airflow``."""

    url: str
    asset: str = "{url}/{topic}"
    partition_key: str = "%Y-%m-%dT%H:%M:%S"
    events: tuple[str, ...] = ()
    start: str = "Beginning"
    unit: str = ""
    timeout: str = "30s"


class _Asset(msgspec.Struct):
    id: int
    name: str
    uri: str


class _Assets(msgspec.Struct):
    assets: list[_Asset]
    total_entries: int


class _AssetEvent(msgspec.Struct):
    extra: dict[str, Any] | None = None


class _AssetEvents(msgspec.Struct):
    asset_events: list[_AssetEvent]


class _Token(msgspec.Struct):
    access_token: str


@dataclass
class Airflow:
    """Sends events to Airflow; see ``Sender``.

    Attributes:
        server: of Airflow's API.
        context: of the publisher, whose secret has ``username`` and ``password``, or ``token``.
        asset: the URI or the name of a topic's asset, with ``{url}`` and ``{topic}``.
        partition_key: strftime format for the start of a period; "" for no key.
    """

    server: WebServer
    context: Context
    asset: str
    partition_key: str
    _token: str = field(default="", init=False)
    _ids: dict[str, int] = field(default_factory=dict, init=False)
    _is_sure: bool = field(default=False, init=False)

    def send(self, events: Sequence[Event]) -> None:
        """See ``Sender``."""
        for event in events:
            asset = self._asset_id(self.asset_of(event.data.topic))
            # Events are sent in order: after the first missing one, all are missing.
            if self._is_sure or not self._has(asset, event):
                self._is_sure = False
                self._post(asset, event)
                self._is_sure = True

    def asset_of(self, topic: str) -> str:
        """The URI or the name of a topic's asset."""
        url = self.context.group.spec.output.url.rstrip("/")
        return self.asset.replace("{url}", url).replace("{topic}", topic)

    def _post(self, asset: int, event: Event) -> None:
        body = {"asset_id": asset, "extra": extra(event)}
        if key := self.key_of(event):
            body["partition_key"] = key
        request = WebRequest("POST", "/api/v2/assets/events", body=msgspec.json.encode(body))
        answer = self._ask(request)
        if answer.status == 404:
            self._ids.clear()
            raise DestinationAway(self.server.says(answer))
        self._check(answer)

    def key_of(self, event: Event) -> str:
        """The partition key of an event; "" for none."""
        data = event.data
        if not isinstance(data, PeriodFinished):
            return ""
        return datetime.fromisoformat(data.start).strftime(self.partition_key)[:_MAX_KEY]

    def _has(self, asset: int, event: Event) -> bool:
        """Return whether the event is one of the asset's latest."""
        query = urlencode({"asset_id": asset, "order_by": "-timestamp", "limit": PAGE})
        answer = self._checked(WebRequest("GET", f"/api/v2/assets/events?{query}"))
        found = self._decoded(answer, _AssetEvents).asset_events
        names = {"source": event.source, "id": event.id}
        return any(names.items() <= (known_event.extra or {}).items() for known_event in found)

    def _asset_id(self, asset: str) -> int:
        if asset not in self._ids:
            found = next(self._matching(asset), None)
            if found is None:
                raise DestinationAway(
                    f"{self.server.name}: no DAG knows an asset with the URI or the name {asset}: "
                    f'schedule one by Asset("{asset}")'
                )
            self._ids[asset] = found
        return self._ids[asset]

    def _matching(self, asset: str) -> Iterator[int]:
        for what in ("uri", "name"):
            offset, total = 0, 1
            while offset < total:
                if offset > MAX_ASSETS:
                    raise DestinationAway(
                        f"{self.server.name}: its list of assets with {asset} has no end"
                    )
                query = urlencode({f"{what}_pattern": asset, "limit": PAGE, "offset": offset})
                answer = self._checked(WebRequest("GET", f"/api/v2/assets?{query}"))
                page = self._decoded(answer, _Assets)
                yield from (entry.id for entry in page.assets if getattr(entry, what) == asset)
                # More pages may follow one that is shorter than asked for.
                offset, total = offset + len(page.assets), page.total_entries
                if not page.assets:
                    break

    def _checked(self, request: WebRequest) -> WebResponse:
        return self._check(self._ask(request))

    def _check(self, answer: WebResponse) -> WebResponse:
        if not 200 <= answer.status < 300:
            raise self.server.refusal(answer)
        return answer

    def _ask(self, request: WebRequest) -> WebResponse:
        """The answer, after a login; and after another one, if the token is no longer valid."""
        was_kept = bool(self._token)
        answer = self.server.ask(self._with_login(request))
        if answer.status == 401 and was_kept:
            self._token = ""
            answer = self.server.ask(self._with_login(request))
        return answer

    def _with_login(self, request: WebRequest) -> WebRequest:
        headers = {"Accept": "application/json", "Content-Type": "application/json"}
        token = self._login()
        login = {"Authorization": f"Bearer {token}"} if token else {}
        return WebRequest(request.method, request.path, {**headers, **login}, request.body)

    def _login(self) -> str:
        secret = self.context.secret()
        if "token" in secret:
            return secret["token"]
        if "username" in secret and not self._token:
            body = {"username": secret["username"], "password": secret.get("password", "")}
            headers = {"Content-Type": "application/json"}
            request = WebRequest("POST", "/auth/token", headers, msgspec.json.encode(body))
            answer = self.server.ask(request)
            if answer.status not in {200, 201}:
                status = answer.status
                raise DestinationDenied(f"{self.server.name}: login answered with status {status}")
            self._token = self._decoded(answer, _Token).access_token
        return self._token

    def _decoded(self, answer: WebResponse, into: type[Any]) -> Any:
        try:
            return untrusted_json.decode(answer.body, type=into)
        except (msgspec.DecodeError, UnicodeDecodeError) as error:
            what = into.__name__.strip("_")
            raise DestinationAway(f"{self.server.name}: answered with no {what}: {error}") from None

    @staticmethod
    def of(options: Mapping[str, object], context: Context) -> Publisher:
        """See ``PublisherType``."""
        read = read_options(options, Options)
        seconds = timeout_option("timeout", read.timeout)
        server = WebServer("Airflow", context, url_option("url", read.url), seconds)
        if not set(re.findall(r"\{[^}]*\}?", read.asset)) <= {"{url}", "{topic}"}:
            raise ValueError(f"option asset: has {{url}} and {{topic}}, got {read.asset!r}")
        if read.unit and read.unit not in _UNITS:
            raise ValueError(f"option unit: must be of {', '.join(_UNITS)}, got {read.unit!r}")
        units = frozenset({Unit(read.unit.lower())}) if read.unit else None
        kinds = event_kinds(read.events, (EventKind.FINISHED,))
        events = Events(context, kinds, units, is_shortest=units is None)
        sender = Airflow(server, context, read.asset, read.partition_key)
        now = starts_now(read.start)
        return EventPublisher(
            events, context.cursor(f"airflow {server.url}"), sender, starts_now=now
        )


def extra(event: Event) -> dict[str, Any]:
    """Return an asset event's fields besides the partition key, without the objects."""
    data = msgspec.to_builtins(event.data)
    if isinstance(event.data, LandedEvent | ReplacedEvent):
        data["objects"] = len(event.data.objects)
    if isinstance(event.data, ReplacedEvent):
        data["retired"] = len(event.data.retired)
    return {**event.attributes, **data}
