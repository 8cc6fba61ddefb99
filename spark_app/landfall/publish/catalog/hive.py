"""Publisher ``Hive``: landed folders become partitions of tables in a Hive metastore.

| option | default | meaning |
|---|---|---|
| ``metastore`` | | URIs such as ``thrift://metastore:9083``; the next one is asked if one is away |
| ``scheme`` | ``s3a`` | of locations in S3, as the engines that read know it |
| ``timeoutSeconds`` | 60 | how long to wait for a connection, and again for an answer |

The other options are in ``landfall.publish.catalog.options``.

A table is changed only if it is as it was loaded: the metastore checks that the property
``landfall.revision`` is as it was (HIVE-26882; Hive 2.3.10, 3.1.4, 4.0 and later). Older ones
ignore the condition, so of two concurrent changes the last one wins, and a column lost by that is
added again with the next object that has it.

Source: hive_metastore.thrift of Hive 2.3 and 4.0; only methods that both have are called.
"""

import copy
from collections.abc import Mapping, Sequence
from contextlib import suppress
from typing import Any
from urllib.parse import urlsplit

from landfall.errors import DestinationAway, Reason, Stalled
from landfall.pipeline.decoders.options import read_options
from landfall.publish import Publisher
from landfall.publish.catalog import Columns, Partition, Table, TableChanged, TableName, Values
from landfall.publish.catalog.files import STORAGES
from landfall.publish.catalog.options import TableOptions, check_scheme, step_publisher
from landfall.publish.catalog.thrift_client import Address, Refused, ThriftClient
from landfall.publish.context import Context

_PORT = 9083
_MAX_TIMEOUT = 3600


class HiveOptions(TableOptions, frozen=True, kw_only=True):
    """Options of ``Hive``, in addition to the common ones of catalogs of files."""

    metastore: str | list[str]
    scheme: str = "s3a"
    timeout_seconds: float = 60


class Hive:
    """The publisher type ``Hive``."""

    @staticmethod
    def of(options: Mapping[str, object], context: Context) -> Publisher:
        """Build the publisher; see ``PublisherType``."""
        read = read_options(options, HiveOptions)
        named = [read.metastore] if isinstance(read.metastore, str) else read.metastore
        addresses = [_address(uri.strip()) for uris in named for uri in uris.split(",")]
        if not addresses:
            raise ValueError("option metastore: is empty")
        if not 0 < read.timeout_seconds <= _MAX_TIMEOUT:
            raise ValueError(f"option timeoutSeconds: {read.timeout_seconds} is not 1 to 3600")
        check_scheme(read.scheme)
        client = ThriftClient(addresses, read.timeout_seconds)
        catalog = Metastore(client, creates_databases=read.create_database)
        where = tuple(f"{host}:{port}" for host, port in addresses)
        return step_publisher(
            options=read, context=context, catalog=catalog, scheme=read.scheme, where=where
        )


def _address(uri: str) -> Address:
    parsed = urlsplit(uri)
    try:
        port = parsed.port or _PORT
    except ValueError:
        port = 0
    if parsed.scheme != "thrift" or not parsed.hostname or not port or parsed.path.strip("/"):
        raise ValueError(f"option metastore: {uri!r} is not a URI such as thrift://metastore:9083")
    return parsed.hostname, port


_REVISION = "landfall.revision"
_NO_STATISTICS = {"DO_NOT_UPDATE_STATS": "true"}
UNKNOWN = {"numFiles": "-1", "totalSize": "-1", "numFilesErasureCoded": "0"}
"""Without all of them (the last one since Hive 4), the metastore lists a new partition and records
its present size, by which Spark would later decide to broadcast a table. Spark, Trino and Hive
treat negative ones as unknown.

Source: StatsSetupConst.FAST_STATS and MetaStoreServerUtils.updatePartitionStatsFast of Hive.
"""
_ESCAPED = frozenset("\"#%'*/:=?\\\x7f{[]^") | {chr(code) for code in range(1, 32)}
"""Characters that Hive escapes in the names of partitions: FileUtils.escapePathName."""


