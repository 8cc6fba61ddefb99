"""Creates a client of a bucket from a section ``gcs``: credentials, attempts and timeouts.

The first credentials that are given are used: the secret, with the key file of a service account;
none, if ``endpoint`` names another server; then Google's default ones (environment, workload
identity, metadata server). A secret's file is read again when a request is refused as if its
credentials were wrong, which is then sent once more: a rotated key costs nothing.
"""

import json
import os
import re
import threading
from collections import Counter
from collections.abc import Callable, Iterator
from itertools import count
from typing import Any, TypeVar
from urllib.parse import parse_qs, urlsplit

import google.auth
from google.api_core.client_info import ClientInfo
from google.api_core.exceptions import GoogleAPICallError, NotFound
from google.auth.credentials import AnonymousCredentials, Credentials
from google.auth.exceptions import RefreshError
from google.auth.transport.requests import AuthorizedSession
from google.cloud.storage import Blob, Bucket, Client
from google.cloud.storage.retry import DEFAULT_RETRY
from google.oauth2 import service_account
from requests.adapters import HTTPAdapter

from landfall import __version__
from landfall.api import spec
from landfall.api.secret_keys import GCS_KEY, lacks
from landfall.api.secrets import read_secret
from landfall.errors import Stalled, StoreDenied
from landfall.store.gcs.errors import blames_credentials, is_absent, translate_errors

Value = TypeVar("Value")
SCOPE = "https://www.googleapis.com/auth/devstorage.read_write"
CONNECTIONS = 64
"""How many connections to the store are kept open."""
_NO_LOOKUPS = "DISABLE_GCS_PYTHON_CLIENT_OTEL_BUCKET_METADATA"
_OBJECT = re.compile(r"/b/[^/]+/o(/.+)?$")


class RenewableBucket:
    """A client of a bucket, which is recreated when its Secret has changed. Thread-safe.

    Args:
        name: name of the bucket.
        settings: how to access it.
        requests: gets the number of HTTP requests, retries included, by operation.
    """

    def __init__(self, name: str, settings: spec.GcsAccess, requests: Counter[str]) -> None:
        """Read the Secret, without a request.

        Raises:
            StoreDenied: it is not there, or has no credentials.
        """
        self._name = name
        self._settings = settings
        self._requests = requests
        self._lock = threading.Lock()
        self.how: dict[str, Any] = {
            "retry": Attempts(settings.max_attempts),
            "timeout": (
                settings.connect_timeout.total_seconds(),
                settings.read_timeout.total_seconds(),
            ),
        }
        """The arguments of a request that set how often it is tried, and for how long."""
        self._key = _read_key(settings)
        self.current = _bucket(name, settings, self._key, requests)

    def renew(self, refused: Bucket) -> bool:
        """After a refusal, read the Secret again; whether there is another client now.

        Raises:
            StoreDenied: it is not there, or has no credentials.
        """
        with self._lock:
            if self.current is not refused:  # another thread has done it
                return True
            found = _read_key(self._settings)
            if found == self._key:
                return False
            self.current = _bucket(self._name, self._settings, found, self._requests)
            self._key = found
            return True

    def renewed(self, call: Callable[[], Value]) -> Value:
        """The result of a call, which is made again if the Secret has changed meanwhile."""
        client = self.current
        try:
            return call()
        except (GoogleAPICallError, RefreshError) as error:
            if not (blames_credentials(error) and self.renew(client)):
                raise
            return call()

    def found(self, call: Callable[[], Value]) -> Value | None:
        """The result of a call; None if the object does not exist."""
        try:
            return self.renewed(call)
        except NotFound as error:
            if is_absent(error):
                return None
            raise

    def listed(self, url: str, hint: str = "", **choice: Any) -> Iterator[Blob]:
        """The objects that ``list_blobs`` finds; ``url`` and ``hint`` are for messages."""
        client = self.current
        found = iter(client.client.list_blobs(client, **choice, **self.how))
        while True:
            # Each page is a request of its own, made when the caller comes to it.
            with translate_errors("list", url, hint):
                try:
                    blob = next(found, None)
                except (GoogleAPICallError, RefreshError) as error:
                    if blames_credentials(error):
                        self.renew(client)  # for the next listing: pages belong together
                    raise
            if blob is None:
                return
            yield blob


