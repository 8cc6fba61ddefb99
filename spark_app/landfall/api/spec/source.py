"""The section ``spec.source``: which topics to land, from Kafka or elsewhere, and from where on."""

import re
from collections.abc import Mapping
from datetime import timedelta
from typing import Annotated, Literal

from pydantic import AfterValidator, Discriminator, Field, Tag, model_validator

from landfall.api.pod_spec import Model
from landfall.api.spec.files import MAX_FEEDS, Feed
from landfall.api.spec.landed import LandedPlace, LandedSource, ReadFrom, ReadLostRanges
from landfall.api.spec.shared import (
    LEDGER_FOLDER,
    BootstrapServers,
    SecretRef,
    TopicName,
    distinct,
)
from landfall.api.spec_errors import VARIANT
from landfall.api.values import Duration, Instant, Pattern, Setting, matching
from landfall.errors import Reason, Stalled

PartitionNumber = Annotated[
    str, matching(r"0|[1-9][0-9]{0,8}", "a Kafka partition number in quotes")
]


class StartAtOffsets(Model):
    """Start at explicit offsets. Topic partitions that are not listed start at Earliest."""

    offsets: dict[TopicName, dict[PartitionNumber, Annotated[int, Field(ge=0)]]]
    """Starting offsets by topic, then by Kafka partition number in quotes."""


class StartAtTime(Model):
    """Start at the first record whose Kafka timestamp is at or after this time."""

    timestamp: Instant
    """Time in ISO 8601, such as ``2026-11-21T00:00:00Z``. UTC if it names no time zone."""


def _variant(value: object) -> str | None:
    """Tag of the variant that ``value`` has the shape of; None for any other shape."""
    if isinstance(value, StartAtTime) or (isinstance(value, Mapping) and "timestamp" in value):
        return f"{VARIANT}time"
    if isinstance(value, StartAtOffsets) or (isinstance(value, Mapping) and "offsets" in value):
        return f"{VARIANT}offsets"
    return f"{VARIANT}name" if value in ("Earliest", "Latest") else None


# The variant is chosen by shape before it is validated. A plain union would validate all three and
# report the errors of each, while two have nothing to do with what the user meant.
StartingOffsets = Annotated[
    Annotated[Literal["Earliest", "Latest"], Tag(f"{VARIANT}name")]
    | Annotated[StartAtTime, Tag(f"{VARIANT}time")]
    | Annotated[StartAtOffsets, Tag(f"{VARIANT}offsets")],
    Discriminator(
        _variant,
        custom_error_type="starting_offsets",
        custom_error_message=(
            "should be Earliest, Latest, {timestamp: TIME} "
            "or {offsets: {TOPIC: {'PARTITION': OFFSET}}}"
        ),
    ),
]


def _on_data_loss(value: object) -> str | None:
    """As ``_variant``."""
    if isinstance(value, ReadLostRanges | Mapping):
        return f"{VARIANT}readFrom"
    return f"{VARIANT}name" if value in ("Stall", "SkipAndRecord") else None


OnDataLoss = Annotated[
    Annotated[Literal["Stall", "SkipAndRecord"], Tag(f"{VARIANT}name")]
    | Annotated[ReadLostRanges, Tag(f"{VARIANT}readFrom")],
    Discriminator(
        _on_data_loss,
        custom_error_type="on_data_loss",
        custom_error_message=(
            "should be Stall, SkipAndRecord or {readFrom: {group: GROUP, url: URL}}"
        ),
    ),
]


