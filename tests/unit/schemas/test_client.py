"""The client of a schema registry, and what is remembered of its answers."""

import json
import ssl
import traceback
from collections.abc import Iterator
from pathlib import Path
from urllib.parse import unquote

import pytest

from dev.kube.certificates import Authority
from landfall.errors import Retry, SchemasAway, SchemasDenied, cause
from landfall.pipeline import bounded_cache
from landfall.pipeline.decoders import UsedSchema
from landfall.schemas import (
    RegisteredSchema,
    SchemaKind,
    SchemaReference,
    UnusableSchemaError,
    encode_schema,
)
from landfall.schemas import cached as cached_schemas
from landfall.schemas import client as client_module
from landfall.schemas.cached import ASKS_BETWEEN, CachedRegistry
from landfall.schemas.client import RegistryClient, RegistryOptions
from landfall.schemas.stored import StoredSchemas, registry_name
from landfall.store.memory import MemoryStore
from tests.support.kafka.registered import content_hash
from tests.support.kafka.schema_registry import FakeRegistry, schema_registry

LONG = RegisteredSchema("AVRO", '"long"')
NOWHERE = "http://127.0.0.1:9"


@pytest.fixture
def registry() -> Iterator[FakeRegistry]:
    with schema_registry() as made:
        yield made


def client(*urls: str, secret: str | None = None) -> RegistryClient:
    return RegistryClient(RegistryOptions(urls, secret, 2.0))


def secret(folder: Path, monkeypatch: pytest.MonkeyPatch, **files: str) -> None:
    monkeypatch.setenv("LANDFALL_SECRETS", str(folder))
    (folder / "registry").mkdir(exist_ok=True)
    for name, content in files.items():
        (folder / "registry" / name.replace("_", ".")).write_text(content)


def test_a_schema_is_found_by_its_id(registry: FakeRegistry) -> None:
    registry.add(7, "long", id=7, guid="x")

    assert client(registry.url + "/").by_id(7) == LONG
    assert registry.asked == [("/schemas/ids/7", None)]


def test_an_unknown_id_is_none(registry: FakeRegistry) -> None:
    assert client(registry.url).by_id(7) is None


def test_the_latest_of_a_subject(registry: FakeRegistry) -> None:
    body = {"schema": '"long"', "schemaType": "JSON"}
    registry.answers["/subjects/a%2Fb-value/versions/latest"] = (200, body)

    assert client(registry.url).latest("a/b-value") == RegisteredSchema("JSON", '"long"')


def test_references_come_before_what_uses_them(registry: FakeRegistry) -> None:
    def uses(*names: str) -> list[dict[str, object]]:
        return [{"name": name, "subject": name, "version": 1} for name in names]

    registry.add(7, "top", references=uses("a", "b"))
    registry.answers["/subjects/a/versions/1"] = (200, {"schema": "A", "references": uses("b")})
    registry.answers["/subjects/b/versions/1"] = (200, {"schema": "B"})

    found = client(registry.url).by_id(7)

    assert found is not None
    assert found.references == (SchemaReference("b", "B"), SchemaReference("a", "A"))


@pytest.mark.parametrize(
    "subject",
    ["../../config", "a/../b", "a?deleted=true#", "a%2Fb", "@elsewhere:80/", "\x00\r\nX: y"],
)
def test_a_subject_of_a_reference_is_one_part_of_a_path(
    registry: FakeRegistry, subject: str
) -> None:
    registry.add(7, "top", references=[{"name": "a", "subject": subject, "version": 1}])

    with pytest.raises(SchemasAway, match="a schema refers to it"):
        client(registry.url).by_id(7)

    asked, _ = registry.asked[-1]
    assert asked.removeprefix("/subjects/").split("/")[1:] == ["versions", "1"]
    assert unquote(asked.split("/")[2]) == subject


def test_a_reference_that_is_missing_is_waited_for(registry: FakeRegistry) -> None:
    registry.add(7, "top", references=[{"name": "a", "subject": "a", "version": 1}])

    with pytest.raises(SchemasAway, match="/subjects/a/versions/1: a schema refers to it"):
        client(registry.url).by_id(7)


