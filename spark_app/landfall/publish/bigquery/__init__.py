"""BigQuery: landed files are loaded into tables by load jobs, each file exactly once.

BigQuery keeps no position with the rows of a load, but it runs one job per id. ``loads`` defines
what is decided before a job is submitted, ``chain`` stores it next to the ledger, ``running``
completes a job, ``tables`` decides the loads of a table, ``warehouse`` and ``staging`` call
Google's services, ``kinds`` groups files by schema, ``options`` reads the options.
"""

from collections.abc import Mapping
from dataclasses import dataclass
from functools import lru_cache
from typing import TYPE_CHECKING, Any

import google.auth
import google.auth.credentials
import google.auth.exceptions

from landfall.api.secret_keys import BIGQUERY_KEY
from landfall.errors import Reason, Stalled
from landfall.ledger.names.object_names import parse_key
from landfall.ledger.task_results import LandedObject
from landfall.publish import Published
from landfall.publish.bigquery.chain import Chains
from landfall.publish.bigquery.kinds import Kinds
from landfall.publish.bigquery.loads import LoadLimits
from landfall.publish.bigquery.options import (
    DEFAULT_TABLE,
    BigQueryOptions,
    checked,
    format_of,
    table_name,
)
from landfall.publish.bigquery.running import JobRunner, JobTimes, Staging
from landfall.publish.bigquery.staging import CopiedToBucket, InPlace, StagingBucket
from landfall.publish.bigquery.tables import LoadedTables, LoadSettings
from landfall.publish.bigquery.warehouse import BigQueryWarehouse, Warehouse
from landfall.publish.choice import TableChoice, skipped
from landfall.publish.context import Context
from landfall.publish.cursor import PublisherCursor
from landfall.publish.following import Follower
from landfall.publish.table_names import check_has_one_publisher, destination
from landfall.publish.tables import TablePublisher

if TYPE_CHECKING:
    from collections.abc import Iterator

    from landfall.publish.health import Question, TableHealth

_SCOPES = ("https://www.googleapis.com/auth/cloud-platform",)


@dataclass(frozen=True)
class Services:
    """Outside services: BigQuery, the place where it finds objects, and times."""

    warehouse: Warehouse
    staging: Staging
    schedule: JobTimes


