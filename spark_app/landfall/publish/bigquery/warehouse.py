"""BigQuery for a publisher: a protocol, and its implementation by Google's client.

A job runs once for its id: a second request with the same id gets 409 ("Already Exists: Job …"),
with any content and however the first one ended. So after any answer, or none, the job is looked up
by its id, and handled by its state. Sources: BigQuery API v2, ``jobs.insert``, ``jobs.get``,
``Job``; "Troubleshoot BigQuery", error table.
"""

from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager, suppress
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any, Protocol

from google.api_core import exceptions
from google.auth import exceptions as auth_exceptions
from google.cloud import bigquery

from landfall.errors import (
    DestinationAway,
    DestinationDenied,
    LandfallError,
    Reason,
    Stalled,
)

if TYPE_CHECKING:
    from google.auth.credentials import Credentials

PASSING = frozenset(
    {
        "backendError",
        "internalError",
        "jobBackendError",
        "jobInternalError",
        "jobRateLimitExceeded",
        "quotaExceeded",
        "rateLimitExceeded",
        "stopped",
        "tableUnavailable",
        "timeout",
    }
)
"""Reasons of errors after which the same may succeed."""
DONE = "DONE"
_DECIMALS = ("NUMERIC", "BIGNUMERIC", "STRING")
"""The first that has room for the precision and scale of a column is its type."""


@dataclass(frozen=True)
class JobRef:
    """By what a job is known."""

    id: str
    project: str
    location: str


@dataclass(frozen=True)
class LoadRequest:
    """The request for a load job.

    Attributes:
        table: ``project.dataset.table``.
        uris: ``gs://`` of the objects.
        format: ``AVRO``, ``PARQUET`` or ``NEWLINE_DELIMITED_JSON``.
        replaces: whether the rows of the table are replaced.
        creates: whether the table is created if there is none.
        labels: of the job.
    """

    table: str
    uris: Sequence[str]
    format: str
    replaces: bool
    creates: bool
    labels: Mapping[str, str]


@dataclass(frozen=True)
class JobState:
    """The state of a job.

    Attributes:
        is_over: whether it has ended.
        is_load: whether it is a load job, not one that only uses up an id.
        labels: that it was submitted with.
        rows: that it loaded.
        reason: of its failure, as BigQuery calls it; empty if it did not fail.
        message: all its messages about the failure.
    """

    is_over: bool
    is_load: bool
    labels: Mapping[str, str]
    rows: int = 0
    reason: str = ""
    message: str = ""


class Warehouse(Protocol):
    """The calls to BigQuery that a publisher makes.

    Every method raises ``Retry`` if BigQuery does not answer, and ``Stalled`` if it refuses.
    """

    def location(self, dataset: str) -> str:
        """The location of a data set ``project.dataset``."""
        ...

    def exists(self, table: str) -> bool:
        """Return whether a table exists."""
        ...

    def submit(self, job: JobRef, load: LoadRequest) -> None:
        """Submit a load job; afterwards there is a job with this id, perhaps another one."""
        ...

    def use_up(self, job: JobRef) -> None:
        """Submit a job that does nothing; afterwards there is a job with this id."""
        ...

    def find(self, job: JobRef) -> JobState | None:
        """The state of a job; None if there is none."""
        ...


@dataclass(frozen=True)
class BigQueryTableSettings:
    """How loads create and change tables.

    Attributes:
        creates: whether tables are created.
        partitioning: type (``HOUR``, ``DAY``, …) and column, "" for the time of the load.
        expiration_ms: after which partitions are dropped.
        clustering: columns.
        updates: schema update options.
        dataset_location: where data sets are created; "" to create none.
    """

    creates: bool = True
    partitioning: tuple[str, str] | None = None
    expiration_ms: int | None = None
    clustering: tuple[str, ...] = ()
    updates: tuple[str, ...] = ()
    dataset_location: str = ""