@pytest.mark.parametrize("status", [429, 500, 502, 503, 301, 400])
def test_a_registry_that_gives_no_answer_is_away(registry: FakeRegistry, status: int) -> None:
    registry.status = status

    with pytest.raises(SchemasAway, match=f"answered with status {status}") as caught:
        client(registry.url).by_id(7)
    assert cause(caught.value, "") == "SchemaRegistryUnavailable"


@pytest.mark.parametrize("status", [401, 403])
def test_a_registry_that_refuses_is_waited_for(registry: FakeRegistry, status: int) -> None:
    registry.status = status

    with pytest.raises(SchemasDenied, match=f"refused with status {status}") as caught:
        client(registry.url).by_id(7)
    assert isinstance(caught.value, Retry)
    assert cause(caught.value, "") == "SchemaRegistryDenied"


NO_SUCH_PATH = b'{"error_code":404,"message":"HTTP 404 Not Found"}'
"""What Confluent's registry says of a path that it does not have."""


@pytest.mark.parametrize("body", [b"<html>no such page</html>", b"[]", b"\xff", NO_SUCH_PATH])
def test_a_page_that_is_not_found_is_no_unknown_schema(registry: FakeRegistry, body: bytes) -> None:
    """A wrong path in the URL must not make dead letters of all records."""
    registry.answers["/schemas/ids/7"] = (404, body)

    with pytest.raises(SchemasAway, match="answered with status 404"):
        client(registry.url).by_id(7)


GUID = "0f5b4a62-8f6e-4a3c-9d1f-6a0b1c2d3e4f"
"""Of a schema that no registry has."""


@pytest.mark.parametrize("body", [b"<html>no such page</html>", b"", NO_SUCH_PATH])
@pytest.mark.parametrize("status", [404, 405])
@pytest.mark.parametrize("of_one", [(200, {"schema": '"long"'}), (404, {"error_code": 40403})])
def test_a_registry_without_guids_knows_none(
    registry: FakeRegistry, body: bytes, status: int, of_one: tuple[int, object]
) -> None:
    """A producer decides whether records have GUIDs: its topic partition must not wait."""
    registry.answers[f"/schemas/guids/{GUID}"] = (status, body)
    registry.answers["/schemas/ids/1"] = of_one

    assert client(registry.url).by_id(GUID) is None


def test_a_wrong_url_is_no_registry_without_guids(registry: FakeRegistry) -> None:
    registry.answers[f"/schemas/guids/{GUID}"] = (404, NO_SUCH_PATH)
    registry.answers["/schemas/ids/1"] = (404, NO_SUCH_PATH)

    with pytest.raises(SchemasAway, match="answered with status 404"):
        client(registry.url).by_id(GUID)


def test_every_url_must_know_no_guids(registry: FakeRegistry) -> None:
    registry.answers[f"/schemas/guids/{GUID}"] = (404, NO_SUCH_PATH)

    with pytest.raises(SchemasAway, match=r"127\.0\.0\.1:9"):
        client(registry.url, NOWHERE).by_id(GUID)


@pytest.mark.parametrize("body", [b"", b"{}", b'{"schema": 7}', b"\xff"])
def test_an_answer_that_is_no_schema_is_none(registry: FakeRegistry, body: bytes) -> None:
    registry.answers["/schemas/ids/7"] = (200, body)

    with pytest.raises(SchemasAway, match="not a schema"):
        client(registry.url).by_id(7)


@pytest.mark.parametrize(
    "body",
    [
        rb'{"schema": "\ud800"}',
        rb'{"schema": "x", "references": [{"name": "\udc00", "subject": "s", "version": 1}]}',
    ],
)
def test_a_schema_that_is_no_text_is_no_fault_of_the_registry(
    registry: FakeRegistry, body: bytes
) -> None:
    """Anybody who may register schemas could stop a topic partition otherwise."""
    registry.answers["/schemas/ids/7"] = (200, body)

    with pytest.raises(UnusableSchemaError, match="is no text: it has half of a surrogate pair"):
        client(registry.url).by_id(7)


