"""The policies of a group: when to upload, bad records, autoscaling, upgrades, tuning."""

import re
from collections.abc import Mapping
from datetime import timedelta
from typing import Annotated, Literal

from pydantic import Field, model_validator

from landfall.api.pod_spec import Model
from landfall.api.spec.roots import LettersPlace, PresentPlace, StoreType, Url
from landfall.api.spec.s3 import S3
from landfall.api.spec.shared import distinct
from landfall.api.spec.stores import Azure, Gcs, Hdfs
from landfall.api.values import Bytes, Duration, DurationOrZero, Pattern, Percent, Ratio


class Tolerate(Model):
    """Differences between what both revisions land that Shadow tolerates."""

    rows: Percent = 0.0
    """Share of the rows that only one of the two revisions lands. 100% tolerates any difference, as
    for a change that is meant to change every row.
    """
    dead_letters: Percent = 0.0
    """Share of the records that become dead letters by the new revision and did not before."""


class Shadow(Model):
    """The ranges that strategy Shadow compares, and which differences it tolerates."""

    window: Duration = timedelta(hours=1)
    """What was landed within this time is landed again and compared, row by row. If the upload
    policy's ``maxAge`` is longer, that time applies.
    """
    tolerate: Tolerate = Tolerate()
    """Differences that do not speak against the new revision."""


class Canary(Model):
    """The ranges that strategy Canary lands again, and what it tolerates."""

    topic_partitions: Percent = 0.1
    """Share of the topic partitions that the new revision lands again, at least one."""
    window: Duration = timedelta(minutes=10)
    """What was landed within this time is landed again. If the upload policy's ``maxAge`` is
    longer, that time applies.
    """
    bad_records: Percent = 0.01
    """Share of the records that may become dead letters. More are tolerated if there were as many
    before.
    """
    min_throughput: Percent = 0.5
    """How fast the new revision must land these records at least, as a share of the speed at which
    the running one has landed them.
    """


MAX_EXECUTORS = 1000
"""Upper bound of executors per group; a larger number is taken for a typing error."""


class Override(Model):
    """An upload policy for some topics."""

    topics: Pattern
    """Regular expression for the topics; it must match the whole name."""
    max_bytes: Bytes | None = None
    """Replaces the group's ``maxBytes`` for these topics."""
    max_age: Duration | None = None
    """Replaces the group's ``maxAge`` for these topics."""


class UploadPolicy(Model):
    """When a topic partition is due to be landed: by size or by age, the first of both."""

    max_bytes: Bytes = 256 * 2**20
    """Landed bytes at which a topic partition's backlog is landed: the size of the objects that it
    will make, compressed as they are, estimated from what was landed before.
    """
    max_age: Duration = timedelta(minutes=5)
    """Age of a topic partition's oldest unlanded record at which it is landed."""
    overrides: tuple[Override, ...] = ()
    """Upload policies for some topics. The first whose pattern matches applies."""


MAX_FORMER_PLACES = 8
"""As many sections of each store are in the definition of the resource once only."""
MAX_OVERRIDES = 200
"""The API server checks each of them by rules, whose cost it limits."""


class BadRecordsOverride(Model):
    """The treatment of bad records of some topics."""

    topics: Pattern
    """Regular expression for the topics; it must match the whole name."""
    policy: Literal["DeadLetter", "Fail"] | None = None
    """Replaces the group's ``policy`` for these topics."""
    max_ratio: Ratio | None = None
    """Replaces the group's ``maxRatio`` for these topics."""
    min_count: Annotated[int, Field(ge=1)] | None = None
    """Replaces the group's ``minCount`` for these topics."""
    window: Duration | None = None
    """Replaces the group's ``window`` for these topics."""


_UNSET: Mapping[str, Model | None] = {
    "store": None,
    "s3": S3(),
    "azure": Azure(),
    "gcs": Gcs(),
    "hdfs": Hdfs(),
}


