"""The ``ConsumerGroup`` document as a whole: metadata and spec."""

from collections.abc import Mapping
from datetime import timedelta
from itertools import combinations
from typing import Annotated, Any, Literal

from pydantic import AfterValidator, BaseModel, ConfigDict, Field, model_validator

from landfall.api.pod_spec import DriverPod, ExecutorPod, Model
from landfall.api.route_pattern import TokenKind, tokens
from landfall.api.spec.compact import FORMATS_WITH_FIELDS, Compact
from landfall.api.spec.decode import Decode, TransformStep
from landfall.api.spec.output import Output, Route
from landfall.api.spec.policies import (
    KEPT_FOR_LISTINGS,
    MAX_EXECUTORS,
    Autoscaling,
    BadRecords,
    Completeness,
    Tuning,
    Upgrade,
    UploadPolicy,
)
from landfall.api.spec.publish import MAX_PUBLISHERS, PublisherEntry, distinct_publishers
from landfall.api.spec.roots import Ledger, Root, roots_above
from landfall.api.spec.schedule import Idle, Schedule
from landfall.api.spec.source import Source
from landfall.api.spec.topics import MAX_TOPICS, TopicOverride
from landfall.api.values import DnsName, GroupName, Name

RAW_FORMAT = "SequenceFile"
"""The output format of raw payloads unless the group names one: it can hold any payload."""


def _check_no_colon(path: str, pattern: str | None) -> None:
    texts = (token.text for token in tokens(pattern or "") if token.kind is TokenKind.TEXT)
    if any(":" in text for text in texts):
        raise ValueError(f"{path}: names in HDFS have no colon: {pattern!r}")


