"""The options of the publisher ``Iceberg``; docs/publishers/iceberg.md describes them."""

from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Annotated, Any, Literal

import msgspec

from landfall.api.spec import TopicSpecs
from landfall.api.values import duration
from landfall.publish.iceberg.expiry import SnapshotLimits
from landfall.publish.iceberg.partitions import PartitionField, checked, derived, present
from landfall.publish.keyed.options import KeyedOptions

DEFAULT_TABLE = "lake.{topic}"
"""The option ``table`` of a publisher without it."""
FORMAT_VERSION = 2
"""The latest version of Iceberg's table format whose manifests pyiceberg writes."""
MAINTAINED = "landfall.maintenance"
"""Property of a table: ``true`` or ``false``. Tables that Landfall creates have ``true``."""
_Property = str | int | float | bool


class IcebergMaintenanceOptions(
    msgspec.Struct, forbid_unknown_fields=True, rename="camel", kw_only=True
):
    """The option ``maintenance``: which snapshots of its own a publisher keeps."""

    enabled: bool = True
    keep_snapshots: Annotated[int, msgspec.Meta(ge=1, le=100_000)] = SnapshotLimits().count
    expire_after: str = "5d"
    keep_files: bool | None = None

    def limits(self) -> SnapshotLimits:
        """Return the limits.

        Raises:
            ValueError: ``expireAfter`` is no duration.
        """
        try:
            return SnapshotLimits(self.keep_snapshots, duration(self.expire_after))
        except ValueError as error:
            raise ValueError(f"option maintenance.expireAfter: {error}") from None


class IcebergOptions(KeyedOptions, kw_only=True):
    """All options."""

    catalog: dict[str, _Property]
    table: str = DEFAULT_TABLE
    partition_by: list[str] | None = None
    properties: dict[str, _Property] = {}  # noqa: RUF012  # copied by msgspec
    schema_evolution: Literal["Add", "None"] = "Add"
    maintenance: IcebergMaintenanceOptions | None = None


@dataclass(frozen=True)
class IcebergTableSettings:
    """How tables are created and changed.

    Attributes:
        properties: of tables that are created.
        partition_by: the partition fields of a topic's table; None for those that its route has.
        specs: of the topics; None for none.
        schema_evolution: whether columns are added: ``Add`` or ``None``.
        limits: the snapshots that are kept.
        maintains: whether tables are maintained; None: by the property of each table.
    """

    properties: Mapping[str, str]
    partition_by: tuple[PartitionField, ...] | None = ()
    specs: TopicSpecs | None = None
    schema_evolution: str = "Add"
    limits: SnapshotLimits = field(default_factory=SnapshotLimits)
    maintains: bool | None = None

    @classmethod
    def of(cls, options: IcebergOptions, specs: TopicSpecs) -> "IcebergTableSettings":
        """Check the options against the specs of the topics.

        Raises:
            ValueError: tables cannot be partitioned like that, or cannot be written.
        """
        fields = None
        if options.partition_by is not None:
            fields = tuple(PartitionField.of(text) for text in options.partition_by)
            for _, spec in specs.used():
                checked(fields, spec)
        properties = texts(options.properties)
        if properties.get("format-version", "2") not in {"1", "2"}:
            raise ValueError(
                f"option properties: format-version must be 1 or {FORMAT_VERSION}, which Landfall "
                f"can write, got {properties['format-version']}"
            )
        if options.mode == "Keyed" and properties.get("format-version", "2") == "1":
            raise ValueError(
                "option properties: format-version must be 2 where mode is Keyed, as no row is "
                "deleted from a file in version 1"
            )
        maintenance = options.maintenance
        return cls(
            properties,
            fields,
            specs,
            options.schema_evolution,
            (maintenance or IcebergMaintenanceOptions()).limits(),
            maintenance.enabled if maintenance else None,
        )

    def maintained(self, properties: Mapping[str, str]) -> bool:
        """Return whether a table with some properties is maintained: each side can refuse it."""
        of_table = properties.get(MAINTAINED, "").lower()
        return self.maintains is not False and (
            of_table == "true" or (self.maintains is True and of_table != "false")
        )

    def fields(self, topic: str, columns: Any) -> tuple[PartitionField, ...]:
        """The partition fields of a topic's table with some columns."""
        if self.partition_by is not None or self.specs is None:
            return self.partition_by or ()
        return present(derived(self.specs.for_topic(topic)), columns)


def texts(values: Mapping[str, str | int | float | bool]) -> dict[str, str]:
    """Return properties as text, booleans as Iceberg writes them."""
    return {
        name: str(value).lower() if isinstance(value, bool) else str(value)
        for name, value in values.items()
    }
