"""The ``ConsumerGroup`` resource as a validated model, one module per section.

Both halves of Landfall read this model and nothing else: the operator generates the CRD from it,
the driver runs by it, and ``landfall run group.yaml`` takes the same file. Field names are
camelCase in YAML. An unknown field or a value out of range is rejected with the path of the field.
Secrets appear by reference only.

Sizes are written as Kubernetes quantities (``256Mi``, ``1G``) and durations as ``90s``, ``5m`` or
``1h30m``. The docstrings of the fields are what ``kubectl explain`` prints and what
``docs/reference/fields.md`` is made of.
"""

from landfall.api.spec.compact import Compact, Keep, RowDedupe
from landfall.api.spec.decode import (
    Column,
    ColumnType,
    ColumnUnit,
    DecimalEncoding,
    Decode,
    Item,
    MissingTimestamp,
    Timestamp,
    TimeUnit,
    TransformStep,
    ValueType,
    with_event_time,
)
from landfall.api.spec.effective import TopicSpecs, with_decode_option
from landfall.api.spec.files import Dedupe, EventQueue, EventTopic, Feed, FileEvents
from landfall.api.spec.group import ConsumerGroup, GroupSpec, Metadata
from landfall.api.spec.landed import LandedPlace, LandedSource, ReadFrom, ReadLostRanges
from landfall.api.spec.output import Codec, ColumnSource, Output, Rotate, Route
from landfall.api.spec.parsing import parse_group
from landfall.api.spec.policies import (
    MAX_EXECUTORS,
    Autoscaling,
    BadRecords,
    Override,
    Rollback,
    Tuning,
    Upgrade,
    UploadPolicy,
)
from landfall.api.spec.roots import Access, Ledger, Root
from landfall.api.spec.s3 import S3, AssumeRole, LockMode, ObjectLock, S3Access, Sse
from landfall.api.spec.schedule import Idle, Schedule, ScheduledRange
from landfall.api.spec.shared import SecretRef
from landfall.api.spec.source import Kafka, Source, StartAtOffsets, StartAtTime, StartingOffsets
from landfall.api.spec.stores import (
    Azure,
    AzureAccess,
    Gcs,
    GcsAccess,
    Hdfs,
    HdfsAccess,
    StoreAccess,
    StoreReading,
)
from landfall.api.spec.topics import TopicOverride

__all__ = [
    "MAX_EXECUTORS",
    "S3",
    "Access",
    "AssumeRole",
    "Autoscaling",
    "Azure",
    "AzureAccess",
    "BadRecords",
    "Codec",
    "Column",
    "ColumnSource",
    "ColumnType",
    "ColumnUnit",
    "Compact",
    "ConsumerGroup",
    "DecimalEncoding",
    "Decode",
    "Dedupe",
    "EventQueue",
    "EventTopic",
    "Feed",
    "FileEvents",
    "Gcs",
    "GcsAccess",
    "GroupSpec",
    "Hdfs",
    "HdfsAccess",
    "Idle",
    "Item",
    "Kafka",
    "Keep",
    "LandedPlace",
    "LandedSource",
    "Ledger",
    "LockMode",
    "Metadata",
    "MissingTimestamp",
    "ObjectLock",
    "Output",
    "Override",
    "ReadFrom",
    "ReadLostRanges",
    "Rollback",
    "Root",
    "Rotate",
    "Route",
    "RowDedupe",
    "S3Access",
    "Schedule",
    "ScheduledRange",
    "SecretRef",
    "Source",
    "Sse",
    "StartAtOffsets",
    "StartAtTime",
    "StartingOffsets",
    "StoreAccess",
    "StoreReading",
    "TimeUnit",
    "Timestamp",
    "TopicOverride",
    "TopicSpecs",
    "TransformStep",
    "Tuning",
    "Upgrade",
    "UploadPolicy",
    "ValueType",
    "parse_group",
    "with_decode_option",
    "with_event_time",
]
