"""Asks a schema registry: one GET per schema, by Confluent's API.

Source: Confluent documentation, "Schema Registry API Reference", ``GET /schemas/ids/{id}`` and
``GET /subjects/{subject}/versions/{version}``. Errors are classified by HTTP status, and
only a 404 by its ``error_code`` as well, because registries differ in the codes of their bodies.

=========================  ====================================================================
answer                     means
=========================  ====================================================================
200                        the schema
404 with ``error_code``    there is none, unless the code is 404
200, but too large         ``UnusableSchemaError``: so is one with too many references, or one
                           whose text is none, for JSON can escape half of a surrogate pair
401, 403                   ``SchemasDenied``: someone may have to act, and it is tried again
anything else, or none     ``SchemasAway``: the next URL is asked, and after the last one it is
                           tried again later
=========================  ====================================================================

A 404 without an ``error_code`` is no answer of a registry, and one with ``error_code`` 404 is
Confluent's to a path that it does not have (what is not registered has 40401 to 40403): a wrong
path in the URL would otherwise make dead letters of all records. Only registries of later releases
have a path for GUIDs, though, and a producer decides whether records have one. If the same URL
answers as a registry about a number, the path is right and the registry knows no GUIDs.
"""

import json
from collections.abc import Iterator, Mapping
from typing import Any
from urllib.parse import quote

import msgspec
import urllib3

from landfall import untrusted_json
from landfall.api.secrets import read_secret, secret_file
from landfall.errors import SchemasAway, SchemasDenied, Stalled
from landfall.network import warn_of_plain_http
from landfall.schemas import RegisteredSchema, SchemaKind, SchemaReference, UnusableSchemaError
from landfall.schemas.deadline import pool_until
from landfall.schemas.stored import StoredSchemas

MAX_ANSWER_BYTES = 32 << 20
"""What is longer is no schema that a registry has: a worker's memory would not hold it."""
MAX_REFERENCES = 1_000
ANSWER_TIMEOUTS = 12
"""How many time-outs a whole answer may take: a minute by default."""
_GUIDS = "/schemas/guids/"
_ACCEPT = "application/vnd.schemaregistry.v1+json, application/json"


class RegistryOptions(msgspec.Struct, frozen=True, forbid_unknown_fields=True):
    """Where a registry is: ``spec.decode.registry``.

    Attributes:
        urls: asked in this order; each is the base of the API's paths.
        secret: the name of a secret with ``username`` and ``password``, or ``token``, or
            ``tls.crt`` and ``tls.key``, and ``ca.crt`` for a private authority; None for none.
        timeout_seconds: how long to wait for a connection, and for some of the answer; all of it
            may take ``ANSWER_TIMEOUTS`` times as long.
        stored: the schemas that are stored alongside the ledger; None where nothing is landed.
    """

    urls: tuple[str, ...]
    secret: str | None = None
    timeout_seconds: float = 5.0
    stored: StoredSchemas | None = None


class _RegistryAnswer(msgspec.Struct):
    """A registry's answer about a schema; other members are ignored."""

    schema: str
    schemaType: str = SchemaKind.AVRO  # noqa: N815  # the API's name
    references: tuple["_Reference", ...] = ()


class _Reference(msgspec.Struct):
    name: str
    subject: str
    version: int


class _NoSuchPath(SchemasAway):
    """A server has nothing at a path: it is no registry, or one that does not know the path."""


