"""OpenLineage: what landed as runs of a job, each sent at least once and in order.

Each event is a run, with a START and a COMPLETE. Its id is made of the event's, so that a server
that gets one again recognizes the same run. A run of what landed reads a topic of Kafka and writes
the topic's folder; a run of a period that is complete has the period as its nominal time.

Source: OpenLineage, "Spec", object model and facets, as the classes of its Python client have them;
"Naming Conventions" for data sets of Kafka, S3, GCS and files.
"""

import re
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any
from urllib.parse import urlsplit
from uuid import NAMESPACE_URL, uuid5

import msgspec

from landfall.api.spec import TopicSpecs
from landfall.pipeline.decoders.options import read_options
from landfall.publish import Publisher
from landfall.publish.context import Context
from landfall.publish.events import Event, EventKind, Events, LandedEvent, PeriodFinished
from landfall.publish.events.sending import EventPublisher, event_kinds, starts_now
from landfall.publish.events.web import WebRequest, WebServer, timeout_option, url_option

PRODUCER = "https://landfall.dev"
"""The producer named in each event and facet."""
_KINDS = (EventKind.LANDED, EventKind.FINISHED)
_FIRST_SERVER = re.compile(r"([A-Za-z_]+://)?([^,\s]+)")


class Options(msgspec.Struct, frozen=True, forbid_unknown_fields=True, rename="camel"):
    """The options of the type ``OpenLineage``."""

    url: str
    endpoint: str = "api/v1/lineage"
    namespace: str = ""
    events: tuple[str, ...] = ()
    start: str = "Beginning"
    timeout: str = "30s"


@dataclass(frozen=True)
class OpenLineage:
    """Sends events to a server of OpenLineage; see ``Sender``.

    Attributes:
        server: of OpenLineage.
        context: of the publisher, whose secret may hold ``token``.
        endpoint: the path of the server that takes events.
        namespace: of the jobs.
    """

    server: WebServer
    context: Context
    endpoint: str
    namespace: str

    def send(self, events: Sequence[Event]) -> None:
        """See ``Sender``."""
        secret = self.context.secret()
        login = {"Authorization": f"Bearer {secret['token']}"} if "token" in secret else {}
        headers = {"Content-Type": "application/json", **login}
        for event in events:
            for body in self.run_events(event):
                self.server.send(WebRequest("POST", f"/{self.endpoint}", headers, body))

    def run_events(self, event: Event) -> tuple[bytes, bytes]:
        """The START and the COMPLETE of an event's run, in JSON."""
        from openlineage.client.event_v2 import Job, Run, RunEvent, RunState  # noqa: PLC0415
        from openlineage.client.generated import job_type_job  # noqa: PLC0415
        from openlineage.client.serde import Serde  # noqa: PLC0415

        kind = job_type_job.JobTypeJobFacet("BATCH", "LANDFALL", "LOAD", producer=PRODUCER)
        run = Run(str(uuid5(NAMESPACE_URL, f"{event.source}/{event.id}")), self._run_facets(event))
        job = Job(self.namespace, self._job_name(event), {"jobType": kind})
        inputs, outputs = [self._input(event)], [self._output(event)]

        def at(state: Any) -> bytes:
            sent = RunEvent(
                eventTime=_time(event),
                producer=PRODUCER,
                run=run,
                job=job,
                eventType=state,
                inputs=inputs,
                outputs=outputs,
            )
            return Serde.to_json(sent).encode()

        return at(RunState.START), at(RunState.COMPLETE)

    def _job_name(self, event: Event) -> str:
        data = event.data
        unit = f".{data.unit}" if isinstance(data, PeriodFinished) else ""
        return f"{data.group}.{data.topic}{unit}"

    def _run_facets(self, event: Event) -> dict[str, Any]:
        from openlineage.client.generated import nominal_time_run  # noqa: PLC0415

        data = event.data
        if not isinstance(data, PeriodFinished):
            return {}
        start, end = data.start_time, data.end
        facet = nominal_time_run.NominalTimeRunFacet(start, end, producer=PRODUCER)
        return {"nominalTime": facet}

    def _input(self, event: Event) -> Any:
        from openlineage.client.event_v2 import InputDataset  # noqa: PLC0415

        source = self.context.group.spec.source
        for feed in source.files:
            if feed.topic == event.data.topic:
                return InputDataset(*data_set(feed.url))
        if source.landed:
            return InputDataset(*data_set(f"{source.landed.url.rstrip('/')}/{event.data.topic}"))
        servers = source.require_kafka().bootstrap_servers
        found = _FIRST_SERVER.match(servers)
        return InputDataset(f"kafka://{found[2] if found else servers}", event.data.topic)

    def _output(self, event: Event) -> Any:
        from openlineage.client.event_v2 import OutputDataset  # noqa: PLC0415
        from openlineage.client.generated import (  # noqa: PLC0415
            output_statistics_output_dataset,
            schema_dataset,
        )

        data = event.data
        statistics: dict[str, Any] = {}
        url = self.context.url(data.topic)
        if isinstance(data, LandedEvent):
            facet = output_statistics_output_dataset.OutputStatisticsOutputDatasetFacet(
                data.rows, data.bytes, len(data.objects), producer=PRODUCER
            )
            statistics = {"outputStatistics": facet}
            url = data.objects[0].url.rpartition(f"/{data.objects[0].output_partition}/")[0]
        columns = self._columns(data.topic)
        described: dict[str, Any] = {
            "schema": schema_dataset.SchemaDatasetFacet(columns, producer=PRODUCER)
        }
        namespace, name = data_set(url)
        return OutputDataset(
            namespace, name, facets=described if columns else {}, outputFacets=statistics
        )

    def _columns(self, topic: str) -> list[Any]:
        from openlineage.client.generated import schema_dataset  # noqa: PLC0415

        decode = TopicSpecs.of(self.context.group.spec).for_topic(topic).decode
        of_key = decode.key.columns if decode.key else ()
        columns = (*decode.columns, *of_key, *decode.header_columns)
        return [
            schema_dataset.SchemaDatasetFacetFields(column.name, column.type.value, fields=None)
            for column in columns
        ]

    @staticmethod
    def of(options: Mapping[str, object], context: Context) -> Publisher:
        """See ``PublisherType``."""
        read = read_options(options, Options)
        seconds = timeout_option("timeout", read.timeout)
        server = WebServer("OpenLineage", context, url_option("url", read.url), seconds)
        endpoint = read.endpoint.strip("/")
        namespace = read.namespace or context.group.metadata.namespace
        events = Events(context, event_kinds(read.events, _KINDS, _KINDS))
        sender = OpenLineage(server, context, endpoint, namespace)
        now = starts_now(read.start)
        return EventPublisher(
            events, context.cursor(f"openlineage {server.url}"), sender, starts_now=now
        )


def _time(event: Event) -> str:
    """The time of an event's run, which must have one, unlike an event before the first COMMIT."""
    data = event.data
    return event.time or (data.end if isinstance(data, PeriodFinished) else "")


def data_set(url: str) -> tuple[str, str]:
    """The namespace and the name of a folder as a data set."""
    parts = urlsplit(url)
    if parts.scheme == "file":
        return "file", parts.path or "/"
    return f"{parts.scheme}://{parts.netloc}", parts.path.strip("/") or "/"
