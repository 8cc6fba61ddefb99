"""Delta tables: landed Parquet files become files of a table, without being copied.

``tables`` has how a table follows the ledger, ``logs`` and ``copied_log`` where its log is.
"""

from collections.abc import Mapping
from datetime import datetime, timedelta
from functools import partial
from typing import Any, Literal

import msgspec

from landfall.api.spec import TopicSpecs
from landfall.api.values import duration
from landfall.pipeline.decoders.options import read_options
from landfall.publish import DueObjects, Hold
from landfall.publish.context import Context
from landfall.publish.delta.copied_log import StoreLogs
from landfall.publish.delta.files import (
    LandedFiles,
)
from landfall.publish.delta.keyed import KeyedTables
from landfall.publish.delta.logs import StorageLogs, TableLogs
from landfall.publish.delta.tables import DeltaSettings, DeltaTables
from landfall.publish.keyed.options import KeyedOptions
from landfall.publish.object_file import StoreFiles
from landfall.publish.s3_access import Recent, S3Settings, landed_files, s3_access
from landfall.publish.table_names import (
    TableFolders,
    check_parquet,
    destination,
)
from landfall.publish.tables import TablePublisher, keeps_files
from landfall.store.urls import open_store

_PARTITION_TYPES = {"String": "string", "Date": "date", "Int32": "integer", "Int64": "long"}


class DeltaMaintenanceOptions(
    msgspec.Struct, forbid_unknown_fields=True, rename="camel", kw_only=True
):
    """The option ``maintenance``: how long earlier versions of tables have their files."""

    expire_after: str = "7d"
    keep_files: bool | None = None

    def age(self) -> timedelta:
        """Return how long files stay that a table no longer has.

        Raises:
            ValueError: ``expireAfter`` is no duration.
        """
        try:
            return duration(self.expire_after)
        except ValueError as error:
            raise ValueError(f"option maintenance.expireAfter: {error}") from None


class DeltaOptions(KeyedOptions, kw_only=True):
    """Options of the publisher ``Delta``; docs/publishers/delta.md describes them."""

    table: str
    partition_by: list[str] | None = None
    partition_types: dict[str, Literal["String", "Date", "Int32", "Int64"]] = {}  # noqa: RUF012
    scheme: Literal["s3", "s3a"] = "s3"
    storage: dict[str, str | int | float | bool] = {}  # noqa: RUF012  # copied by msgspec
    schema_evolution: Literal["Add", "None"] = "Add"
    maintenance: DeltaMaintenanceOptions = msgspec.field(default_factory=DeltaMaintenanceOptions)


class Delta:
    """Publishes to Delta tables."""

    follows_replacements = True

    @staticmethod
    def of(options: Mapping[str, object], context: Context) -> TablePublisher:
        """Build the publisher; see ``PublisherType``."""
        read, output = read_options(options, DeltaOptions), context.group.spec.output
        specs = TopicSpecs.of(context.group.spec)
        check_parquet(context, specs)
        folders = TableFolders.of(context, read.table, specs)

        def url(key: str) -> str:
            scheme, _, rest = context.url(key).partition("://")
            return f"{read.scheme if scheme == 's3' else scheme}://{rest}"

        columns = None if read.partition_by is None else tuple(read.partition_by)

        def files() -> LandedFiles:
            if _is_reached(output.url):
                return LandedFiles(*landed_files(output), url)
            return LandedFiles(StoreFiles(context.store), "", url)

        types = {name: _PARTITION_TYPES[type_] for name, type_ in read.partition_types.items()}
        if columns is not None and (other := types.keys() - {*columns}):
            raise ValueError(f"option partitionTypes: {min(other)} is not in partitionBy")
        tables = _tables(
            read,
            context,
            specs,
            files=Recent(files),
            root=url(""),
            lane=(context.group.metadata.name, context.lane),
            settings=DeltaSettings(columns, read.schema_evolution, types),
            check_new=folders.check_new,
        )
        cursor = context.cursor(destination(context, read.table))
        hold_of = (
            partial(_hold, read.maintenance.age())
            if keeps_files(read.maintenance.keep_files, context)
            else None
        )
        return TablePublisher(
            context.follower,
            cursor,
            tables,
            folders.of_object,
            follows_replacements=True,
            choice=read.choice(context.url("")),
            hold_of=hold_of,
            details_of=partial(tables.details, hold_of=hold_of),
        )


