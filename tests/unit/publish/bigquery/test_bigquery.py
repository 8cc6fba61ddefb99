"""The publisher ``BigQuery``: its options, and what it makes of answers of Google's services."""

import io
import zlib
from collections.abc import Sequence
from pathlib import Path
from typing import Any

import fastavro
import pyarrow as pa
import pyarrow.parquet as pq
import pytest
import requests
from google.api_core import exceptions
from google.auth import exceptions as auth_exceptions
from google.auth.credentials import AnonymousCredentials

from landfall.errors import DestinationAway, DestinationDenied, LandfallError, Stalled
from landfall.ledger.names.object_names import parse_key
from landfall.publish.bigquery.kinds import AVRO, JSON, PARQUET, Kinds
from landfall.publish.bigquery.loads import Begin as Beginning
from landfall.publish.bigquery.loads import LoadedObject, job_id
from landfall.publish.bigquery.options import checked, table_name
from landfall.publish.bigquery.staging import CopiedToBucket, InPlace, StagingBucket
from landfall.publish.bigquery.warehouse import (
    BigQueryTableSettings,
    BigQueryWarehouse,
    LoadRequest,
    translated_errors,
)
from landfall.publish.building import check_publishers, publisher
from landfall.publish.context import Context
from landfall.store.memory import MemoryStore
from tests.support.driver.fakes import group
from tests.support.publishers.lake import Landed

OPTIONS = {"project": "shop-prod", "dataset": "raw", "staging": "gs://stage/landfall"}
PLAIN = {"options": {"envelope": False}}


def context_of(root: Path, options: dict[str, Any], **spec: Any) -> Context:
    return Landed(root).context("BigQuery", options, **({"output": PLAIN} | spec))


def test_a_publisher_is_built_without_a_request(tmp_path: Path) -> None:
    context = context_of(tmp_path, OPTIONS)

    built = publisher(context.group, context.entry, context.store)

    assert built.position() == -1


@pytest.mark.parametrize(
    ("options", "spec", "message"),
    [
        ({"project": "No Project"}, {}, r"options.project: no id of a project: 'No Project'"),
        ({"jobProject": "1"}, {}, r"options.jobProject"),
        ({"dataset": "raw-data"}, {}, r"options.dataset: BigQuery has no such name"),
        ({"table": "a.b"}, {}, r"options.table: BigQuery has no such name"),
        ({"table": "{topic"}, {}, r"options.table: not a template such as"),
        ({"staging": "s3://b"}, {}, r"options.staging: no gs://BUCKET/PREFIX: 's3://b'"),
        ({"staging": "gs://b*d/x"}, {}, r"options.staging"),
        ({"staging": ""}, {}, r"options.staging: BigQuery does not read file:///"),
        ({"createDatasetIn": "e u"}, {}, r"options.createDatasetIn: no location: 'e u'"),
        ({"labels": {"A": "b"}}, {}, r"options.labels: not a label of BigQuery: A=b"),
        ({"labels": {"landfall_load": "b"}}, {}, r"options.labels"),
        ({"maxObjects": 10_001}, {}, "options: Expected `int` <= 10000"),
        ({"tabel": "x"}, {}, "unknown option tabel.*table"),
        ({"startAt": "Tomorrow"}, {}, r"options: .*startAt"),
        ({}, {"entry": {"minInterval": "30s"}}, "1,500 loads of a table a day"),
        (
            {},
            {"output": {"format": "Orc"}},
            r"spec.output.format: BigQuery loads Avro, Parquet and",
        ),
        ({}, {"output": {"format": "Parquet"}}, r"spec.output.options.envelope: must be false"),
        ({}, {"output": {"format": "Json", "codec": "Zstd"}}, r"output.codec: BigQuery reads Json"),
    ],
)
def test_what_does_not_fit_is_said_before_anything_is_done(
    tmp_path: Path, options: dict[str, Any], spec: dict[str, Any], message: str
) -> None:
    context = context_of(tmp_path, OPTIONS | options, **spec)

    with pytest.raises(Stalled, match=rf"spec\.publish\[0\].*{message}"):
        publisher(context.group, context.entry, context.store)


