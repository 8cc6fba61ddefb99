"""Publisher ``Glue``: landed folders become partitions of tables in an AWS Glue Data Catalog.

| option | default | meaning |
|---|---|---|
| ``region`` | of the store | region of the catalog |
| ``catalogId`` | of the credentials | account whose catalog it is |
| ``endpoint`` | AWS's | URL of the service, such as a VPC endpoint's |
| ``scheme`` | ``s3`` | of locations in S3 |

The other options are in ``landfall.publish.catalog.options``. Credentials come from the secret,
``AWS_ACCESS_KEY_ID``, ``AWS_SECRET_ACCESS_KEY`` and maybe ``AWS_SESSION_TOKEN``; without one,
landing's are used (``spec.output.s3``).

A table is changed only if it still has the version that was loaded (``VersionId``): otherwise Glue
answers ConcurrentModificationException. Old versions are not kept, because each hour could make
one.

Source: AWS Glue Web API, "Table API" and "Partition API", with the limits of requests.
"""

import time
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from itertools import chain
from typing import Any

import boto3
from botocore.config import Config
from botocore.exceptions import BotoCoreError, ClientError

from landfall.api.secret_keys import lacks
from landfall.errors import DestinationAway, DestinationDenied, Reason, Stalled
from landfall.pipeline.decoders.options import read_options
from landfall.publish import Publisher
from landfall.publish.catalog import Columns, Partition, Table, TableChanged, TableName, Values
from landfall.publish.catalog.files import STORAGES
from landfall.publish.catalog.options import TableOptions, check_scheme, step_publisher
from landfall.publish.context import Context
from landfall.publish.s3_access import MAX_AGE_SECONDS, s3_access
from landfall.store.s3.errors import code_of

_TIMEOUT_SECONDS = 60
_KEYS = {
    "AWS_ACCESS_KEY_ID": "aws_access_key_id",
    "AWS_SECRET_ACCESS_KEY": "aws_secret_access_key",
    "AWS_SESSION_TOKEN": "aws_session_token",
}


class GlueOptions(TableOptions, frozen=True, kw_only=True):
    """Options of ``Glue``, in addition to the common ones of catalogs of files."""

    region: str = ""
    catalog_id: str = ""
    endpoint: str = ""
    scheme: str = "s3"


class Glue:
    """The publisher type ``Glue``."""

    @staticmethod
    def of(options: Mapping[str, object], context: Context) -> Publisher:
        """Build the publisher; see ``PublisherType``."""
        read = read_options(options, GlueOptions)
        check_scheme(read.scheme)
        if read.endpoint and not read.endpoint.startswith(("https://", "http://")):
            raise ValueError(f"option endpoint: {read.endpoint!r} is not a URL")
        client = _Client(read, context)
        catalog = GlueTables(client, read.catalog_id, creates_databases=read.create_database)
        where = read.region, read.catalog_id, read.endpoint
        return step_publisher(
            options=read, context=context, catalog=catalog, scheme=read.scheme, where=where
        )


class _Client:
    """A client of Glue that is recreated every few minutes, with the credentials of that time."""

    def __init__(self, options: GlueOptions, context: Context) -> None:
        self._options = options
        self._context = context
        self._client: Any = None
        self._since = 0.0

    def __call__(self) -> Any:
        if self._client is None or time.monotonic() - self._since > MAX_AGE_SECONDS:
            self._client, self._since = self._connected(), time.monotonic()
        return self._client

    def _connected(self) -> Any:
        region, keys = self._options.region, self._secret()
        if not keys or not region:
            access = s3_access(self._context.group.spec.output.s3)
            region = region or access.region
            own = access.key_id, access.secret_key, access.token
            keys = keys or dict(zip(_KEYS.values(), own, strict=True))
        session: Any = boto3.session.Session()
        try:
            return session.client(
                "glue",
                region_name=region or None,
                endpoint_url=self._options.endpoint or None,
                config=Config(
                    connect_timeout=_TIMEOUT_SECONDS,
                    read_timeout=_TIMEOUT_SECONDS,
                    retries={"mode": "standard", "total_max_attempts": 5},
                ),
                **{name: value or None for name, value in keys.items()},
            )
        except (BotoCoreError, ValueError) as error:
            raise DestinationDenied(f"Glue: {error}") from None

    def _secret(self) -> dict[str, str]:
        ref, secret = self._context.entry.secret_ref, self._context.secret()
        if ref is None:
            return {}
        if missing := lacks("Glue", secret):
            raise DestinationDenied(f"Glue: secret {ref.name!r} {missing}")
        return {name: secret[key] for key, name in _KEYS.items() if key in secret}


