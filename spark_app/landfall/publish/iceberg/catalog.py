"""Connects to an Iceberg catalog, and translates its errors.

A connection is opened on first use, and again every few minutes and after an error, because secrets
and credentials change. Pyiceberg trusts a REST catalog: its requests have no timeout, go wherever
the catalog redirects them, and answers may have any length. Here requests end at a deadline and go
to no other server, and answers are bounded after they are unpacked. A catalog names no Python code
(``iceberg_code``).
"""

import time
from collections.abc import Callable, Iterator, Mapping
from contextlib import contextmanager
from dataclasses import dataclass, field
from typing import Any
from urllib.parse import urlsplit

from landfall.errors import DestinationDenied, LandfallError, Reason, Stalled
from landfall.publish.library_errors import LibraryErrors
from landfall.publish.s3_access import MAX_AGE_SECONDS, S3Settings
from landfall.schemas.deadline import pool_until

TIMEOUT_SECONDS = 60.0
"""Timeout while a REST catalog sends nothing."""
ANSWER_SECONDS = 300.0
"""Timeout of a whole answer."""
MAX_ANSWER_BYTES = 256 << 20
"""The longest answer, unpacked; the metadata of a table with 100,000 snapshots has half of it."""
_LEAST_SECRET = 4
"""Shorter values of a secret would hide parts of words."""


@dataclass
class Connection:
    """A connection to a catalog.

    Attributes:
        name: of the catalog, which SQL catalogs keep with every table.
        properties: of pyiceberg's ``load_catalog``, looked up at each new connection.
        secrets: values that must not appear in messages, as looked up last.
        of_tables: properties of tables that the group's spec names.
    """

    name: str
    properties: Callable[[], tuple[Mapping[str, str], tuple[str, ...]]]
    secrets: tuple[str, ...] = ()
    of_tables: Mapping[str, str] = field(default_factory=dict)
    _catalog: Any = None
    _files: Mapping[str, str] = field(default_factory=dict)
    _since: float = field(default=0.0)
    _library: LibraryErrors = field(default_factory=LibraryErrors)

    def catalog(self) -> Any:
        """The ``pyiceberg.catalog.Catalog``; call it inside of ``errors``."""
        if self._catalog is None or time.monotonic() - self._since > MAX_AGE_SECONDS:
            properties, self.secrets = self.properties()
            self._files = properties
            catalog = _connect(self.name, properties)
            refuse_code(catalog, {**self.of_tables, **properties})
            self._catalog, self._since = catalog, time.monotonic()
        return self._catalog

    def file_io(self, url: str) -> Any:
        """Return a reader of landed files, with our own access, not the table's."""
        from pyiceberg.io import load_file_io  # noqa: PLC0415  # an extra

        self.catalog()
        return load_file_io(dict(self._files), url)

    @contextmanager
    def errors(self, attempt: str, table: str) -> Iterator[None]:
        """Translate exceptions of a catalog or of a table's files.

        An error may be a commit whose outcome is unknown; the next try reads the table first.

        Args:
            attempt: what is done, such as ``append to``; errors are counted by it and the table.
            table: its name.
        """
        from pyiceberg.exceptions import (  # noqa: PLC0415  # an extra
            BadRequestError,
            ForbiddenError,
            NotInstalledError,
            OAuthError,
            UnauthorizedError,
        )

        attempted = f"{attempt} {table}"
        try:
            yield
        except LandfallError:
            raise
        except (BadRequestError, NotInstalledError) as error:
            raise Stalled(Reason.DESTINATION_CONFLICT, self._message(table, error)) from None
        except (UnauthorizedError, ForbiddenError, OAuthError) as error:
            self._catalog = None
            raise DestinationDenied(self._message(table, error)) from None
        except Exception as error:  # noqa: BLE001  # any error a library raises for an answer
            self._catalog = None
            message = self._message(table, error)
            if isinstance(error.__cause__, MemoryError):  # of ``bounded``
                raise Stalled(Reason.DESTINATION_CONFLICT, message) from None
            raise self._library.translate(attempted, error, message) from None
        self._library.succeeded(attempted)

    def _message(self, table: str, error: Exception) -> str:
        text = f"Iceberg table {table}: {type(error).__name__}: {error}"
        for secret in self.secrets:
            if len(secret) >= _LEAST_SECRET:
                text = text.replace(secret, "***")
        return " ".join(text.split())[:1000]


def file_properties(access: S3Settings) -> dict[str, str]:
    """The properties of pyiceberg's FileIO that reach a bucket.

    Source: https://py.iceberg.apache.org/configuration/#s3
    """
    found = {
        "s3.endpoint": access.endpoint,
        "s3.region": access.region,
        "s3.access-key-id": access.key_id,
        "s3.secret-access-key": access.secret_key,
        "s3.session-token": access.token,
        "s3.connect-timeout": str(access.connect_seconds),
        "s3.request-timeout": str(access.read_seconds),
        "s3.proxy-uri": access.proxy,
        "s3.force-virtual-addressing": "" if access.path_style or not access.endpoint else "true",
    }
    return {name: value for name, value in found.items() if value}