class Metastore:
    """The tables of a Hive metastore; see ``Catalog``. For one thread at a time."""

    def __init__(self, client: ThriftClient, *, creates_databases: bool = False) -> None:
        """Ask nothing yet."""
        self._client = client
        self._creates_databases = creates_databases

    def load(self, name: TableName) -> Table | None:
        """See ``Catalog``."""
        from pymetastore.hive_metastore import ttypes  # noqa: PLC0415  # an extra

        wanted = ttypes.GetTableRequest(dbName=name.database, tblName=name.table)
        try:
            found = self._ask(name, "get_table_req", wanted).table
        except ttypes.NoSuchObjectException:
            return None
        parameters = found.parameters or {}
        return Table(
            name=name,
            location=found.sd.location or "",
            columns={column.name: column.type for column in found.sd.cols or ()},
            keys=tuple(key.name for key in found.partitionKeys or ()),
            storage=None,
            properties=parameters,
            is_external=_is_external(found.tableType, parameters),
            found=found,
        )

    def create(self, table: Table) -> None:
        """See ``Catalog``."""
        from pymetastore.hive_metastore import ttypes  # noqa: PLC0415  # an extra

        if self._creates_databases:
            self._create_database(table.name)
        wanted = ttypes.Table(
            tableName=table.name.table,
            dbName=table.name.database,
            owner="landfall",
            createTime=0,
            lastAccessTime=0,
            retention=0,
            sd=_descriptor(table),
            partitionKeys=[_field(key, "string") for key in table.keys],
            parameters={**table.properties, _REVISION: "1"},
            tableType="EXTERNAL_TABLE",
        )
        try:
            self._ask(table.name, "create_table", wanted)
        except ttypes.AlreadyExistsException:
            return
        except ttypes.NoSuchObjectException as error:
            raise _no_database(table.name) from error
        except Stalled:
            if self._has_database(table.name):
                raise
            raise _no_database(table.name) from None

    def change(self, table: Table, columns: Columns, properties: Mapping[str, str]) -> None:
        """See ``Catalog``."""
        from pymetastore.hive_metastore import ttypes  # noqa: PLC0415  # an extra

        before = (table.found.parameters or {}).get(_REVISION)
        after = str(int(before) + 1) if before and before.isdecimal() else "1"
        wanted = copy.deepcopy(table.found)
        wanted.sd.cols = _with_columns(wanted.sd.cols or [], columns)
        wanted.parameters = {**properties, _REVISION: after}
        conditions = {}
        if before is not None:
            conditions = {"expected_parameter_key": _REVISION, "expected_parameter_value": before}
        context = ttypes.EnvironmentContext(properties={**_NO_STATISTICS, **conditions})
        method, name = "alter_table_with_environment_context", table.name
        try:
            self._client.ask(
                name,
                lambda client: getattr(client, method)(name.database, name.table, wanted, context),
            )
        except Refused as error:
            if "has been modified" in str(error):
                raise TableChanged from error
            raise DestinationAway(str(error)) from error
        except ttypes.NoSuchObjectException as error:
            raise TableChanged from error

    def partitions(self, table: Table, values: Sequence[Values]) -> list[Partition]:
        """See ``Catalog``."""
        from pymetastore.hive_metastore import ttypes  # noqa: PLC0415  # an extra

        names = [part_name(table.keys, row) for row in values]
        where = table.name
        try:
            found = self._ask(where, "get_partitions_by_names", where.database, where.table, names)
        except ttypes.NoSuchObjectException:
            return []
        return [
            Partition(
                tuple(partition.values),
                partition.sd.location or "",
                {column.name: column.type for column in partition.sd.cols or ()},
                partition,
            )
            for partition in found
        ]

    def add(self, table: Table, partitions: Sequence[Partition]) -> None:
        """See ``Catalog``."""
        from pymetastore.hive_metastore import ttypes  # noqa: PLC0415  # an extra

        name = table.name
        request = ttypes.AddPartitionsRequest(
            dbName=name.database,
            tblName=name.table,
            parts=[_new_partition(table, partition) for partition in partitions],
            ifNotExists=True,
            needResult=False,
        )
        try:
            self._ask(name, "add_partitions_req", request)
        except (ttypes.AlreadyExistsException, ttypes.NoSuchObjectException) as error:
            raise DestinationAway(f"table {name}: {error.message}") from error
        except Stalled:
            if self.load(name) is None:
                raise DestinationAway(f"table {name} was dropped") from None
            raise

    def widen(self, table: Table, partitions: Sequence[Partition], columns: Columns) -> None:
        """See ``Catalog``."""
        from pymetastore.hive_metastore import ttypes  # noqa: PLC0415  # an extra

        wanted = [copy.deepcopy(partition.found) for partition in partitions]
        for partition in wanted:
            partition.sd.cols = _with_columns(partition.sd.cols or [], columns)
        context = ttypes.EnvironmentContext(properties=dict(_NO_STATISTICS))
        where = table.name.database, table.name.table
        with suppress(ttypes.NoSuchObjectException):
            self._ask(
                table.name, "alter_partitions_with_environment_context", *where, wanted, context
            )

    def _create_database(self, name: TableName) -> None:
        from pymetastore.hive_metastore import ttypes  # noqa: PLC0415  # an extra

        if not self._has_database(name):
            with suppress(ttypes.AlreadyExistsException):
                self._ask(name, "create_database", ttypes.Database(name=name.database))

    def _has_database(self, name: TableName) -> bool:
        from pymetastore.hive_metastore import ttypes  # noqa: PLC0415  # an extra

        try:
            self._ask(name, "get_database", name.database)
        except ttypes.NoSuchObjectException:
            return False
        return True

    def _ask(self, name: TableName, method: str, *arguments: Any) -> Any:
        try:
            return self._client.ask(name, lambda client: getattr(client, method)(*arguments))
        except Refused as error:
            raise DestinationAway(str(error)) from error


