"""The section ``spec.source.files[].events``: who tells the driver that there are new files."""

from typing import Annotated

from pydantic import Field, model_validator

from landfall.api.pod_spec import Model
from landfall.api.spec.shared import BootstrapServers, SecretRef, TopicName
from landfall.api.values import Setting, matching


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
