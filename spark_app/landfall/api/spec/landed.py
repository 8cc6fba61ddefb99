"""Data of another group, to be landed once more: as the source, or for what Kafka lost."""

import re
from datetime import timedelta
from typing import Annotated, ClassVar, Literal

from pydantic import AfterValidator, model_validator

from landfall.api.pod_spec import Model
from landfall.api.spec.roots import URL_PATTERN, Root
from landfall.api.spec.s3 import S3Access
from landfall.api.spec.shared import TopicName, distinct
from landfall.api.spec.stores import AzureAccess, GcsAccess, HdfsAccess, StoreReading, section_of
from landfall.api.values import Duration, GroupName, Pattern, matching


class LandedPlace(Model):
    """Where another group has landed topics, with offsets and payloads. It is only read."""

    field: ClassVar[str]
    """The path of the section, for messages."""

    group: GroupName
    """Name of the group that has landed it. Its objects hold offsets and payloads: SequenceFile, or
    Parquet without typed columns, and no transforms.
    """
    url: Annotated[
        str,
        matching(
            URL_PATTERN,
            "s3://BUCKET/PREFIX, gs://BUCKET/PREFIX, hdfs://HOST:PORT/FOLDER, file:///FOLDER "
            "or abfss://CONTAINER@ACCOUNT.dfs.core.windows.net/PREFIX",
        ),
    ]
    """Output root of that group. It is only read."""
    s3: S3Access = S3Access()
    """How to access an S3 bucket. Without credentials here, boto3's default chain is used."""
    azure: AzureAccess = AzureAccess()
    """How to access Azure Blob Storage. Without credentials here, the default chain of Azure's
    library is used, such as workload identity.
    """
    gcs: GcsAccess = GcsAccess()
    """How to access Google Cloud Storage. Without credentials here, the application default
    credentials are used, such as workload identity.
    """
    hdfs: HdfsAccess = HdfsAccess()
    """How to access HDFS."""

    @property
    def access(self) -> StoreReading:
        """The section of the store that ``url`` names; ``s3`` for one without a section."""
        access: StoreReading = getattr(self, self.access_field)
        return access

    @property
    def access_field(self) -> str:
        """The name of that section."""
        return section_of(self.url)

    @property
    def root(self) -> Root:
        """The output root, as a store is opened by it."""
        access = {self.access_field: self.access.model_dump(mode="json", by_alias=True)}
        return Root.model_validate({"url": self.url, **access})


class LandedSource(LandedPlace):
    """Another group's landed data as a log: with its topic partitions, offsets and topic ids."""

    field = "spec.source.landed"

    topics: Annotated[tuple[TopicName, ...], AfterValidator(distinct)] = ()
    """Names of the topics to land. Exactly one of ``topics`` and ``topicPattern`` is required."""
    topic_pattern: Pattern | None = None
    """Regular expression for the topics to land; it must match the whole name."""
    exclude: Pattern | None = None
    """Regular expression for topics to leave out; it must match the whole name."""
    discovery_interval: Duration = timedelta(seconds=30)
    """How often the driver looks for new topics of that group."""

    @model_validator(mode="after")
    def _one_way_to_name_topics(self) -> "LandedSource":
        if bool(self.topics) == bool(self.topic_pattern):
            raise ValueError("exactly one of topics and topicPattern is needed")
        return self

    def selects(self, topic: str) -> bool:
        """Return whether the topic of this name is landed, if that group has it."""
        if self.exclude is not None and re.fullmatch(self.exclude, topic):
            return False
        return topic in self.topics or bool(
            self.topic_pattern and re.fullmatch(self.topic_pattern, topic)
        )


class ReadFrom(LandedPlace):
    """The group whose objects hold what Kafka has lost."""

    field = "spec.source.kafka.onDataLoss.readFrom"


class ReadLostRanges(Model):
    """Read what expired in Kafka from what another group has landed."""

    read_from: ReadFrom
    """The group that has landed the same topics, where offsets that expired in Kafka are read."""
    otherwise: Literal["Stall", "SkipAndRecord"] = "Stall"
    """What to do with offsets that this group does not have, either."""