class BigQueryWarehouse:
    """BigQuery by Google's client. Nothing is retried here."""

    def __init__(
        self,
        settings: BigQueryTableSettings,
        project: str,
        credentials: "Credentials | None",
        endpoint: str = "",
        timeout: float = 60,
    ) -> None:
        """Create the client, without a request except for the machine's credentials."""
        options = {"api_endpoint": endpoint} if endpoint else None
        with translated_errors("credentials"):
            self._client: Any = bigquery.Client(project, credentials, client_options=options)
        self._settings = settings
        self._call: dict[str, Any] = {"retry": None, "timeout": timeout}

    def location(self, dataset: str) -> str:
        """See ``Warehouse``."""
        with translated_errors(f"data set {dataset}"):
            try:
                found = self._client.get_dataset(dataset, **self._call)
            except exceptions.NotFound:
                if not self._settings.dataset_location:
                    raise
                new = bigquery.Dataset(dataset)
                new.location = self._settings.dataset_location
                # Another of its tables may create it at the same time.
                with suppress(exceptions.Conflict, exceptions.BadRequest):
                    self._client.create_dataset(new, exists_ok=True, **self._call)
                found = self._client.get_dataset(dataset, **self._call)
        return str(found.location or "US")

    def exists(self, table: str) -> bool:
        """See ``Warehouse``."""
        with translated_errors(f"table {table}"):
            try:
                self._client.get_table(table, **self._call)
            except exceptions.NotFound:
                return False
        return True

    def submit(self, job: JobRef, load: LoadRequest) -> None:
        """See ``Warehouse``."""
        # After any answer the job may exist: only looking it up shows it.
        with self._looked_up(job), translated_errors(f"table {load.table}: job {job.id}"):
            self._client.load_table_from_uri(
                list(load.uris),
                load.table,
                job_id=job.id,
                location=job.location,
                project=job.project,
                job_config=self._config(load),
                **self._call,
            )

    def use_up(self, job: JobRef) -> None:
        """See ``Warehouse``."""
        with self._looked_up(job), translated_errors(f"job {job.id}"):
            self._client.query(
                "SELECT 1",
                job_id=job.id,
                location=job.location,
                project=job.project,
                job_retry=None,
                **self._call,
            )

    def find(self, job: JobRef) -> JobState | None:
        """See ``Warehouse``."""
        with translated_errors(f"job {job.id}"):
            try:
                found = self._client.get_job(
                    job.id, project=job.project, location=job.location, **self._call
                )
            except exceptions.NotFound:
                return None
            # Every answer of BigQuery has a state; without one, the job has not ended.
            error = found.error_result or {}
            more = [str(detail.get("message", "")) for detail in found.errors or ()]
            is_load = found.job_type == "load"
            return JobState(
                is_over=found.state == DONE,
                is_load=is_load,
                labels=dict(found.labels or {}),
                rows=int(found.output_rows or 0) if is_load else 0,
                reason=str(error.get("reason", "invalid")) if error else "",
                message="; ".join(dict.fromkeys([str(error.get("message", "")), *more])),
            )

    @contextmanager
    def _looked_up(self, job: JobRef) -> Iterator[None]:
        try:
            yield
        except LandfallError:
            if self.find(job) is None:
                raise

    def _config(self, load: LoadRequest) -> Any:
        made = self._settings
        config = bigquery.LoadJobConfig(source_format=load.format)
        config.write_disposition = "WRITE_TRUNCATE" if load.replaces else "WRITE_APPEND"
        creates = load.creates and made.creates
        config.create_disposition = "CREATE_IF_NEEDED" if creates else "CREATE_NEVER"
        config.labels = dict(load.labels)
        if load.format in {"AVRO", "PARQUET"}:
            # By default NUMERIC alone: 29 digits before the point, 9 after it.
            config.decimal_target_types = _DECIMALS
        if load.format == "AVRO":
            config.use_avro_logical_types = True
        if load.format == "NEWLINE_DELIMITED_JSON":
            config.autodetect = creates or bool(made.updates)
        if load.format == "PARQUET":
            config.parquet_options = bigquery.ParquetOptions.from_api_repr(
                {"enableListInference": True}
            )
        # With WRITE_TRUNCATE the table gets the schema of the files; options are refused.
        if made.updates and not load.replaces:
            config.schema_update_options = list(made.updates)
        if creates:
            _describe_new_table(config, made)
        return config


def _describe_new_table(config: Any, made: BigQueryTableSettings) -> None:
    if made.partitioning:
        kind, column = made.partitioning
        config.time_partitioning = bigquery.TimePartitioning(
            type_=kind, field=column or None, expiration_ms=made.expiration_ms
        )
    if made.clustering:
        config.clustering_fields = list(made.clustering)


@contextmanager
def translated_errors(what: str) -> Iterator[None]:
    """Translate errors of Google's clients, with their subject.

    Raises:
        DestinationAway: there was no answer, or one after which the same may succeed.
        DestinationDenied: credentials or permissions are missing.
        Stalled: DESTINATION_CONFLICT, it refuses the request.
    """
    try:
        yield
    except LandfallError:
        raise
    except exceptions.GoogleAPICallError as error:
        raise _of_answer(what, error) from error
    except auth_exceptions.GoogleAuthError as error:
        if getattr(error, "retryable", False) or isinstance(error, auth_exceptions.TransportError):
            raise DestinationAway(f"BigQuery: {what}: no token: {type(error).__name__}") from error
        raise DestinationDenied(
            f"BigQuery: {what}: no token: {type(error).__name__}: put credentials into the secret "
            "of secretRef as credentials.json, or give the pod a workload identity"
        ) from error
    except Exception as error:
        # The client passes on errors of its transport, and of malformed answers, in many types. The
        # request may have been executed.
        raise DestinationAway(f"BigQuery: {what}: {type(error).__name__}: {error}") from error


def _of_answer(what: str, error: exceptions.GoogleAPICallError) -> LandfallError:
    reasons = {str(detail.get("reason", "")) for detail in error.errors if isinstance(detail, dict)}
    message = f"BigQuery: {what}: {error.code} {error.message}"
    if (
        not isinstance(error, exceptions.ClientError)
        or error.code in {408, 429}
        or reasons & PASSING
    ):
        return DestinationAway(message)
    if error.code in {401, 403}:
        return DestinationDenied(message)
    return Stalled(Reason.DESTINATION_CONFLICT, message)