class GroupSpec(Model):
    """The topics that a consumer group lands, where, and how."""

    generation: Annotated[int, Field(ge=0, le=2**31 - 1)] = 1
    """Number that prefixes object names. Increase it for an incompatible change."""
    image: Name | None = None
    """Image of driver and executors. The image of the operator's own release if not set."""
    state: Literal["Running", "Suspended"] = "Running"
    """Suspended finishes the batches in flight, hands the lane over and stops. Running continues at
    the checkpoint.
    """
    replicas: Annotated[int, Field(ge=0, le=MAX_EXECUTORS)] = 1
    """Number of executors. ``kubectl scale``, HPA and KEDA write this field. Ignored if
    ``autoscaling`` is set.
    """
    source: Source
    """Which topics are landed, and from where on."""
    decode: Decode = Decode()
    """How record payloads are decoded, and which field holds the event time."""
    transforms: tuple[TransformStep, ...] = ()
    """Steps between decoding and routing, in order."""
    route: Route = Route()
    """Which output partition a record is written to."""
    output: Output
    """Where objects are written, and in which format."""
    ledger: Ledger | None = None
    """Where the ledger is, for objects in a store that cannot keep one. Under ``output.url`` if not
    set.
    """
    topics: Annotated[tuple[TopicOverride, ...], Field(max_length=MAX_TOPICS)] = ()
    """What holds for some topics instead, at most 100 entries. The first whose pattern matches
    applies; what it does not set comes from the group's own fields.
    """
    publish: Annotated[
        tuple[PublisherEntry, ...],
        Field(max_length=MAX_PUBLISHERS),
        AfterValidator(distinct_publishers),
    ] = ()
    """Publishers: where else what landed becomes visible, such as in tables, at most 16. Landing
    waits for none of them.
    """
    completeness: Completeness | None = None
    """When hours and days are complete, which publishers such as ``Success`` report. Not decided if
    not set.
    """
    compact: Compact | None = None
    """Merges the small objects of complete output partitions, and leaves out duplicates if that is
    asked for. Objects stay as they were landed if not set.
    """
    schedule: Schedule | None = None
    """Lands closed ranges at these times instead of all the time. Between them the group has no
    driver, and no executors.
    """
    idle: Idle | None = None
    """Stops the driver of a group whose topics are quiet, and starts one now and then to look. Not
    for a group with ``schedule``, whose driver is stopped in any case.
    """
    upload_policy: UploadPolicy = UploadPolicy()
    """When a topic partition is due to be landed: by size or by age, the first of both."""
    bad_records: BadRecords = BadRecords()
    """What happens to records that cannot be decoded, routed or encoded."""
    autoscaling: Autoscaling | None = None
    """Lets the operator choose the number of executors. ``replicas`` applies if not set."""
    upgrade: Upgrade = Upgrade()
    """How one generation hands over to the next."""
    driver: DriverPod = DriverPod()
    """The driver's pod. Its container is called ``driver``."""
    executor: ExecutorPod = ExecutorPod()
    """The executors' pods. Their container is called ``executor``."""
    tuning: Tuning = Tuning()
    """Settings whose defaults fit most groups."""

    @property
    def roots(self) -> tuple[Root, ...]:
        """The output root, the ledger's if it is another one, and places of dead letters."""
        ledger = (self.ledger,) if self.ledger else ()
        return (self.output, *ledger, *self.bad_records.places)

    @property
    def ledger_root(self) -> Root:
        """Where the ledger is."""
        return self.ledger or self.output

    @model_validator(mode="after")
    def _roots_are_apart(self) -> "GroupSpec":
        for root, other in combinations(reversed(self.roots), 2):
            one, two = root.url.rstrip("/"), other.url.rstrip("/")
            servers = {root.access.endpoint, other.access.endpoint}
            if "badRecords" in root.section and len(servers) > 1:
                continue  # buckets of two servers may have one name
            if one == two or one in roots_above(two) or two in roots_above(one):
                raise ValueError(
                    f"{root.section}.url: {root.url} and {other.section}.url {other.url} must not "
                    "be in each other"
                )
        return self

    @model_validator(mode="after")
    def _names_are_for_the_store(self) -> "GroupSpec":
        if self.output.access_field == "hdfs" and not self.output.store:
            _check_no_colon("route.pattern", self.route.pattern)
            _check_no_colon("route.topicPath", self.route.topic_path)
        return self

    @model_validator(mode="after")
    def _hdfs_has_one_user(self) -> "GroupSpec":
        # The client takes the user from the environment, so it holds for the whole process.
        users = {root.hdfs.user for root in self.roots if root.kind == "hdfs"}
        users |= {place.hdfs.user for place in self.source.places if place.access_field == "hdfs"}
        if len(users) > 1:
            names = ", ".join(sorted(user or "none" for user in users))
            raise ValueError(f"hdfs.user: must be the same in all sections of HDFS: {names}")
        return self

    @model_validator(mode="after")
    def _late_records_have_time(self) -> "GroupSpec":
        if self.completeness and not self.completeness.delay and not self.schedule:
            raise ValueError("completeness.delay: must be longer than zero without schedule")
        return self

    @property
    def compacts(self) -> bool:
        """True if objects of any topic are merged."""
        return bool(self.compact) or any(entry.compact for entry in self.topics)

    @property
    def keeps_replaced(self) -> timedelta:
        """How long replaced objects stay where they are once those in their place are visible."""
        if self.tuning.keep_replaced is not None:
            return self.tuning.keep_replaced
        return self.tuning.retain_replaced if self.has_readers_of_tables else KEPT_FOR_LISTINGS

    @property
    def has_readers_of_tables(self) -> bool:
        """True if no reader lists folders, in which replaced objects would count twice."""
        return self.compact is not None and self.compact.readers == "Tables"

    @model_validator(mode="after")
    def _hours_of_files_have_ranges(self) -> "GroupSpec":
        if self.completeness and self.source.files and not self.schedule:
            raise ValueError("completeness: needs schedule in a group that lands files")
        return self

    @model_validator(mode="after")
    def _merges_what_is_complete(self) -> "GroupSpec":
        if self.compact and not self.completeness:
            raise ValueError(
                "compact: completeness is not set, so no output partition is ever complete"
            )
        by = self.compact.needs_fields if self.compact else ""
        if by and self.output.format not in FORMATS_WITH_FIELDS:
            raise ValueError(
                f"compact.{by}: rows have fields in {', '.join(FORMATS_WITH_FIELDS)}, "
                f"not in output.format {self.output.format}"
            )
        return self

    @model_validator(mode="after")
    def _what_is_landed_has_no_ranges(self) -> "GroupSpec":
        landed = self.source.landed
        if landed and landed.url.rstrip("/") == self.output.url.rstrip("/"):
            raise ValueError(f"source.landed.url: {landed.url} is the group's own output.url")
        field = "schedule" if self.schedule else "completeness" if self.completeness else ""
        if landed and field:
            raise ValueError(
                f"{field}: the ledger of {landed.group} does not record when records were written "
                "to Kafka; leave it to that group"
            )
        return self

    @model_validator(mode="after")
    def _sleeps_for_one_reason(self) -> "GroupSpec":
        if self.idle and self.schedule:
            raise ValueError("idle: a group with schedule has a driver only for its runs")
        return self

    @model_validator(mode="after")
    def _takers_find_a_driver(self) -> "GroupSpec":
        field = "schedule" if self.schedule else "idle" if self.idle else ""
        external = [feed.topic for feed in self.source.files if feed.is_external]
        if field and external:
            raise ValueError(
                f"{field}: the files of {', '.join(external)} are taken from a driver that runs; "
                "give them a group of their own"
            )
        return self

    @model_validator(mode="before")
    @classmethod
    def _raw_payloads_go_to_sequence_files(cls, document: Any) -> Any:
        """The document with the output format that fits its decoder, if it names none."""
        match document:
            case {"output": Mapping() as output} if "format" not in output:
                decode = document.get("decode", {})
                is_raw = isinstance(decode, Mapping) and decode.get("format", "Raw") == "Raw"
                return {
                    **document,
                    "output": {**output, "format": RAW_FORMAT if is_raw else "Json"},
                }
        return document


class Metadata(BaseModel):
    """The part of the Kubernetes metadata that Landfall reads; other fields are ignored."""

    model_config = ConfigDict(frozen=True, extra="ignore")
    name: GroupName
    namespace: DnsName = "default"


class ConsumerGroup(Model):
    """A set of Kafka topics that is landed in an object store exactly once."""

    api_version: Literal["landfall.dev/v1alpha1"]
    kind: Literal["ConsumerGroup"]
    metadata: Metadata
    spec: GroupSpec
    # Accepted so that `kubectl get -o yaml` can be run as it is, and never written back.
    status: dict[str, object] | None = Field(default=None, exclude=True)

    @property
    def full_name(self) -> str:
        """Namespace and name, by which an output root names its owner."""
        return f"{self.metadata.namespace}/{self.metadata.name}"

    @property
    def kafka_group_id(self) -> str:
        """The Kafka group id under which checkpoints are mirrored."""
        return (
            self.spec.source.kafka and self.spec.source.kafka.group_id
        ) or f"{self.metadata.namespace}.{self.metadata.name}"