def _connect(name: str, properties: Mapping[str, str]) -> Any:
    from pyiceberg.catalog import load_catalog  # noqa: PLC0415  # an extra

    if properties.get("type") != "rest":
        return load_catalog(name, **properties)
    from pyiceberg.catalog.rest import RestCatalog  # noqa: PLC0415  # an extra

    class BoundedRestCatalog(RestCatalog):
        """A REST catalog whose answers are bounded, and which names no code."""

        def _fetch_config(self) -> None:
            super()._fetch_config()
            # The next session would already import what `auth` names.
            check_code(self.properties, properties, "the catalog's configuration")

        def _config_headers(self, session: Any) -> None:
            super()._config_headers(session)
            bound(session)

    return BoundedRestCatalog(name, **properties)


def bound(session: Any) -> None:
    """Let a ``requests.Session`` read bounded answers only, and follow no redirect."""
    from requests.adapters import HTTPAdapter  # noqa: PLC0415  # an extra

    class Bounded(HTTPAdapter):
        def send(self, request: Any, **options: Any) -> Any:  # type: ignore[override]  # handed on
            options |= {"stream": True, "timeout": options.get("timeout") or TIMEOUT_SECONDS}
            with pool_until(ANSWER_SECONDS) as self.poolmanager:
                response = super().send(request, **options)
                body = response.raw.read(MAX_ANSWER_BYTES + 1, decode_content=True)
            fault = ""
            if len(body) > MAX_ANSWER_BYTES:
                fault = f"more than {MAX_ANSWER_BYTES >> 20} MiB"
            if response.is_redirect:
                fault = "a redirect, which is not followed: name the server that answers"
            if fault:
                server = urlsplit(request.url).netloc.rpartition("@")[2]
                message = f"Iceberg catalog {server}: answers with {fault}"
                raise Stalled(Reason.DESTINATION_CONFLICT, message)
            response._content, response._content_consumed = body, True  # noqa: SLF001  # as `send` does without `stream`
            return response

    for scheme in ("http://", "https://"):
        session.mount(scheme, Bounded())


# Refuses Python code that an Iceberg catalog or a table names.
#
# pyiceberg imports, and calls, what some properties name. A REST catalog sends properties in its
# configuration and with each table, and any user who may change a table sets properties of it. So
# they could run programs where the publisher runs, with its credentials: ``subprocess.Popen`` is
# such a name. Only what the group's own spec names is imported, and pyiceberg's own classes.
#
# ====================================  ==========================================================
# property                              where pyiceberg imports what it names
# ====================================  ==========================================================
# ``py-io-impl``                        ``io/__init__.py``: reads and writes files
# ``s3.retry-strategy-impl``            ``io/pyarrow.py``: when requests to S3 are tried again
# ``write.py-location-provider.impl``   ``table/locations.py``: where new files are
# ``auth``                              ``catalog/rest/auth.py``: how requests are signed
# ====================================  ==========================================================

NAMES_OF_CODE = (
    "py-io-impl",
    "s3.retry-strategy-impl",
    "write.py-location-provider.impl",
    "auth",
)
_OF_PYICEBERG = {"pyiceberg.io.pyarrow.PyArrowFileIO", "pyiceberg.io.fsspec.FsspecFileIO"}
"""Classes that any catalog may name."""


def check_code(found: Mapping[str, Any], own: Mapping[str, str], owner: str) -> None:
    """Return if properties name no code, except what the group's spec names as well.

    Args:
        found: properties that were read from a catalog.
        own: properties that the spec of the group has.
        owner: whose properties they are, for the message.

    Raises:
        Stalled: DESTINATION_CONFLICT, with the name of the property.
    """
    for name in NAMES_OF_CODE:
        value = found.get(name)
        if not value or value == own.get(name) or str(value) in _OF_PYICEBERG:
            continue
        raise Stalled(
            Reason.DESTINATION_CONFLICT,
            f"property {name} of {owner} names Python code, {str(value)[:200]!r}, which is not "
            "imported; remove it there, or set it to the same text in options.catalog",
        )


def refuse_code(catalog: Any, own: Mapping[str, str]) -> None:
    """Let a ``pyiceberg.catalog.Catalog`` load no table that names code.

    It creates the ``FileIO`` of each table after reading its metadata, before anything else.

    Args:
        catalog: gets another way to do so.
        own: properties that the spec of the group has.
    """
    load = catalog._load_file_io  # noqa: SLF001  # the one place for all kinds of catalogs

    def load_file_io(properties: Any = None, location: str | None = None) -> Any:
        named = properties or {}
        check_code({**catalog.properties, **named}, own, f"the table at {location}")
        return load(named, location)

    catalog._load_file_io = load_file_io  # noqa: SLF001