def _is_external(table_type: str, parameters: Mapping[str, str]) -> bool:
    """Return whether dropping a table leaves its files alone."""
    is_external = _is_set(parameters, "EXTERNAL") or table_type == "EXTERNAL_TABLE"
    # Hive 4 turns a managed table without transactions into an external one with this property.
    return is_external and not _is_set(parameters, "external.table.purge")


def _is_set(parameters: Mapping[str, str], name: str) -> bool:
    return parameters.get(name, "").upper() == "TRUE"


def part_name(keys: Sequence[str], values: Sequence[str]) -> str:
    """The name of a partition, such as ``dt=2026-11-21/hr=04``: Warehouse.makePartName of Hive."""
    return "/".join(
        f"{_escaped(key)}={_escaped(value)}" for key, value in zip(keys, values, strict=True)
    )


def _escaped(text: str) -> str:
    return "".join(f"%{ord(char):02X}" if char in _ESCAPED else char for char in text)


def _no_database(name: TableName) -> Stalled:
    return Stalled(
        Reason.DESTINATION_CONFLICT,
        f"table {name}: there is no database {name.database}; create it, or set createDatabase",
    )


def _field(name: str, type_: str) -> Any:
    from pymetastore.hive_metastore import ttypes  # noqa: PLC0415  # an extra

    return ttypes.FieldSchema(name, type_, "")


def _with_columns(found: Sequence[Any], columns: Columns) -> list[Any]:
    """Return columns as they were found, with their comments, followed by the new ones."""
    there = {column.name for column in found}
    return [*found, *(_field(name, t) for name, t in columns.items() if name not in there)]


def _descriptor(table: Table) -> Any:
    from pymetastore.hive_metastore import ttypes  # noqa: PLC0415  # an extra

    storage = table.storage or STORAGES["Text"]
    return ttypes.StorageDescriptor(
        cols=[_field(name, type_) for name, type_ in table.columns.items()],
        location=table.location,
        inputFormat=storage.input_format,
        outputFormat=storage.output_format,
        compressed=False,
        numBuckets=-1,
        serdeInfo=ttypes.SerDeInfo(
            serializationLib=storage.serde,
            parameters={"serialization.format": "1", **storage.parameters},
        ),
        bucketCols=[],
        sortCols=[],
        parameters={},
    )


def _new_partition(table: Table, partition: Partition) -> Any:
    from pymetastore.hive_metastore import ttypes  # noqa: PLC0415  # an extra

    descriptor = copy.deepcopy(table.found.sd)
    descriptor.location = partition.location
    return ttypes.Partition(
        values=list(partition.values),
        dbName=table.name.database,
        tableName=table.name.table,
        createTime=0,
        lastAccessTime=0,
        sd=descriptor,
        parameters=dict(UNKNOWN),
    )