class Attempts:
    """The client's way to try again, with a limit to the number of attempts."""

    def __init__(self, limit: int) -> None:
        self._limit = limit

    def __call__(self, call: Callable[[], Value]) -> Callable[[], Value]:
        """The call, made again while its errors are temporary."""

        def tried() -> Value:
            attempts = count(1)

            def failed(error: Exception) -> None:
                if next(attempts) >= self._limit:
                    raise error

            result: Value = DEFAULT_RETRY(call, on_error=failed)()
            return result

        return tried


def bucket_client(name: str, settings: spec.GcsAccess, requests: Counter[str]) -> Bucket:
    """A client that keeps the credentials it was made with; see ``RenewableBucket``.

    Raises:
        StoreDenied: the secret is not there, or has no credentials.
    """
    return _bucket(name, settings, _read_key(settings), requests)


def _bucket(name: str, settings: spec.GcsAccess, key: str | None, requests: Counter[str]) -> Bucket:
    # Otherwise the client gets the bucket in a thread of its own, for traces that are not recorded:
    # requests that a test cannot count, and for which Landfall needs no right.
    os.environ.setdefault(_NO_LOOKUPS, "true")
    session = AuthorizedSession(_credentials(settings, key))  # type: ignore[no-untyped-call]
    adapter = _CountingAdapter(requests, pool_maxsize=CONNECTIONS)
    for scheme in ("https://", "http://"):
        session.mount(scheme, adapter)
    client = Client(
        project=None,  # only requests for lists of buckets need one
        credentials=session.credentials,
        client_info=ClientInfo(user_agent=f"landfall/{__version__}"),  # type: ignore[no-untyped-call]
        client_options={"api_endpoint": settings.endpoint.rstrip("/")} if settings.endpoint else {},
        _http=session,
    )
    return client.bucket(name)


def _read_key(settings: spec.GcsAccess) -> str | None:
    """The key file in the Secret; None if there is no Secret to read."""
    if not settings.credentials_secret_ref:
        return None
    name = settings.credentials_secret_ref.name
    try:
        secret = read_secret(name)
    except Stalled as error:
        raise StoreDenied(str(error)) from error
    if missing := lacks("gcs", secret):
        raise StoreDenied(f"secret {name!r} {missing}")
    return secret[GCS_KEY]


def _credentials(settings: spec.GcsAccess, key: str | None) -> Credentials:
    if key is not None:
        try:
            made: Credentials = service_account.Credentials.from_service_account_info(  # type: ignore[no-untyped-call]
                json.loads(key), scopes=[SCOPE]
            )
        except ValueError:  # its text may quote the key
            raise StoreDenied(
                f"the secret's {GCS_KEY} is not the key file of a service account"
            ) from None
        return made
    if settings.endpoint:
        return AnonymousCredentials()  # type: ignore[no-untyped-call]
    found, _ = google.auth.default(scopes=[SCOPE])
    return found


class _CountingAdapter(HTTPAdapter):
    """Counts requests by operation, retries included."""

    def __init__(self, requests: Counter[str], **options: Any) -> None:
        super().__init__(**options)
        self._requests = requests
        self._lock = threading.Lock()

    def send(self, request: Any, **options: Any) -> Any:  # type: ignore[override]  # passed on
        with self._lock:
            self._requests[_operation(request.method, request.url)] += 1
        return super().send(request, **options)


def _operation(method: str, url: str) -> str:
    """The name of an operation in Google's documentation of costs, such as ``objects.insert``."""
    split = urlsplit(url)
    match = _OBJECT.search(split.path)
    if not match:
        return "buckets.get"
    if split.path.endswith("/compose") and method == "POST":
        return "objects.compose"
    if method == "GET" and not match[1]:
        return "objects.list"
    if method == "PUT" and "upload_id" in parse_qs(split.query):
        return "objects.insert (data)"  # the request before it is what is charged
    return {"GET": "objects.get", "DELETE": "objects.delete"}.get(method, "objects.insert")