def test_the_next_url_is_asked(registry: FakeRegistry) -> None:
    registry.add(7, "long")

    assert client(NOWHERE, registry.url).by_id(7) == LONG
    with pytest.raises(SchemasAway, match=r"127\.0\.0\.1:9/schemas/ids/7: "):
        client(NOWHERE).by_id(7)


def test_an_id_is_unknown_only_if_every_url_says_so(registry: FakeRegistry) -> None:
    with pytest.raises(SchemasAway, match=r"127\.0\.0\.1:9"):
        client(registry.url, NOWHERE).by_id(7)


def test_who_asks(registry: FakeRegistry, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    registry.add(7, "long")
    asking = client(registry.url, secret="registry")

    secret(tmp_path, monkeypatch, username="u", password="p:q")
    asking.by_id(7)
    secret(tmp_path, monkeypatch, token="t")  # rotated while the process runs
    asking.by_id(7)

    assert [login for _, login in registry.asked] == ["Basic dTpwOnE=", "Bearer t"]


@pytest.mark.parametrize("status", [401, 503, 0])
def test_no_error_holds_the_login(
    registry: FakeRegistry, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, status: int
) -> None:
    registry.status = status
    secret(tmp_path, monkeypatch, username="pl4nted-name", password="pl4nted-word")
    url = registry.url if status else NOWHERE

    with pytest.raises(SchemasAway) as caught:
        client(url, secret="registry").by_id(7)

    assert "pl4nted" not in "".join(traceback.format_exception(caught.value))


def test_a_secret_that_is_missing_is_waited_for(
    registry: FakeRegistry, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("LANDFALL_SECRETS", str(tmp_path))

    with pytest.raises(SchemasDenied, match="no secret 'registry'"):
        client(registry.url, secret="registry").by_id(7)


def test_a_certificate_that_is_none_is_waited_for(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    secret(tmp_path, monkeypatch, ca_crt="no certificate")

    with pytest.raises(SchemasAway):
        client("https://127.0.0.1:9", secret="registry").by_id(7)


def test_a_registry_that_wants_a_certificate(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    made = tmp_path / "made"
    authority = Authority(made)
    authority.server("registry", ["IP:127.0.0.1"])
    authority.client("landfall", "drivers")
    tls = ssl.SSLContext(ssl.PROTOCOL_TLS_SERVER)
    tls.load_cert_chain(made / "registry.crt", made / "registry.key")
    tls.load_verify_locations(made / "ca.crt")
    tls.verify_mode = ssl.CERT_REQUIRED

    with schema_registry(tls) as registry:
        registry.add(7, "long")
        asking = client(registry.url, secret="registry")

        secret(tmp_path, monkeypatch, ca_crt=(made / "ca.crt").read_text())
        with pytest.raises(SchemasAway):
            asking.by_id(7)
        names = {"tls_crt": "landfall.crt", "tls_key": "landfall.key"}
        secret(
            tmp_path, monkeypatch, **{key: (made / file).read_text() for key, file in names.items()}
        )

        assert asking.by_id(7) == LONG
        with pytest.raises(SchemasAway, match=r"(?i)certificate"):
            client(registry.url).by_id(7)


# ---------------------------------------------------------------------------------------- the cache


def test_a_schema_is_asked_for_once(registry: FakeRegistry) -> None:
    registry.add(7, "long")
    cached = CachedRegistry(client(registry.url))

    assert [cached.by_id(7), cached.by_id(7)] == [LONG, LONG]
    assert len(registry.asked) == 1


def test_an_unknown_id_is_asked_for_twice_and_again_later(registry: FakeRegistry) -> None:
    cached = CachedRegistry(client(registry.url))

    for _ in range(ASKS_BETWEEN + 1):
        assert cached.by_id(7) is None
    assert len(registry.asked) == 2

    registry.add(7, "long")
    assert cached.by_id(7) == LONG


def test_ids_of_all_kinds_fill_no_memory(
    registry: FakeRegistry, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(cached_schemas, "MAX_UNKNOWN", 3)
    cached = CachedRegistry(client(registry.url))

    for number in range(10):
        assert cached.by_id(number) is None

    assert [*cached._unknown] == [7, 8, 9]


def test_large_schemas_fill_no_memory(
    registry: FakeRegistry, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Who may register schemas chooses how many there are, a producer which of them are asked."""
    monkeypatch.setattr(bounded_cache.BoundedCache.__init__, "__defaults__", (10_000,))
    cached = CachedRegistry(client(registry.url))

    for number in range(20):
        registry.add(number, "x" * 2_000)
        found = cached.by_id(number)
        assert found is not None
        cached.used(found, number)

    assert [len(cached._by_id), len(cached._used)] == [3, 1]
    assert cached.by_id(0) == RegisteredSchema("AVRO", f'"{"x" * 2_000}"')


def test_a_schema_that_is_refused_alone_makes_bad_rows(registry: FakeRegistry) -> None:
    """A producer can write the id of a schema of others; its topic partition must not wait."""
    registry.add(7, "long")
    registry.answers["/schemas/ids/8"] = (403, {"error_code": 40301})
    cached = CachedRegistry(client(registry.url))
    cached.by_id(7)

    for _ in range(3):
        with pytest.raises(UnusableSchemaError, match=r"refuses it to this login: .*/ids/8.* 403"):
            cached.by_id(8)

    assert cached.by_id(7) == LONG


def test_a_login_that_is_refused_is_waited_for(registry: FakeRegistry) -> None:
    registry.add(7, "long")
    cached = CachedRegistry(client(registry.url))
    cached.by_id(7)
    registry.status = 403

    with pytest.raises(SchemasDenied):
        cached.by_id(8)


def test_a_worker_that_knows_no_schema_yet_asks_for_a_stored_one(registry: FakeRegistry) -> None:
    """Else the hostile record would have to come second."""
    registry.add(7, "long")
    registry.answers["/schemas/ids/8"] = (403, {"error_code": 40301})
    name, stored = registry_name(registry.url), StoredSchemas(MemoryStore(), "shop", "0")
    cached = CachedRegistry(client(registry.url), name, stored)

    with pytest.raises(SchemasDenied):  # nothing has ever been read with this login
        cached.by_id(8)
    stored.keep(UsedSchema(encode_schema(LONG), name, "7"))

    with pytest.raises(UnusableSchemaError, match="refuses it to this login"):
        cached.by_id(8)


def test_a_registry_that_was_away_is_asked_again(registry: FakeRegistry) -> None:
    registry.add(7, "long")
    registry.status = 503
    cached = CachedRegistry(client(registry.url))

    with pytest.raises(SchemasAway):
        cached.by_id(7)
    registry.status = 0

    assert cached.by_id(7) == LONG


# ----------------------------------------------------------------------------------------- the hash


def test_the_hash_is_that_of_the_content() -> None:
    spaced = RegisteredSchema("AVRO", ' {"name":"R", "type" : "record","fields":[]}')
    same = RegisteredSchema("AVRO", json.dumps({"type": "record", "name": "R", "fields": []}))

    assert content_hash(spaced) == content_hash(same)
    assert len({content_hash(schema) for schema in DIFFERENT}) == len(DIFFERENT)
    assert content_hash(LONG) == "4a471d9ff168d308a59d7841836e1e921fc3a94c4f28adeba74875236dc9509e"


DIFFERENT = (
    LONG,
    RegisteredSchema("AVRO", '{"type": "long", "logicalType": "timestamp-millis"}'),
    RegisteredSchema(SchemaKind.JSON, '"long"'),
    RegisteredSchema("AVRO", '"long"', (SchemaReference("a", '"int"'),)),
    RegisteredSchema("AVRO", '"long"', (SchemaReference("b", '"int"'),)),
    RegisteredSchema(SchemaKind.PROTOBUF, 'syntax = "proto3";'),
    RegisteredSchema(SchemaKind.PROTOBUF, 'syntax  = "proto3";'),
)


@pytest.mark.parametrize(("named", "warned"), [("registry", ["http://127.0.0.1:9"]), (None, [])])
def test_a_login_without_encryption_is_warned_of(
    named: str | None, warned: list[str], tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    secret(tmp_path, monkeypatch, token="t")
    urls = list[str]()
    monkeypatch.setattr(client_module, "warn_of_plain_http", urls.append)

    with pytest.raises(SchemasAway):
        client(NOWHERE, secret=named).by_id(7)

    assert urls == warned