class BadRecords(Model):
    """The treatment of records that cannot be decoded, routed or encoded."""

    policy: Literal["DeadLetter", "Fail"] = "DeadLetter"
    """DeadLetter lands the record and its error in a dead-letter object. Fail stops the topic
    partition at the first such record.
    """
    max_ratio: Ratio = 0.001
    """Allowed share of bad records among a topic partition's records within ``window``. Above it,
    if there are at least ``minCount`` bad records, the topic partition stops before the batch is
    committed.
    """
    min_count: Annotated[int, Field(ge=1)] = 100
    """A topic partition with fewer bad records than this within ``window`` never stops."""
    window: Duration = timedelta(hours=1)
    """How far back records are counted, from when they were landed. Counting begins again when the
    driver restarts.
    """
    retain: Annotated[Duration, Field(ge=timedelta(hours=1))] | None = None
    """How long dead letters are kept, from when they were landed; at least an hour. Older ones are
    deleted, and can neither be read nor replayed any more. They are kept for ever if not set.
    """
    overrides: Annotated[tuple[BadRecordsOverride, ...], Field(max_length=MAX_OVERRIDES)] = ()
    """Limits for some topics, at most 200. The first whose pattern matches applies."""
    url: Url | None = None
    """Root of a place for dead letters alone, such as ``s3://letters/clicks``, apart from the other
    roots. Under ``output.url`` if not set.
    """
    store: StoreType | None = None
    """Import path of a custom store for ``url``."""
    s3: S3 = S3()
    """Access to ``url``, as ``output.s3``."""
    azure: Azure = Azure()
    """As ``output.azure``."""
    gcs: Gcs = Gcs()
    """As ``output.gcs``."""
    hdfs: Hdfs = Hdfs()
    """As ``output.hdfs``."""
    former_places: Annotated[tuple[LettersPlace, ...], Field(max_length=MAX_FORMER_PLACES)] = ()
    """Where dead letters were before. Letters in a place that is not named cannot be reached."""

    @property
    def present_place(self) -> PresentPlace | None:
        """The place of new dead letters; None if that is the output root."""
        if not self.url:
            return None
        return PresentPlace(
            url=self.url,
            store=self.store,
            s3=self.s3,
            azure=self.azure,
            gcs=self.gcs,
            hdfs=self.hdfs,
        )

    @property
    def places(self) -> tuple[LettersPlace, ...]:
        """The places of dead letters, the present one first, without the output root."""
        present = self.present_place
        return (present, *self.former_places) if present else self.former_places

    @model_validator(mode="after")
    def _places_are_known(self) -> "BadRecords":
        if self.url:
            _ = self.present_place  # which refuses a URL of no store
        elif section := next((s for s, unset in _UNSET.items() if getattr(self, s) != unset), ""):
            raise ValueError(
                f"{section}: url is not set, so dead letters are where the objects are"
            )
        distinct(tuple(f"{place.url} ({place.id})" for place in self.places))
        return self

    def for_topic(self, topic: str) -> "BadRecords":
        """The limits of a topic: from the first override that matches, else the group's."""
        match = next((o for o in self.overrides if re.fullmatch(o.topics, topic)), None)
        if match is None:
            return self
        own = match.model_dump(exclude={"topics"}, exclude_none=True)
        return self.model_copy(update=own)


class Autoscaling(Model):
    """How the operator chooses the number of executors."""

    min_replicas: Annotated[int, Field(ge=0, le=MAX_EXECUTORS)] = 1
    """Minimum number of executors. An idle group is scaled down to it."""
    max_replicas: Annotated[int, Field(ge=1, le=MAX_EXECUTORS)] = 10
    """Maximum number of executors."""
    target_lag: Duration = timedelta(minutes=2)
    """How long records may be overdue before the group counts as falling behind."""
    catch_up: Duration = timedelta(minutes=30)
    """Time within which a backlog should be landed."""

    @model_validator(mode="after")
    def _ordered(self) -> "Autoscaling":
        if self.min_replicas > self.max_replicas:
            raise ValueError(
                f"minReplicas {self.min_replicas} is over maxReplicas {self.max_replicas}"
            )
        return self


class Completeness(Model):
    """When the hours and days of a topic are complete, so that readers may use them."""

    delay: DurationOrZero = timedelta(hours=1)
    """How long records may be late. An hour is complete once every topic partition has landed a
    record whose event time is so much after its end, or has been idle for longer than this. Zero
    only with ``schedule``: then a range that ends with an hour completes it.
    """


