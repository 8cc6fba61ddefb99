"""What a metastore or Glue may answer becomes Retry or Stalled, whatever it is."""

import socket
import threading
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import boto3
import pytest
from botocore.stub import Stubber
from hypothesis import given, settings
from hypothesis import strategies as st

from landfall.errors import DestinationAway, DestinationDenied, Stalled
from landfall.publish.building import publisher
from landfall.publish.catalog import Partition, Table, TableChanged, TableName
from landfall.publish.catalog.glue import GlueTables
from landfall.publish.catalog.hive import Metastore
from landfall.publish.catalog.thrift_client import ThriftClient
from tests.support.examples import share
from tests.support.publishers.lake import CLICKS, Landed

NAME = TableName("lake", "clicks")
FOUND = {
    "Name": "clicks",
    "VersionId": "7",
    "StorageDescriptor": {"Location": "s3://b/clicks", "Columns": []},
    "PartitionKeys": [{"Name": "dt"}],
}


@contextmanager
def answering(body: bytes) -> Iterator[tuple[str, int]]:
    """A server that answers with these bytes, and hangs up."""
    with socket.create_server(("127.0.0.1", 0)) as server:

        def serve() -> None:
            connection, _ = server.accept()
            with connection:
                connection.recv(65536)
                connection.sendall(body)

        thread = threading.Thread(target=serve)
        thread.start()
        yield server.getsockname()
        thread.join()


@settings(max_examples=share(60))
@given(
    st.one_of(
        st.binary(max_size=60),
        st.binary(max_size=60).map(
            lambda rest: b"\x80\x01\x00\x02\x00\x00\x00\x0dget_table_req" + rest
        ),
    )
)
def test_whatever_answers_instead_of_a_metastore_is_asked_again(body: bytes) -> None:
    with answering(body) as address, pytest.raises(DestinationAway, match="Hive metastore"):
        Metastore(ThriftClient([address], 5)).load(NAME)


def test_the_next_metastore_is_asked_and_none_at_all_is_an_outage() -> None:
    with socket.create_server(("127.0.0.1", 0)) as closed:
        away = closed.getsockname()
    with answering(b"") as address, pytest.raises(DestinationAway):
        Metastore(ThriftClient([away, address], 5)).load(NAME)

    with pytest.raises(DestinationAway, match="Hive metastore"):
        Metastore(ThriftClient([away], 5)).load(NAME)


@pytest.fixture
def glue() -> Iterator[tuple[GlueTables, Stubber]]:
    keys = {"aws_access_key_id": "a", "aws_secret_access_key": "b"}
    client = boto3.client("glue", "eu-west-1", **keys)  # type: ignore[call-overload]
    with Stubber(client) as stubber:
        yield GlueTables(lambda: client), stubber


@pytest.mark.parametrize(
    ("code", "expected"),
    [
        ("AccessDeniedException", DestinationDenied),
        ("ThrottlingException", DestinationAway),
        ("InternalServiceException", DestinationAway),
        ("InvalidInputException", Stalled),
        ("SomethingNew", DestinationAway),
    ],
)
def test_errors_of_glue(
    glue: tuple[GlueTables, Stubber], code: str, expected: type[Exception]
) -> None:
    tables, stubber = glue
    stubber.add_client_error("get_table", code, "why")

    with pytest.raises(expected, match=r"lake\.clicks: .*why"):
        tables.load(NAME)


def test_glue_changes_a_table_only_in_the_version_that_was_loaded(
    glue: tuple[GlueTables, Stubber],
) -> None:
    tables, stubber = glue
    stubber.add_response("get_table", {"Table": FOUND})
    expected = {
        "DatabaseName": "lake",
        "VersionId": "7",
        "SkipArchive": True,
        "TableInput": {
            "Name": "clicks",
            "Parameters": {"p": "1"},
            "PartitionKeys": [{"Name": "dt"}],
            "StorageDescriptor": {
                "Location": "s3://b/clicks",
                "Columns": [{"Name": "a", "Type": "int"}],
            },
        },
    }
    stubber.add_client_error(
        "update_table", "ConcurrentModificationException", expected_params=expected
    )
    table = tables.load(NAME)
    assert isinstance(table, Table)

    with pytest.raises(TableChanged):
        tables.change(table, {"a": "int"}, {"p": "1"})


@pytest.mark.parametrize(
    ("code", "expected"),
    [
        ("AlreadyExistsException", None),
        ("InvalidInputException", Stalled),
        ("InternalServiceException", DestinationAway),
    ],
)
def test_errors_of_a_single_partition(
    glue: tuple[GlueTables, Stubber], code: str, expected: type[Exception] | None
) -> None:
    tables, stubber = glue
    detail: dict[str, Any] = {"ErrorCode": code, "ErrorMessage": "why"}
    stubber.add_response("get_table", {"Table": FOUND})
    stubber.add_response(
        "batch_create_partition",
        {"Errors": [{"PartitionValues": ["2026"], "ErrorDetail": detail}]},
    )
    table = tables.load(NAME)
    assert table
    wanted = [Partition(("2026",), "s3://b/clicks/dt=2026", {})]

    if expected is None:
        tables.add(table, wanted)
        return
    with pytest.raises(expected, match=r"partition 2026: .*why"):
        tables.add(table, wanted)


def test_a_secret_without_its_keys_is_a_refusal(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    (tmp_path / "secrets/aws").mkdir(parents=True)
    (tmp_path / "secrets/aws/AWS_ACCESS_KEY_ID").write_text("hidden")
    monkeypatch.setenv("LANDFALL_SECRETS", str(tmp_path / "secrets"))
    landed = Landed(tmp_path).land(CLICKS).settle()
    context = landed.context("Glue", {"region": "x"}, entry={"secretRef": {"name": "aws"}})

    with pytest.raises(DestinationDenied, match="lacks AWS_SECRET_ACCESS_KEY") as denied:
        publisher(context.group, context.entry, landed.store).publish(landed.follower())

    assert "hidden" not in str(denied.value)
