"""Iceberg tables: landed Parquet files become data files of a table, without being copied.

``tables`` has how a table follows the ledger, ``keyed_tables`` how one of the newest row of each
key does, ``changing`` the snapshots.
"""

from collections.abc import Mapping
from functools import partial

from landfall.api.spec import TopicSpecs
from landfall.pipeline.decoders.options import read_options
from landfall.publish.context import Context
from landfall.publish.iceberg.catalog import Connection, file_properties
from landfall.publish.iceberg.keyed_tables import KeyedIcebergTables
from landfall.publish.iceberg.options import (
    DEFAULT_TABLE,
    IcebergMaintenanceOptions,
    IcebergOptions,
    IcebergTableSettings,
    texts,
)
from landfall.publish.iceberg.tables import IcebergTables
from landfall.publish.s3_access import s3_access
from landfall.publish.table_names import TableNames, check_parquet, destination
from landfall.publish.tables import TablePublisher, keeps_files

_LOWER = {"hive", "glue"}
"""Catalogs whose names have lower case letters only."""
_CATALOG = {
    # Credentials that a catalog hands out reach the folder of a table, not the landed files.
    "header.X-Iceberg-Access-Delegation": "",
}


class Iceberg:
    """Publishes to tables of an Iceberg catalog."""

    follows_replacements = True

    @staticmethod
    def of(options: Mapping[str, object], context: Context) -> TablePublisher:
        """Build the publisher; see ``PublisherType``."""
        read = read_options(options, IcebergOptions)
        specs = TopicSpecs.of(context.group.spec)
        check_parquet(context, specs)
        catalog = texts(read.catalog)
        _check_warehouse(catalog, context)
        is_lower = catalog.get("type") in _LOWER
        names = TableNames.of(context, read.table, default=DEFAULT_TABLE, lower=is_lower)

        def connecting() -> tuple[Mapping[str, str], tuple[str, ...]]:
            secret, output = context.secret(), context.group.spec.output
            access = s3_access(output.s3) if output.url.startswith("s3://") else None
            files = file_properties(access) if access else {}
            hidden = (*secret.values(), *(access.secrets if access else ()))
            found = {**_CATALOG, **files, **catalog, **secret}
            found.pop("name", None)  # it is an argument of its own
            return found, hidden

        maintenance = read.maintenance or IcebergMaintenanceOptions()
        lane, settings = (
            (context.group.metadata.name, context.lane),
            IcebergTableSettings.of(read, specs),
        )
        connection = Connection(
            catalog.get("name", "landfall"), connecting, of_tables=settings.properties
        )
        keys = read.keys(read.table, context, specs)
        tables = (
            IcebergTables(connection, lane, context.url, settings)
            if keys is None
            else KeyedIcebergTables(connection, lane, context.url, settings, keys=keys)
        )
        named = tuple(catalog.get(name, "") for name in ("name", "type", "uri", "warehouse"))
        cursor = context.cursor(destination(context, *named, read.table))
        choice = read.choice(context.url(""))
        keeps = keeps_files(maintenance.keep_files, context)
        return TablePublisher(
            context.follower,
            cursor,
            tables,
            names.of_object,
            follows_replacements=True,
            choice=choice,
            hold_of=tables.hold if keeps else None,
            details_of=partial(tables.details, keeps_files=keeps),
        )


def _check_warehouse(catalog: Mapping[str, str], context: Context) -> None:
    """Raise ValueError if tables would store their own files among the landed objects."""
    root = context.url("")
    if f"{catalog.get('warehouse', '').rstrip('/')}/".startswith(root):
        raise ValueError(
            f"option catalog: the warehouse must not be in output.url {root}, whose objects are "
            "Landfall's; take a folder or prefix next to it"
        )