class Kafka(Model):
    """The Kafka cluster, the topics to land, and where to start."""

    bootstrap_servers: BootstrapServers
    """Comma-separated broker addresses, such as ``kafka-0:9092,kafka-1:9092``."""
    topics: Annotated[tuple[TopicName, ...], AfterValidator(distinct)] = ()
    """Names of the topics to land. Exactly one of ``topics`` and ``topicPattern`` is required."""
    topic_pattern: Pattern | None = None
    """Regular expression for the topics to land; it must match the whole name. New topics that
    match are found within ``discoveryInterval``. It selects no topic whose name begins with
    ``__``; ``topics`` may name these. A topic ``_landfall`` is never landed.
    """
    exclude: Pattern | None = None
    """Regular expression for topics to leave out; it must match the whole name."""
    starting_offsets: StartingOffsets = "Earliest"
    """Where to start topic partitions that the ledger does not contain yet: ``Earliest``,
    ``Latest``, ``{timestamp: TIME}`` or ``{offsets: {TOPIC: {'PARTITION': OFFSET}}}``. Topic
    partitions in the ledger continue at their checkpoint. ``Latest`` is the end when the topic
    partition is found, but the start for one that was created since the driver last looked. If an
    earlier driver has looked, it is the offset of that time by the timestamps of the records, less
    five minutes for clocks that differ.
    """
    on_data_loss: OnDataLoss = "Stall"
    """What to do when offsets expired in Kafka before they were landed. Stall stops the topic
    partition until someone intervenes; SkipAndRecord skips the range and records it in the ledger
    as a HOLE; ``{readFrom: {group: GROUP, url: URL}}`` reads it from what another group has landed.
    """
    group_id: str | None = None
    """Kafka group id under which checkpoints are committed to Kafka, for lag monitoring only.
    ``<namespace>.<name>`` if not set.
    """
    properties: dict[str, Setting] = Field(default_factory=dict)
    """librdkafka properties without secrets, such as ``security.protocol``."""
    properties_secret_ref: SecretRef | None = None
    """Secret with librdkafka properties. Its key ``properties`` holds key=value lines; any other
    key is the name of a property, and its content the value.
    """
    discovery_interval: Duration = timedelta(seconds=30)
    """How often the driver looks for new topics and Kafka partitions."""

    @model_validator(mode="after")
    def _one_way_to_name_topics(self) -> "Kafka":
        if bool(self.topics) == bool(self.topic_pattern):
            raise ValueError("exactly one of topics and topicPattern is needed")
        return self

    @model_validator(mode="after")
    def _starts_where_it_lands(self) -> "Kafka":
        if self.topics and isinstance(self.starting_offsets, StartAtOffsets):
            not_landed = sorted(self.starting_offsets.offsets.keys() - set(self.topics))
            if not_landed:
                raise ValueError(
                    f"startingOffsets names topics that are not landed: {', '.join(not_landed)}"
                )
        return self

    def selects(self, topic: str) -> bool:
        """Return whether the topic of this name is landed, if there is one.

        Patterns must match the whole name. Topics that begin with ``__`` are for the use of
        programs, such as Kafka's own, and no pattern selects them; a list may name them. None
        selects a topic whose folder would be the ledger's.
        """
        if self.exclude is not None and re.fullmatch(self.exclude, topic):
            return False
        return topic in self.topics or bool(
            self.topic_pattern
            and not topic.startswith("__")
            and topic != LEDGER_FOLDER
            and re.fullmatch(self.topic_pattern, topic)
        )


class Source(Model):
    """Where records are read from: exactly one of ``kafka``, ``files`` and ``landed`` is needed."""

    kafka: Kafka | None = None
    """The Kafka cluster, the topics to land, and where to start."""
    files: Annotated[tuple[Feed, ...], Field(max_length=MAX_FEEDS)] = ()
    """Files of other programs, at most 100 feeds. Each is landed as a topic of its own."""
    landed: LandedSource | None = None
    """What another group has landed, with its topic partitions and offsets."""

    @model_validator(mode="after")
    def _one_kind(self) -> "Source":
        if [bool(self.kafka), bool(self.files), bool(self.landed)].count(True) != 1:
            raise ValueError("exactly one of kafka, files and landed is needed")
        distinct(tuple(feed.topic for feed in self.files))
        return self

    def require_kafka(self) -> Kafka:
        """The section ``kafka``.

        Raises:
            Stalled: SPEC_INVALID, the group lands something else.
        """
        if self.kafka is None:
            what = "files" if self.files else "what another group has landed"
            raise Stalled(
                Reason.SPEC_INVALID, f"spec.source: the group lands {what}, not topics of Kafka"
            )
        return self.kafka

    @property
    def places(self) -> tuple[Feed | LandedPlace, ...]:
        """The sources that are read from stores."""
        landed = self.landed or self.read_from
        return (*self.files, landed) if landed else self.files

    @property
    def topics(self) -> tuple[str, ...]:
        """The topics that are named; none if they are found by a pattern."""
        named = self.kafka or self.landed
        return named.topics if named else tuple(feed.topic for feed in self.files)

    @property
    def topic_pattern(self) -> str | None:
        """The pattern by which topics are found."""
        named = self.kafka or self.landed
        return named.topic_pattern if named else None

    @property
    def starting_offsets(self) -> StartingOffsets:
        """Where topic partitions start; other sources start with what comes first."""
        return self.kafka.starting_offsets if self.kafka else "Earliest"

    @property
    def skips_lost_ranges(self) -> bool:
        """True if offsets that no source has, because they expired before, are skipped."""
        match self.kafka:
            case Kafka(on_data_loss=ReadLostRanges(otherwise=otherwise)):
                return otherwise == "SkipAndRecord"
            case Kafka(on_data_loss=on_data_loss):
                return on_data_loss == "SkipAndRecord"
        return False

    @property
    def read_from(self) -> ReadFrom | None:
        """The group whose objects hold what Kafka has lost, if there is one."""
        on_data_loss = self.kafka.on_data_loss if self.kafka else None
        return on_data_loss.read_from if isinstance(on_data_loss, ReadLostRanges) else None

    @property
    def discovery_interval(self) -> timedelta:
        """How often to look for new topics, or for new files of the feed that is looked at most."""
        named = self.kafka or self.landed
        if named:
            return named.discovery_interval
        return min(feed.discovery_interval for feed in self.files)

    def selects(self, topic: str) -> bool:
        """Return whether the topic of this name is landed, if there is one."""
        named = self.kafka or self.landed
        return named.selects(topic) if named else topic in self.topics