_MAX_WRITTEN, _MAX_READ = 100, 1000
"""Partitions in one request: BatchCreatePartition and BatchUpdatePartition, BatchGetPartition."""
_OF_INPUT = (
    "Name",
    "Description",
    "Owner",
    "LastAccessTime",
    "LastAnalyzedTime",
    "Retention",
    "StorageDescriptor",
    "PartitionKeys",
    "ViewOriginalText",
    "ViewExpandedText",
    "TableType",
    "Parameters",
    "TargetTable",
)
"""The fields of Table that TableInput has."""
_OF_PARTITION = ["Values", "LastAccessTime", "StorageDescriptor", "Parameters", "LastAnalyzedTime"]
_DENIED = (
    "AccessDenied",
    "UnrecognizedClient",
    "InvalidSignature",
    "ExpiredToken",
    "InvalidClient",
)
_STALLED = (
    "InvalidInput",
    "ResourceNumberLimitExceeded",
    "ValidationException",
    "GlueEncryption",
    "InvalidState",
)
_ABSENT = "EntityNotFound"
_EXISTS = "AlreadyExists"
_CHANGED = "ConcurrentModification"


class _GlueError(Exception):  # Glue's term
    """Glue's error code, which the caller knows about."""

    def __init__(self, code: str, message: str) -> None:
        super().__init__(message)
        self.code = code


class GlueTables:
    """The tables of a Data Catalog; see ``Catalog``."""

    def __init__(
        self,
        client: Callable[[], Any],
        catalog_id: str = "",
        *,
        creates_databases: bool = False,
    ) -> None:
        """Send no request yet.

        Args:
            client: a client of Glue, with the credentials as they are now.
            catalog_id: the account; if empty, the one that owns the credentials.
            creates_databases: whether databases that do not exist are created.
        """
        self._client = client
        self._creates_databases = creates_databases
        self._catalog = {"CatalogId": catalog_id} if catalog_id else {}

    def load(self, name: TableName) -> Table | None:
        """See ``Catalog``."""
        try:
            answer = self._ask(name, "get_table", DatabaseName=name.database, Name=name.table)
        except _GlueError as error:
            if error.code.startswith(_ABSENT):
                return None
            raise _away(name, error) from error
        found = answer["Table"]
        descriptor = found.get("StorageDescriptor", {})
        return Table(
            name=name,
            location=descriptor.get("Location", ""),
            columns=_columns(descriptor),
            keys=tuple(key["Name"] for key in found.get("PartitionKeys", ())),
            storage=None,
            properties=found.get("Parameters", {}),
            is_external=found.get("TableType", "EXTERNAL_TABLE") == "EXTERNAL_TABLE",
            found=found,
        )

    def create(self, table: Table) -> None:
        """See ``Catalog``."""
        if self._creates_databases:
            self._create_database(table.name)
        storage = table.storage or STORAGES["Text"]
        wanted = {
            "Name": table.name.table,
            "TableType": "EXTERNAL_TABLE",
            "Parameters": {**table.properties, "classification": storage.classification},
            "PartitionKeys": [{"Name": key, "Type": "string"} for key in table.keys],
            "StorageDescriptor": {
                "Columns": [{"Name": name, "Type": type_} for name, type_ in table.columns.items()],
                "Location": table.location,
                "InputFormat": storage.input_format,
                "OutputFormat": storage.output_format,
                "SerdeInfo": {
                    "SerializationLibrary": storage.serde,
                    "Parameters": {"serialization.format": "1", **storage.parameters},
                },
            },
        }
        try:
            self._ask(
                table.name, "create_table", DatabaseName=table.name.database, TableInput=wanted
            )
        except _GlueError as error:
            if error.code.startswith(_ABSENT):
                raise Stalled(
                    Reason.DESTINATION_CONFLICT,
                    f"table {table.name}: there is no database {table.name.database}; create it, "
                    "or set createDatabase",
                ) from error
            if not error.code.startswith(_EXISTS):
                raise _away(table.name, error) from error

    def change(self, table: Table, columns: Columns, properties: Mapping[str, str]) -> None:
        """See ``Catalog``."""
        wanted = {name: table.found[name] for name in _OF_INPUT if name in table.found}
        wanted["Parameters"] = dict(properties)
        wanted["StorageDescriptor"] = _with_columns(table.found["StorageDescriptor"], columns)
        version = {"VersionId": table.found["VersionId"]} if "VersionId" in table.found else {}
        try:
            self._ask(
                table.name,
                "update_table",
                DatabaseName=table.name.database,
                TableInput=wanted,
                SkipArchive=True,
                **version,
            )
        except _GlueError as error:
            raise TableChanged from error

    def partitions(self, table: Table, values: Sequence[Values]) -> list[Partition]:
        """See ``Catalog``."""
        found: list[Any] = []
        for batch in _batches(values, _MAX_READ):
            keys = [{"Values": [*row]} for row in batch]
            while keys:
                try:
                    answer = self._ask(
                        table.name, "batch_get_partition", **_of(table), PartitionsToGet=keys
                    )
                except _GlueError as error:
                    if error.code.startswith(_ABSENT):
                        return []
                    raise _away(table.name, error) from error
                got, keys = answer.get("Partitions", []), answer.get("UnprocessedKeys", [])
                found += got
                if keys and not got:
                    raise DestinationAway(f"Glue: table {table.name}: partitions are not read")
        return [
            Partition(
                tuple(entry["Values"]),
                entry.get("StorageDescriptor", {}).get("Location", ""),
                _columns(entry.get("StorageDescriptor", {})),
                entry,
            )
            for entry in found
        ]

    def add(self, table: Table, partitions: Sequence[Partition]) -> None:
        """See ``Catalog``."""
        descriptor = table.found["StorageDescriptor"]
        for batch in _batches(partitions, _MAX_WRITTEN):
            wanted = [
                {
                    "Values": [*partition.values],
                    "StorageDescriptor": {**descriptor, "Location": partition.location},
                }
                for partition in batch
            ]
            self._write(table, "batch_create_partition", PartitionInputList=wanted)

    def widen(self, table: Table, partitions: Sequence[Partition], columns: Columns) -> None:
        """See ``Catalog``."""
        for batch in _batches(partitions, _MAX_WRITTEN):
            entries = []
            for partition in batch:
                wanted = {
                    name: partition.found[name] for name in _OF_PARTITION if name in partition.found
                }
                descriptor = partition.found.get("StorageDescriptor", {})
                wanted["StorageDescriptor"] = _with_columns(descriptor, columns)
                entries.append(
                    {"PartitionValueList": [*partition.values], "PartitionInput": wanted}
                )
            if entries:
                self._write(table, "batch_update_partition", Entries=entries)

    def _write(self, table: Table, method: str, **arguments: Any) -> None:
        """Call a method that returns errors by partition."""
        try:
            answer = self._ask(table.name, method, **_of(table), **arguments)
        except _GlueError as error:
            raise _away(table.name, error) from error
        for failure in answer.get("Errors") or ():
            detail = failure.get("ErrorDetail", {})
            code, message = detail.get("ErrorCode", ""), detail.get("ErrorMessage", "")
            if code.startswith((_EXISTS, _ABSENT)):
                continue  # another client was first; its result is looked at
            values = failure.get("PartitionValues") or failure.get("PartitionValueList") or ()
            named = f"table {table.name}: partition {'/'.join(values)}: {code}: {message}"
            if code.startswith(_STALLED):
                raise Stalled(Reason.DESTINATION_CONFLICT, named)
            raise DestinationAway(f"Glue: {named}")

    def _create_database(self, name: TableName) -> None:
        try:
            self._ask(name, "create_database", DatabaseInput={"Name": name.database})
        except _GlueError as error:
            if not error.code.startswith(_EXISTS):
                raise _away(name, error) from error

    def _ask(self, name: TableName, method: str, **arguments: Any) -> Any:
        with _errors(name):
            return getattr(self._client(), method)(**self._catalog, **arguments)