class Rollback(Model):
    """When a new revision is rolled back automatically."""

    window: Duration = timedelta(hours=2)
    """How long a new revision is watched after its first commit."""
    max_commit_failures: Annotated[int, Field(ge=1)] = 5
    """Number of consecutive commit failures that triggers a rollback. A batch counts once, however
    many of its topic partitions failed.
    """
    crashes: Annotated[int, Field(ge=1)] = 3
    """Number of crashes since the last commit that triggers a rollback, or gives the revision up
    before it takes over. Those that the store, Kafka or the cluster caused do not count.
    """
    ready_in: Duration = timedelta(minutes=10)
    """How long a driver may take to get ready. Time in which the cluster has no room for it, or in
    which the image, the store or Kafka is not available, does not count.
    """
    no_commit: Duration = timedelta(minutes=15)
    """How long records of a watched revision may be overdue without any commit before it is rolled
    back.
    """


class Upgrade(Model):
    """How one revision hands over to the next."""

    strategy: Literal["HandOver", "Recreate", "Shadow", "Canary"] = "HandOver"
    """HandOver starts the new driver next to the running one, which then hands over. Recreate stops
    the running driver first and needs no resources for two drivers and their executors. Shadow and
    Canary try a revision first: it lands again, next to what is live, what was landed last. Shadow
    compares every row, Canary bad records and throughput of some topic partitions. Only a revision
    that passes takes over, as by HandOver.
    """
    image: Literal["Pinned", "Follow"] = "Pinned"
    """What a new default image of the operator means for a group without `image`. Pinned keeps the
    image that the driver was started with until the next change. Follow rolls the new one out.
    """
    drain_timeout: Duration = timedelta(minutes=10)
    """How long the old driver may take to finish its batches. After that it is fenced, and what it
    had not committed is landed again by the new driver.
    """
    rollback: Rollback = Rollback()
    """When a new revision is rolled back automatically."""
    shadow: Shadow = Shadow()
    """What strategy Shadow compares, and which differences it tolerates."""
    canary: Canary = Canary()
    """What strategy Canary lands again, and what it tolerates."""
    trial_timeout: Duration = timedelta(hours=2)
    """How long Shadow and Canary may take. A revision that is not judged by then is given up, and
    the running one stays.
    """


KEPT_FOR_LISTINGS = timedelta(minutes=10)
"""How long replaced objects stay for who has listed them: as long as a long listing takes."""


class Tuning(Model):
    """Settings whose defaults fit most groups."""

    poll_interval: Duration = timedelta(seconds=1)
    """How often the driver reads the end offsets of the topic partitions."""
    task_memory: Annotated[Bytes, Field(ge=64 * 2**20)] = 256 * 2**20
    """Memory that one task may use for output buffers."""
    max_rounds: Annotated[int, Field(ge=1, le=64)] = 4
    """Maximum number of batches in flight at the same time."""
    max_unapplied: Annotated[int, Field(ge=1, le=64)] = 4
    """Maximum number of COMMITs whose objects are not all visible yet."""
    max_round_bytes: Bytes = 2 * 2**30
    """Maximum estimated object bytes of one batch; with more than four task slots, so much for each
    four of them.
    """
    read_timeout: Duration = timedelta(seconds=60)
    """How long a task waits for a record from Kafka before its slice fails and is planned again."""
    orphan_age: Annotated[Duration, Field(ge=timedelta(hours=1))] = timedelta(hours=24)
    """Age at which multipart uploads that no COMMIT names are aborted."""
    retain_replaced: Duration = timedelta(days=7)
    """How long copies are kept of objects that were replaced, as by compaction. As long
    that can be undone.
    """
    keep_replaced: DurationOrZero | None = None
    """How long replaced objects stay where they are, next to those in their place. 10m if not set,
    or as long as ``retainReplaced`` with ``compact.readers: Tables``.
    """
    snapshot_every: Annotated[int, Field(ge=2)] = 500
    """Number of ledger records between two snapshots."""
    segment_every: Annotated[int, Field(ge=2)] = 5000
    """Number of ledger records that are stored together in one object once they are old."""
    http_port: Annotated[int, Field(ge=0, le=65535)] = 8080
    """Port on which a driver outside Kubernetes serves status and metrics; any free port if this
    one is taken. In Kubernetes it is always 8080.
    """
    spark_conf: dict[str, str] = Field(default_factory=dict)
    """Spark properties. They override those that Landfall sets."""