class BigQuery:
    """The publisher ``BigQuery``; see ``Publisher``."""

    def __init__(
        self, options: BigQueryOptions, context: Context, services: Services | None = None
    ) -> None:
        """Make no request; clients are created on demand, with the secret of that time."""
        self._options = options
        self._context = context
        self._services = services

    @classmethod
    def of(cls, options: Mapping[str, object], context: Context) -> "BigQuery":
        """See ``PublisherType``."""
        read = checked(options, context.group, context.entry.min_interval)
        check_has_one_publisher(
            context,
            read.table,
            lambda template, topic: template.replace("{topic}", topic),
            default=DEFAULT_TABLE,
            place=("project", "dataset"),
        )
        return cls(read, context)

    def publish(self, follower: Follower) -> Published:
        """See ``Publisher``. ``Now`` is the first pass, whether it loads anything or not."""
        return self._tables(decides=self._options.start_at == "Now").publish(follower)

    def position(self) -> int:
        """See ``Publisher``."""
        return self._cursor().read().published

    def preview(self, follower: Follower) -> "Iterator[str]":
        """See ``Publisher``."""
        yield from self._tables().preview(follower)

    def health(self, follower: Follower, question: "Question") -> "Iterator[TableHealth]":
        """See ``HasTables``. Of tables it is known what they have, by their chains of loads."""
        yield from self._tables().health(follower, question)

    def reset(self, follower: Follower) -> None:
        """See ``Publisher``. The rows of a table stay until its next load replaces them."""
        self._tables().reset(follower)

    def _cursor(self) -> PublisherCursor:
        read = self._options
        parts = read.project, read.dataset, read.table
        return self._context.cursor(destination(self._context, *parts))

    def _tables(self, *, decides: bool = False) -> TablePublisher:
        """The tables; ``decides``: where loads begin is decided now, and not by the first load."""
        context, read = self._context, self._options
        services = self._services or self._connected()
        lane = context.group.metadata.name, context.lane
        kinds = Kinds(context.store, _format_of(context))
        labels = {
            **read.labels,
            "landfall_group": _label(lane[0]),
            "landfall_lane": _label(lane[1]),
        }
        chains = Chains(context.store, lane, context.name)
        begin = chains.begin() or (chains.begin(self._start()) if decides else None)
        after = begin.after if begin else self._start()
        settings = LoadSettings(
            read.job_project or read.project,
            LoadLimits(read.max_objects, read.max_bytes),
            kinds.of,
            lambda: after,
        )
        runner = JobRunner(
            warehouse=services.warehouse,
            staging=services.staging,
            format_of=kinds.format_of,
            labels=labels,
            schedule=services.schedule,
            problem_of=kinds.problem_of,
        )
        choice = TableChoice(after + 1, skipped(read.skip, context.url("")))
        return TablePublisher(
            context.follower,
            self._cursor(),
            LoadedTables(chains, runner, settings),
            self._table_of,
            workers=read.parallel,
            choice=choice,
        )

    def _start(self) -> int:
        """The slot that the first loads follow."""
        start = self._options.start_at
        if isinstance(start, int):
            return int(start) - 1
        if start == "Beginning":
            return -1
        stretches = self._context.follower().stretches(-1)
        return max((stretch.through for stretch in stretches), default=-1)

    def _table_of(self, landed: LandedObject) -> str | None:
        name = self._context.object_name(landed.key)
        try:
            return table_name(self._options, name) if name else None
        except ValueError as error:
            raise Stalled(Reason.SPEC_INVALID, f"BigQuery: {error}") from error

    def _connected(self) -> Services:
        read, context = self._options, self._context
        credentials = self._credentials()
        warehouse = BigQueryWarehouse(
            settings=read.table_settings,
            project=read.job_project or read.project,
            credentials=credentials,
            endpoint=read.endpoint,
            timeout=read.timeout_seconds,
        )
        staging: Staging = InPlace(context.url)
        if read.staging:
            lane = f"{context.group.metadata.name}/{context.lane}/{context.name}"
            bucket = StagingBucket(
                url=f"{read.staging.rstrip('/')}/{lane}",
                project=read.project,
                credentials=credentials,
                endpoint=read.storage_endpoint,
                timeout=read.timeout_seconds,
            )
            staging = CopiedToBucket(context.store, bucket, keep=read.keep_staged)
        return Services(warehouse, staging, JobTimes())

    def _credentials(self) -> Any:
        """Return the secret's credentials; None for the machine's."""
        google_auth: Any = google.auth
        ref = self._context.entry.secret_ref
        if ref is None and self._options.endpoint.startswith("http://"):
            # An emulator: no token is sent over such a connection.
            return google_auth.credentials.AnonymousCredentials()
        if ref is None:
            return None
        path = self._context.secret_path(BIGQUERY_KEY)
        try:
            return google_auth.load_credentials_from_file(path, scopes=_SCOPES)[0]
        except (google.auth.exceptions.GoogleAuthError, ValueError, OSError) as error:
            # Only the type is named: the text may quote the file.
            raise Stalled(
                Reason.SPEC_INVALID,
                f"BigQuery: the key {BIGQUERY_KEY} of secret {ref.name!r} is no file of "
                f"credentials: {type(error).__name__}",
            ) from None


def _format_of(context: Context) -> Any:
    by_topic = lru_cache(10_000)(lambda topic: format_of(context.group, topic))
    return lambda key: by_topic(parse_key(key).topic)


def _label(text: str) -> str:
    """Text as the value of a label: of lower case letters, digits, - and _, 63 at most."""
    return "".join(c if c.isalnum() or c in "-_" else "_" for c in text.lower())[:63]
