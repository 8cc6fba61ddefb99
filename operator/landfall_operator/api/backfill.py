"""The resource ``Backfill``: ranges of a group that are landed again, compared, and promoted. Pure.

The docstrings of fields are the descriptions that ``kubectl explain`` shows. The fields are the
options of ``landfall backfill plan``, which documents them.
"""

import json
from collections.abc import Iterator, Mapping
from datetime import timedelta
from math import ceil
from typing import Annotated, Any, Literal

from pydantic import AfterValidator, Field, ValidationError, model_validator
from pydantic.alias_generators import to_camel

from landfall.api.pod_spec import Model
from landfall.api.spec.shared import TopicName, distinct
from landfall.api.spec_errors import spec_errors
from landfall.api.values import Duration, GroupName, Instant, Name, matching

KIND = "Backfill"
PLURAL = "backfills"
MAX_NAME = 52
NAME = rf"[a-z]([-a-z0-9]{{0,{MAX_NAME - 2}}}[a-z0-9])?"
NAME_FORM = (
    f"at most {MAX_NAME} lowercase letters, digits and hyphens, "
    "start with a letter and not end with a hyphen"
)
"""The form of its name: its pods and its side lane are named after it, with suffixes."""
MAX_KEYS = 1000
MAX_SECONDS = 10**7

Generations = Annotated[
    str,
    Field(coerce_numbers_to_str=True, json_schema_extra={"format": "quantity"}),
    matching(r"[0-9]{1,9}(-[0-9]{1,9})?", "a generation such as 7, or the first and the last: 5-7"),
]
Percentage = Annotated[
    str,
    matching(
        r"(100|[1-9][0-9]?)(\.[0-9]{1,3})?%|0\.[0-9]{0,2}[1-9]%",
        "a percentage above zero, such as 10%",
    ),
]
Key = Annotated[str, Field(min_length=1, max_length=1024)]
FolderPattern = Annotated[str, Field(min_length=1, max_length=1024)]


class LandedTimes(Model):
    """A time in which something was committed."""

    from_: Annotated[Instant | None, Field(alias="from")] = None
    """Only what was committed at or after this time, such as ``2026-11-21T05:00:00Z``."""
    until: Instant | None = None
    """Only what was committed before this time."""


class BackfillSpec(Model):
    """The ranges to land again. All but ``promote`` and ``maxCores`` stays as it was created."""

    group: GroupName
    """Name of the ConsumerGroup, in the same namespace."""
    topics: Annotated[tuple[TopicName, ...], Field(max_length=100), AfterValidator(distinct)] = ()
    """Only these topics."""
    landed: LandedTimes = LandedTimes()
    """Only what was landed in this time: from a deployment until the next one."""
    last: Duration | None = None
    """Only what was landed in so much time before the plan is made. Not with ``landed``."""
    generations: Generations | None = None
    """Only rows in objects of this generation, such as ``7``, or of several: ``5-7``."""
    output_partitions: Annotated[tuple[FolderPattern, ...], Field(max_length=100)] = ()
    """Only what has rows in these output partitions, with the folders above the topic's if the
    group has any. ``*`` stands for any text.
    """
    objects: Annotated[tuple[Key, ...], Field(max_length=MAX_KEYS)] = ()
    """Only what has rows in objects with these keys; ``landfall scan`` names those that are wrong.
    """
    share: Percentage | None = None
    """Only so many of the topic partitions that are chosen otherwise, at least one, such as
    ``10%``. Which ones depends on their names alone.
    """
    backup: GroupName | None = None
    """Name of another ConsumerGroup in the namespace, from whose landed objects the records are
    read, long after Kafka forgot them; from where the group has them from if not set.
    """
    into: Literal["Replace"] = "Replace"
    """The use of the rows that are landed again: they replace the live ones."""
    promote: Literal["Manual", "Automatic", "Never"] = "Manual"
    """Whether they do so once they are compared. Automatic does not judge the comparison; Manual
    waits until this field is Automatic, or until a user promotes the side lane.
    """
    max_cores: Annotated[int | None, Field(ge=1, le=10_000)] = None
    """Cores of its executors together. They are of the size that the group's are, at least one;
    without this, it is one.
    """
    revision: Name | None = None
    """The revision of the group whose spec lands it, as in the group's ``status.history``; the
    group's present spec if not set.
    """

    @model_validator(mode="after")
    def _one_time(self) -> "BackfillSpec":
        if self.last is not None and self.landed != LandedTimes():
            raise ValueError("last and landed are two ways to choose ranges: give one of them")
        return self

    def choice(self) -> Iterator[str]:
        """The options of ``landfall backfill land`` by which this is chosen, but for objects."""
        for topic in self.topics:
            yield from ("--topic", topic)
        if self.landed.from_:
            yield from ("--landed-from", self.landed.from_.isoformat())
        if self.landed.until:
            yield from ("--landed-until", self.landed.until.isoformat())
        if self.last:
            yield from ("--last", _whole(self.last))
        if self.generations:
            yield from ("--generations", self.generations)
        for folder in self.output_partitions:
            # An argument that begins with a hyphen would be taken for an option.
            yield f"--output-partition={folder}"
        if self.share:
            yield from ("--share", self.share)

    def keys(self) -> str:
        """The objects that are chosen, as the file that ``--objects`` reads."""
        return json.dumps([*self.objects], indent=1, ensure_ascii=False) + "\n"


def _whole(time: timedelta) -> str:
    """A time as the option takes it: in seconds, or in minutes if there are too many."""
    seconds = ceil(time.total_seconds())
    return f"{seconds}s" if seconds < MAX_SECONDS else f"{ceil(seconds / 60)}m"


def parsed(spec: Mapping[str, Any]) -> tuple[BackfillSpec | None, str]:
    """The spec, and an empty text; or None, and what is wrong with it."""
    try:
        return BackfillSpec.model_validate(spec, by_alias=True, by_name=False), ""
    except ValidationError as error:
        fields = [to_camel(name) for name in BackfillSpec.model_fields]
        return None, "\n".join(spec_errors(error, {"spec": fields}, ("spec",)))
