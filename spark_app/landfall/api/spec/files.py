"""The section ``spec.source.files``: files of other programs, which are landed row by row."""

import re
from datetime import timedelta
from functools import partial
from typing import Annotated, Literal

from pydantic import Field, model_validator

from landfall.api.pod_spec import Model
from landfall.api.spec.roots import URL_PATTERN
from landfall.api.spec.s3 import S3Access
from landfall.api.spec.shared import BootstrapServers, SecretRef, TopicName
from landfall.api.spec.stores import AzureAccess, GcsAccess, HdfsAccess, StoreReading, section_of
from landfall.api.values import Bytes, Duration, Name, Pattern, Setting, Settings, matching


class EventTopic(Model):
    """A topic of Kafka to which an S3 server sends its event notifications."""

    bootstrap_servers: BootstrapServers
    """Comma-separated broker addresses, such as ``kafka-0:9092,kafka-1:9092``."""
    topic: TopicName
    """The topic. It is read from its end on, and no offsets are committed."""
    properties: dict[str, Setting] = Field(default_factory=dict)
    """librdkafka properties without secrets, such as ``security.protocol``."""
    properties_secret_ref: SecretRef | None = None
    """Secret with librdkafka properties. Its key ``properties`` holds key=value lines; any other
    key is the name of a property, and its content the value.
    """


class EventQueue(Model):
    """A queue of SQS to which S3, SNS or EventBridge sends event notifications."""

    queue_url: Annotated[
        str, matching(r"https?://\S+", "a URL such as https://sqs.eu-west-1.amazonaws.com/1/files")
    ]
    """URL of the queue. It must be of this feed alone: messages are deleted once they are read."""
    region: str | None = None
    """AWS region of the queue."""
    endpoint: (
        Annotated[str, matching(r"https?://[^/\s]+/?", "a URL such as https://sqs.example.com")]
        | None
    ) = None
    """URL of an SQS-compatible server. AWS if not set."""
    credentials_secret_ref: SecretRef | None = None
    """Secret with the keys ``AWS_ACCESS_KEY_ID`` and ``AWS_SECRET_ACCESS_KEY``, and optionally
    ``AWS_SESSION_TOKEN``. boto3's default chain if not set.
    """


class FileEvents(Model):
    """Where notifications of new files come from: exactly one of ``kafka`` and ``sqs``."""

    kafka: EventTopic | None = None
    """A topic of Kafka to which an S3 server sends its event notifications."""
    sqs: EventQueue | None = None
    """A queue of SQS to which S3, SNS or EventBridge sends event notifications."""

    @model_validator(mode="after")
    def _one_kind(self) -> "FileEvents":
        if (self.kafka is None) == (self.sqs is None):
            raise ValueError("exactly one of kafka and sqs is needed")
        return self

    @property
    def secrets(self) -> tuple[str, ...]:
        """Names of the Secrets by which they are read."""
        refs = (
            self.kafka and self.kafka.properties_secret_ref,
            self.sqs and self.sqs.credentials_secret_ref,
        )
        return tuple(ref.name for ref in refs if ref)


MAX_FEEDS = 100
"""How many feeds a group has at most."""


class Dedupe(Model):
    """How files with the contents of other files are found, which are left out."""

    by: Literal["ETag"] = "ETag"
    """``ETag``: files of the same ETag and size have the same contents, under any names."""


class Feed(Model):
    """Files in a bucket or folder, which are landed as the topic partition ``<topic>/0``.

    With ``process: External`` they are processed by other programs instead.
    """

    topic: TopicName
    """Name of the topic that the rows of these files are landed as."""
    url: Annotated[
        str,
        matching(
            URL_PATTERN,
            "s3://BUCKET/PREFIX, gs://BUCKET/PREFIX, hdfs://HOST:PORT/FOLDER, file:///FOLDER "
            "or abfss://CONTAINER@ACCOUNT.dfs.core.windows.net/PREFIX",
        ),
    ]
    """Where the files are. Those in folders below belong to it, too."""
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
    process: Literal["Land", "External"] = "Land"
    """Who processes the files. Land lands their rows. External lands nothing: workers of yours take
    files by `landfall files take`, or over HTTP, and report their outcome. It cannot be changed
    later; give the files another topic instead.
    """
    include: Pattern | None = None
    """Regular expression for the names of files, without ``url``; it must match the whole name. All
    files if not set.
    """
    exclude: Pattern | None = None
    """Regular expression for names of files to leave out; it must match the whole name."""
    settle: Duration = timedelta(seconds=60)
    """A file is taken when it has not been written for so long."""
    reader: Name = "Lines"
    """How files are read: ``Lines``, ``JsonLines``, ``Csv``, ``Parquet``, ``Avro``,
    ``SequenceFile`` or ``Whole``. What it reads of a row is decoded by ``spec.decode``.
    """
    reader_options: dict[str, Settings] = Field(default_factory=dict)
    """Options of the reader."""
    part_bytes: Annotated[Bytes, Field(ge=2**20, le=2**40)] = 128 * 2**20
    """Larger files are read in parts of this size, if their format allows that."""
    ordered_names: bool = False
    """Files that are found together are landed in the order of their names, instead of the order in
    which they were written.
    """
    discovery_interval: Duration = timedelta(seconds=30)
    """How often the driver looks for new files after the last name that it knows."""
    relist: Duration = timedelta(minutes=10)
    """How often the driver looks at all names, and so finds files whose names sort before older
    files' names.
    """
    on_change: Literal["Stall", "Park", "Ignore", "LandAgain"] = "Stall"
    """What happens when a file that is landed is written again with other contents. Stall stops the
    feed until a user chooses; Park leaves that file alone until then, and lands all other files;
    Ignore leaves the new contents out; LandAgain lands all rows of the new file.
    """
    dedupe: Dedupe | None = None
    """Leaves out files that have the contents of another file of the feed, under another name. Such
    files are counted and named in the log. Files are distinguished by their names alone if not set.
    """
    events: FileEvents | None = None
    """Notifications of new files, which make the driver look at once. Nothing depends on them: what
    they do not report is found by ``discoveryInterval`` and ``relist``.
    """
    max_attempts: Annotated[int, Field(ge=1, le=100)] = 5
    """How often a file that cannot be read, or that a worker could not process, is tried. The files
    after it do not wait for it.
    """
    retry_interval: Duration = timedelta(minutes=5)
    """How long after an attempt a file that cannot be read is tried again."""

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
    def is_external(self) -> bool:
        """True if external workers process the files."""
        return self.process == "External"

    @model_validator(mode="after")
    def _events_and_etags_are_of_s3(self) -> "Feed":
        for field, value in (("dedupe", self.dedupe), ("events", self.events)):
            if value and not self.url.startswith("s3:"):
                raise ValueError(f"{field}: only files in S3 have them, not {self.url}")
        return self

    def counts(self, name: str) -> bool:
        """Return whether a file of this name is one of the feed."""
        # Names may have line breaks, which ``.`` matches here.
        fits = partial(re.fullmatch, string=name, flags=re.DOTALL)
        is_excluded = self.exclude is not None and fits(self.exclude)
        return not is_excluded and (self.include is None or bool(fits(self.include)))