def _tables(read: DeltaOptions, context: Context, specs: TopicSpecs, **common: Any) -> DeltaTables:
    if (keys := read.keys(read.table, context, specs)) is None:
        return DeltaTables(logs=_logs(read, context), **common)
    logs = _copied_logs(read, context, "keyed tables")
    return KeyedTables(logs=logs, keys=keys, kept=read.maintenance.age(), **common)


def _is_reached(url: str) -> bool:
    """Return whether delta-rs and Arrow read and write at a URL as Landfall's stores do."""
    return url.partition("://")[0] in {"s3", "file"}


def _logs(read: DeltaOptions, context: Context) -> TableLogs:
    """Where the tables' logs are.

    Raises:
        ValueError: the group's access to its output does not reach the tables, or is not used.
    """
    output, scheme = context.group.spec.output, read.table.partition("://")[0]

    def storage() -> dict[str, str]:
        access = s3_access(output.s3) if scheme == "s3" else None
        found = storage_options(access) if access else {}
        own = {name: str(value) for name, value in read.storage.items()}
        return {**found, **own, **context.secret()}

    if _is_reached(read.table):
        return StorageLogs(Recent(storage))
    return _copied_logs(read, context, f"tables in {scheme}://")


def _copied_logs(read: DeltaOptions, context: Context, tables: str) -> StoreLogs:
    """The tables' logs in the store of the output.

    Raises:
        ValueError: as ``_logs``.
    """
    output, scheme = context.group.spec.output, read.table.partition("://")[0]
    if scheme != output.url.partition("://")[0]:
        raise ValueError(
            f"option table: {tables} are reached by the access to output.url, which "
            f"is {output.url}; take a folder in the same kind of store"
        )
    if read.storage or context.entry.secret_ref:
        name = "option storage" if read.storage else "secretRef"
        how = "as output.url is" if scheme == "file" else f"by spec.output.{output.access_field}"
        raise ValueError(f"{name}: {tables} are reached {how} alone")
    above = read.table.partition("{")[0].rpartition("/")[0]
    return StoreLogs(above, lambda: open_store(output.model_copy(update={"url": above})))


def storage_options(access: S3Settings) -> dict[str, str]:
    """Return delta-rs's options for a bucket; commits are created if absent.

    Source: https://docs.rs/object_store/latest/object_store/aws/enum.AmazonS3ConfigKey.html
    """
    found = {
        "aws_endpoint_url": access.endpoint,
        "aws_region": access.region,
        "aws_access_key_id": access.key_id,
        "aws_secret_access_key": access.secret_key,
        "aws_session_token": access.token,
        "aws_allow_http": "true" if access.endpoint.startswith("http://") else "",
        "aws_virtual_hosted_style_request": "" if access.path_style else "true",
        "aws_conditional_put": "etag",
        "aws_request_payer": "true" if access.requester_pays else "",
        "proxy_url": access.proxy,
        "timeout": f"{access.read_seconds:.0f}s",
        "connect_timeout": f"{access.connect_seconds:.0f}s",
    }
    return {name: value for name, value in found.items() if value}


def _hold(age: timedelta, table: str, due: DueObjects, now: datetime) -> Hold | None:
    """Return why a table needs replaced objects: its versions of the last days may name them."""
    until = due.time + age
    why = f"versions of table {table} may name them until {until:%Y-%m-%dT%H:%MZ}"
    return Hold(until, why) if now < until else None