class RegistryClient:
    """Asks a registry; remembers nothing."""

    def __init__(self, options: RegistryOptions) -> None:
        """Connect to nothing yet."""
        self._options = options

    def by_id(self, schema_id: int | str) -> RegisteredSchema | None:
        """Return the schema with an id, or with a GUID; None if the registry knows none.

        Raises:
            SchemasAway: it cannot be found out now.
            UnusableSchemaError: it is too large, or has too many references.
        """
        if isinstance(schema_id, int):
            return self._schema(f"/schemas/ids/{schema_id}")
        return self._schema(f"{_GUIDS}{schema_id}")

    def latest(self, subject: str) -> RegisteredSchema | None:
        """Return the latest schema of a subject; None if the registry knows none. Raises alike."""
        return self._schema(f"/subjects/{quote(subject, safe='')}/versions/latest")

    def _schema(self, path: str) -> RegisteredSchema | None:
        answer = self._get(path)
        if answer is None:
            return None
        references: dict[str, SchemaReference] = {}
        self._follow(answer, references, set())
        return RegisteredSchema(answer.schemaType, answer.schema, tuple(references.values()))

    def _follow(
        self, of: _RegistryAnswer, found: dict[str, SchemaReference], visited: set[str]
    ) -> None:
        """Add the references of a schema, each after its own."""
        # Iterators instead of calls: a chain may be longer than Python's stack.
        open_: list[tuple[str, str, str, Iterator[_Reference]]] = [
            ("", "", "", iter(of.references))
        ]
        size = len(of.schema)
        while open_:
            path, name, text, rest = open_[-1]
            reference = next(rest, None)
            if reference is None:
                open_.pop()
                if open_:
                    found[path] = SchemaReference(name, text)
                continue
            path = f"/subjects/{quote(reference.subject, safe='')}/versions/{reference.version}"
            if path in visited:
                continue
            visited.add(path)
            if len(visited) > MAX_REFERENCES:
                raise UnusableSchemaError(f"has more than {MAX_REFERENCES} references")
            answer = self._get(path)
            if answer is None:
                # Registries delete no schema that another one uses: it is not there yet.
                raise SchemasAway(f"{path}: a schema refers to it, and the registry has none")
            size += len(answer.schema)
            if size > MAX_ANSWER_BYTES:
                raise UnusableSchemaError(
                    f"has references of more than {MAX_ANSWER_BYTES >> 20} MiB"
                )
            open_.append((path, reference.name, answer.schema, iter(answer.references)))

    def _get(self, path: str) -> _RegistryAnswer | None:
        """Ask one URL after the other until one answers."""
        failures = []
        headers = {"Accept": _ACCEPT, **self._login()}
        missing = False
        for url in self._options.urls:
            if "Authorization" in map(str.title, headers):
                warn_of_plain_http(url)
            try:
                answer = self._ask_path(url, path, headers)
            except SchemasDenied:
                raise
            except SchemasAway as error:
                failures.append(str(error))
                continue
            if answer is not None:
                return answer
            # Another server may know more: replicas follow their leader.
            missing = True
        if missing and not failures:
            return None
        raise SchemasAway("; ".join(failures))

    def _ask_path(self, url: str, path: str, headers: Mapping[str, str]) -> _RegistryAnswer | None:
        """Ask one URL. A registry without a path for GUIDs knows none."""
        try:
            return self._ask(f"{url.rstrip('/')}{path}", headers)
        except _NoSuchPath:
            if path.startswith(_GUIDS) and self._is_registry(url, headers):
                return None
            raise

    def _is_registry(self, url: str, headers: Mapping[str, str]) -> bool:
        """Return whether a URL answers about a schema id as a registry does, known or not."""
        try:
            self._ask(f"{url.rstrip('/')}/schemas/ids/1", headers)
        except UnusableSchemaError:
            return True
        except SchemasAway:
            return False
        return True

    @property
    def _seconds(self) -> float:
        """How long a connection and a whole answer may take."""
        return ANSWER_TIMEOUTS * self._options.timeout_seconds

    def _ask(self, url: str, headers: Mapping[str, str]) -> _RegistryAnswer | None:
        timeout = urllib3.Timeout(
            connect=self._options.timeout_seconds, read=self._options.timeout_seconds
        )
        tls = self._tls()
        try:
            with pool_until(self._seconds, **tls) as pool:
                response = pool.request(
                    "GET",
                    url,
                    headers=headers,
                    timeout=timeout,
                    retries=False,
                    redirect=False,
                    preload_content=False,
                )
                body = response.read(MAX_ANSWER_BYTES + 1)
                response.close()
        except (urllib3.exceptions.HTTPError, OSError) as error:
            raise SchemasAway(f"schema registry: {url}: {_describe(error)}") from error
        if response.status in {401, 403}:
            raise SchemasDenied(f"schema registry: {url}: refused with status {response.status}")
        if response.status == 404 and _says_unknown(body):
            return None
        if response.status != 200:
            kind = _NoSuchPath if response.status in {404, 405} else SchemasAway
            raise kind(f"schema registry: {url}: answered with status {response.status}")
        if len(body) > MAX_ANSWER_BYTES:
            raise UnusableSchemaError(
                f"the registry answers with more than {MAX_ANSWER_BYTES >> 20} MiB"
            )
        try:
            return untrusted_json.decode(body, type=_RegistryAnswer)
        except (msgspec.DecodeError, UnicodeDecodeError) as error:
            if _has_half_pairs(body):
                raise UnusableSchemaError("is no text: it has half of a surrogate pair") from error
            raise SchemasAway(f"schema registry: {url}: not a schema: {error}") from error

    def _login(self) -> Mapping[str, str]:
        secret = self._secret()
        if "token" in secret:
            return {"Authorization": f"Bearer {secret['token']}"}
        if "username" in secret:
            pair = f"{secret['username']}:{secret.get('password', '')}"
            return urllib3.make_headers(basic_auth=pair)
        return {}

    def _tls(self) -> dict[str, Any]:
        """Return the TLS arguments, read each time so that a rotated secret takes effect."""
        secret, made = self._secret(), {}
        for key, argument in _TLS_FILES.items():
            if key in secret and self._options.secret:
                made[argument] = str(secret_file(self._options.secret, key))
        return made

    def _secret(self) -> Mapping[str, str]:
        if self._options.secret is None:
            return {}
        try:
            return read_secret(self._options.secret)
        except Stalled as error:
            raise SchemasDenied(f"schema registry: {error}") from error


_TLS_FILES: Mapping[str, str] = {
    "tls.crt": "cert_file",
    "tls.key": "key_file",
    "ca.crt": "ca_certs",
}


def _says_unknown(body: bytes) -> bool:
    try:
        found = untrusted_json.decode(body)
    except (msgspec.DecodeError, UnicodeDecodeError):
        return False
    return isinstance(found, dict) and found.get("error_code", 404) != 404


def _describe(error: Exception) -> str:
    # The text of urllib3's errors names objects and addresses in memory.
    reason = getattr(error, "reason", None) or error
    return f"{type(reason).__name__}: {str(reason).rpartition('>: ')[2]}"


def _has_half_pairs(body: bytes) -> bool:
    """Return whether an answer is a schema whose text has half of a surrogate pair.

    That is no text, but a user who may register schemas can register it: it is no fault of the
    registry, and waiting for another answer would stop the topic partition for ever.
    """
    try:
        answer = json.loads(body)
    except (ValueError, RecursionError):
        return False
    if not isinstance(answer, dict) or not isinstance(answer.get("schema"), str):
        return False
    try:
        json.dumps(answer, ensure_ascii=False).encode()
    except UnicodeEncodeError:
        return True
    return False