@pytest.mark.parametrize(
    ("topics", "other", "is_refused"),
    [
        (["clicks"], {"topics": ["cl.*"]}, True),
        (["clicks"], {}, True),
        ([], {"topics": ["clicks"]}, True),
        (["clicks"], {"topics": ["orders"]}, False),
        (["clicks"], {"topics": ["clicks"], "options": {"table": "c"}}, False),
        (["clicks"], {"topics": ["clicks"], "options": {"dataset": "d"}}, False),
    ],
)
def test_an_object_is_not_loaded_into_one_table_by_two_publishers(
    topics: list[str], other: dict[str, Any], *, is_refused: bool
) -> None:
    of_other = {"type": "BigQuery", **other, "options": OPTIONS | other.get("options", {})}
    entries = [
        {"name": "one", "type": "BigQuery", "topics": topics, "options": OPTIONS},
        {"name": "two", **of_other},
    ]
    output = {"url": "s3://logs/parsed", "format": "Parquet", **PLAIN}
    made = group(output=output, publish=entries)

    if is_refused:
        with pytest.raises(Stalled, match=r"publish\[0\].*: publisher two fills the same table"):
            check_publishers(made, MemoryStore())
    else:
        check_publishers(made, MemoryStore())


@pytest.mark.parametrize(
    ("table", "dataset", "expected"),
    [
        ("{topic}", "raw", "shop-prod.raw.app_web-1"),
        ("e_{db}_{topic}", "d_{db}", "shop-prod.d_my_shop.e_my-shop_app_web-1"),
        ("all_{dt}", "raw", "shop-prod.raw.all_2026-11-21"),
    ],
)
def test_tables_are_named_by_topic_and_folders(
    tmp_path: Path, table: str, dataset: str, expected: str
) -> None:
    context = context_of(tmp_path, OPTIONS)
    options = checked(
        OPTIONS | {"table": table, "dataset": dataset}, context.group, context.entry.min_interval
    )
    name = parse_key("db=my-shop/app.web-1/dt=2026-11-21/1_0_00000000000000000000.parquet")

    assert table_name(options, name) == expected
    with pytest.raises(ValueError, match="has no folder country="):
        table_name(
            checked(OPTIONS | {"table": "{country}"}, context.group, context.entry.min_interval),
            name,
        )


def api_error(kind: type[exceptions.GoogleAPICallError], reason: str) -> Exception:
    return kind("what it says", errors=[{"reason": reason}])


@pytest.mark.parametrize(
    ("error", "expected"),
    [
        (api_error(exceptions.ServiceUnavailable, "backendError"), DestinationAway),
        (api_error(exceptions.InternalServerError, "internalError"), DestinationAway),
        (api_error(exceptions.TooManyRequests, ""), DestinationAway),
        (api_error(exceptions.Forbidden, "rateLimitExceeded"), DestinationAway),
        (api_error(exceptions.Forbidden, "quotaExceeded"), DestinationAway),
        (api_error(exceptions.BadRequest, "jobBackendError"), DestinationAway),
        (api_error(exceptions.Forbidden, "accessDenied"), DestinationDenied),
        (api_error(exceptions.Unauthorized, "authError"), DestinationDenied),
        (api_error(exceptions.NotFound, "notFound"), Stalled),
        (api_error(exceptions.BadRequest, "invalid"), Stalled),
        (requests.ConnectionError("refused"), DestinationAway),
        (requests.Timeout("late"), DestinationAway),
        (requests.JSONDecodeError("no JSON", "<html>", 0), DestinationAway),
        (KeyError("jobReference"), DestinationAway),
        (auth_exceptions.TransportError("no route"), DestinationAway),
        (auth_exceptions.DefaultCredentialsError("none"), DestinationDenied),
        (auth_exceptions.RefreshError("invalid_grant"), DestinationDenied),
        (auth_exceptions.RefreshError("later", retryable=True), DestinationAway),
    ],
)
def test_every_error_of_a_client_is_one_of_ours(
    error: Exception, expected: type[LandfallError]
) -> None:
    with pytest.raises(LandfallError) as raised, translated_errors("table t"):
        raise error

    assert type(raised.value) is expected
    assert "table t" in str(raised.value)