@contextmanager
def _errors(name: TableName) -> Iterator[None]:
    try:
        yield
    except ClientError as error:
        code, message = code_of(error), error.response.get("Error", {}).get("Message", "")
        if code.startswith((_ABSENT, _EXISTS, _CHANGED)):
            raise _GlueError(code, message) from None
        named = f"Glue: table {name}: {code}: {message}"
        if code.startswith(_DENIED):
            raise DestinationDenied(named) from None
        if code.startswith(_STALLED):
            raise Stalled(Reason.DESTINATION_CONFLICT, named) from None
        raise DestinationAway(named) from None
    except BotoCoreError as error:
        raise DestinationAway(f"Glue: table {name}: {error}") from None


def _away(name: TableName, error: _GlueError) -> DestinationAway:
    return DestinationAway(f"Glue: table {name}: {error.code}: {error}")


def _of(table: Table) -> dict[str, str]:
    return {"DatabaseName": table.name.database, "TableName": table.name.table}


def _columns(descriptor: Mapping[str, Any]) -> Columns:
    return {column["Name"]: column.get("Type", "") for column in descriptor.get("Columns", ())}


def _with_columns(descriptor: Mapping[str, Any], columns: Columns) -> dict[str, Any]:
    there = _columns(descriptor)
    added = ({"Name": name, "Type": t} for name, t in columns.items() if name not in there)
    return {**descriptor, "Columns": [*chain(descriptor.get("Columns", ()), added)]}


def _batches(all_: Sequence[Any], size: int) -> Iterator[Sequence[Any]]:
    for start in range(0, len(all_), size):
        yield all_[start : start + size]
