"""A DAG that takes files of a feed with ``process: External``, and has a task for each of them.

``take`` leases files. ``process`` says of each whether it is done or failed. ``give_back`` says of
the others, whose tasks were killed, that they failed. Landfall offers failed files again, to a
later run. A run that is cleared when its lease is over takes no other files: start a new one.

The connection ``landfall`` has the driver's address, and its token as the password. It was tried
with Airflow 3.3.
"""

import gzip
from datetime import timedelta
from typing import Any

import boto3
from airflow.sdk import DAG, Connection, task
from airflow.sdk.exceptions import AirflowFailException, AirflowSkipException
from leases import Driver, Failed, Refused

NAME, FEED, FILES = "hits_files", "hits", 100
LEASE_SECONDS = 3600
"""Longer than a file takes, with its time in the queue: each task that begins extends the lease."""


def count_rows(file: dict[str, Any]) -> int:
    """How many rows a file has: put here what you do with one.

    Name what you write by ``file["lease"]`` and ``file["number"]``. Then a task that is tried again
    overwrites its own, and one that is too late nothing of the worker who has the file now.
    """
    bucket, _, key = file["url"].removeprefix("s3://").partition("/")
    # Only the version that was taken: if the file was written again, that has a number of its own.
    version = boto3.client("s3").get_object(Bucket=bucket, Key=key, IfMatch=f'"{file["etag"]}"')
    return len(gzip.decompress(version["Body"].read()).splitlines())


def driver() -> Driver:
    """The driver of the group."""
    at = Connection.get("landfall")
    return Driver(f"http://{at.host}:{at.port}", at.password, who=f"airflow:{NAME}")


with DAG(
    NAME,
    schedule="*/10 * * * *",
    catchup=False,
    max_active_runs=1,
    default_args={"retries": 3, "retry_delay": timedelta(seconds=30)},
):

    @task
    def take(run_id: str | None = None) -> list[dict[str, Any]]:
        """The files of this run. A task that is tried again gets the same ones, by the id."""
        asked = {"topic": FEED, "limit": FILES, "leaseSeconds": LEASE_SECONDS}
        try:
            taken = driver().ask("files-take", **asked, id=f"{NAME}/{run_id}/take")
        except Refused as error:
            raise AirflowFailException(str(error)) from error
        if taken["lease"] is None:
            raise AirflowSkipException(taken["message"])
        return [{"lease": taken["lease"], **file} for file in taken["files"]]

    @task
    def process(file: dict[str, Any], run_id: str | None = None) -> int:
        """Process one file."""
        try:
            with driver().processing(file, f"{NAME}/{run_id}", LEASE_SECONDS):
                return count_rows(file)
        except (Failed, Refused) as error:
            # Landfall decides when the file is tried again, not Airflow.
            raise AirflowFailException(str(error)) from error

    @task
    def give_back(files: list[dict[str, Any]]) -> None:
        """Nothing is left of the lease."""
        try:
            driver().ask("files-failed", lease=files[0]["lease"], why="its task was killed")
        except Refused as error:
            print(f"nothing was left: {error}")  # noqa: T201  # for the log of the task

    files = take()
    # A teardown runs whether or not the tasks before it failed, and does not make a run succeed.
    process.expand(file=files) >> give_back(files).as_teardown(setups=files)