def test_bad_credentials_are_not_shown(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    secrets = tmp_path / "secrets/gcp"
    secrets.mkdir(parents=True)
    (secrets / "credentials.json").write_text('{"type": "service_account", "private_key": "hush"')
    monkeypatch.setenv("LANDFALL_SECRETS", str(secrets.parent))
    context = context_of(tmp_path, OPTIONS, entry={"secretRef": {"name": "gcp"}})
    built = publisher(context.group, context.entry, context.store)

    with pytest.raises(
        Stalled, match=r"key credentials\.json of secret 'gcp' is no file"
    ) as raised:
        built.publish(context.follower())

    assert "hush" not in str(raised.value)


def test_a_job_has_one_id_that_bigquery_takes() -> None:
    begin = Beginning("c1", -1)
    ids = [job_id(begin, "p.d.t", 1), job_id(begin, "p.d.t", 2), job_id(begin, "p.d.u", 1)]
    ids += [job_id(Beginning("c2", -1), "p.d.t", 1)]

    assert len({*ids}) == 4
    assert all(set(each) <= set("abcdefghijklmnopqrstuvwxyz_-0123456789") for each in ids)
    assert job_id(begin, "p.d.t", 1) == ids[0]


def stored(store: MemoryStore, key: str, body: bytes) -> LoadedObject:
    store.create(key, body)
    return LoadedObject(1, key, len(body), 0)


def test_files_of_one_schema_are_of_one_kind() -> None:
    store = MemoryStore()

    def avro(key: str, *names: str, doc: str = "") -> LoadedObject:
        body = io.BytesIO()
        fields = [{"name": name, "type": "long"} for name in names]
        schema = {"type": "record", "name": "R", "fields": fields, "doc": doc}
        fastavro.writer(body, schema, [dict.fromkeys(names, 1)], sync_marker=key.encode() * 4)
        return stored(store, key, body.getvalue())

    def parquet(key: str, *names: str) -> LoadedObject:
        body = io.BytesIO()
        pq.write_table(pa.table({name: [len(key)] for name in names}), body)
        return stored(store, key, body.getvalue())

    formats = {"a": AVRO, "p": PARQUET, "j": JSON}
    kinds = Kinds(store, lambda key: formats[key[0]])
    objects = [
        avro("a001", "x"),
        avro("a002", "x"),
        avro("a003", "x", "y"),
        avro("a004", "x", doc="d" * 200_000),
        stored(store, "a005", b"no Avro"),
        stored(store, "a006", b"Obj\x01"),
        parquet("p1", "x"),
        parquet("p22", "x"),
        parquet("p3", "x", "y"),
        stored(store, "p4", b"no Parquet"),
        stored(store, "j1", b"{}"),
        stored(store, "j2", b"[]"),
    ]

    found = kinds.of(objects)

    names = {kind: chr(ord("A") + i) for i, kind in enumerate(dict.fromkeys(found))}
    assert "".join(names[kind] for kind in found) == "AABCDEFFGHII"


def test_an_asterisk_in_a_name_is_no_wildcard() -> None:
    staging = InPlace(lambda key: f"gs://b/{key}")

    with pytest.raises(Stalled, match=r"takes \* in gs://b/t/x=\*/o for a wildcard"):
        staging.stage("c", [LoadedObject(1, "t/x=*/o", 1, 1)])


class MemoryBucket(StagingBucket):
    """A bucket in memory."""

    def __init__(self) -> None:
        self.held = dict[str, bytes]()

    def uri(self, name: str) -> str:
        return f"gs://b/{name}"

    def has(self, name: str) -> bool:
        return name in self.held

    def create(self, name: str, body: Any, size: int) -> None:
        self.held.setdefault(name, body.read(size))

    def delete(self, names: Sequence[str]) -> None:
        for name in names:
            self.held.pop(name, None)


def test_copies_of_another_chain_are_left_alone() -> None:
    """Groups of one name in two clusters may share a bucket, and keys of objects."""
    bucket, body = MemoryBucket(), b"rows"
    store = MemoryStore()
    each = [stored(store, "clicks/o", body)]
    each = [LoadedObject(1, e.key, len(body), zlib.crc32(body)) for e in each]
    here = CopiedToBucket(store, bucket, keep=False)

    (first,) = here.stage("one", each)
    (second,) = here.stage("two", each)
    here.release("one", each)

    assert first != second
    assert bucket.held == {second.removeprefix("gs://b/"): body}


@pytest.mark.parametrize(
    ("format_", "types"),
    [(PARQUET, {"NUMERIC", "BIGNUMERIC", "STRING"}), (AVRO, {"NUMERIC", "BIGNUMERIC", "STRING"})],
)
def test_a_load_has_room_for_all_decimals(format_: str, types: set[str]) -> None:
    credentials: Any = AnonymousCredentials()  # type: ignore[no-untyped-call]  # no types
    client = BigQueryWarehouse(BigQueryTableSettings(), "p", credentials, "http://127.0.0.1:1")

    load = LoadRequest("p.d.t", ["gs://b/o"], format_, replaces=False, creates=True, labels={})

    assert set(client._config(load).to_api_repr()["load"]["decimalTargetTypes"]) == types


def test_the_columns_of_avro_files_are_looked_at_as_well() -> None:
    store, body = MemoryStore(), io.BytesIO()
    fields = [{"name": name, "type": "string"} for name in ("userId", "userid")]
    schema = {"type": "record", "name": "r", "fields": fields}
    fastavro.writer(body, schema, [{"userId": "a", "userid": "b"}])
    store.create("a", body.getvalue())
    each = LoadedObject(1, "a", len(body.getvalue()), 0)

    problem = Kinds(store, lambda _: AVRO).problem_of(each)

    assert problem.startswith("columns userId and userid are one name in BigQuery; rename one")
