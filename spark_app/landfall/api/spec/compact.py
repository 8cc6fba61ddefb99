"""The section ``spec.compact``: small objects of complete output partitions are merged."""

from enum import StrEnum
from typing import Literal

from pydantic import model_validator

from landfall.api.pod_spec import Model
from landfall.api.values import Bytes, Name, format_quantity

FORMATS_WITH_FIELDS = ("Json", "Parquet", "Orc", "Avro")
"""Formats whose rows have fields, by which duplicates are found."""


class Keep(StrEnum):
    """The one of several rows with the same key that is kept."""

    FIRST = "First"
    LAST = "Last"


class RowDedupe(Model):
    """Leaves out rows whose key another row of the same output partition has."""

    key: Name
    """Field of the row as it is in the object. Dots separate the steps of a nested path, such as
    ``meta.id``. Rows without the field, or with null in it, are all kept.
    """
    keep: Keep = Keep.FIRST
    """Which of the rows with the same key is kept: the ``First`` or the ``Last``, in the order of
    Kafka partition and offset.
    """

    @property
    def path(self) -> tuple[str, ...]:
        """The steps of the key's path."""
        return tuple(self.key.split("."))

    @model_validator(mode="after")
    def _path_has_no_empty_step(self) -> "RowDedupe":
        if not all(self.path):
            raise ValueError(f"key {self.key!r} has an empty step")
        return self


class Compact(Model):
    """Merges the small objects of an output partition once it is complete."""

    when: Literal["Finished"] = "Finished"
    """When objects are merged: once the hour or day of their output partition is complete, as
    ``completeness`` decides.
    """
    below: Bytes = 64 * 2**20
    """Only objects smaller than this are merged."""
    target: Bytes = 256 * 2**20
    """Size up to which objects are merged into one."""
    dedupe: RowDedupe | None = None
    """Leaves out rows whose key another row of the same output partition has. All objects of the
    output partition are merged into one then, regardless of their size. Duplicates stay if not set.
    """
    sort: Name | None = None
    """Field by which the rows of a merged object are sorted; dots separate the steps of a nested
    path. Numbers come first, as numbers, then texts; rows without the field come last. Rows stay in
    the order of Kafka partition and offset if not set.
    """
    readers: Literal["Listing", "Tables"] = "Listing"
    """Tables if all jobs read tables or by the ledger. Listing if some list folders. By this,
    replaced objects stay for as long as ``tuning.keepReplaced`` describes.
    """

    @property
    def needs_fields(self) -> str:
        """The settings that need rows with fields; empty for none."""
        return "dedupe" if self.dedupe else "sort" if self.sort else ""

    @property
    def sort_path(self) -> tuple[str, ...]:
        """The steps of the path of ``sort``; none if it is not set."""
        return tuple(self.sort.split(".")) if self.sort else ()

    @model_validator(mode="after")
    def _sort_has_no_empty_step(self) -> "Compact":
        if self.sort is not None and not all(self.sort_path):
            raise ValueError(f"sort {self.sort!r} has an empty step")
        return self

    @model_validator(mode="after")
    def _ordered(self) -> "Compact":
        if self.below > self.target:
            raise ValueError(
                f"below {format_quantity(self.below)} is over target {format_quantity(self.target)}"
            )
        return self
