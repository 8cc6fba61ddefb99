"""Creates a client of an Azure container from a section ``azure``: credentials and timeouts.

The first credentials that are given are used: the secret, with the key of the account, a shared
access signature (SAS), or an application and its secret; then the default chain of Azure's library
(environment, workload identity, managed identity). A secret's file is read again when a request is
refused as if its credentials were wrong, which is then sent once more: a rotated key costs nothing.
"""

import threading
from collections import Counter
from collections.abc import Callable, Iterator, Mapping
from typing import Any, TypeVar
from urllib.parse import urlsplit

import requests as http
from azure.core.credentials import AzureNamedKeyCredential, AzureSasCredential, TokenCredential
from azure.core.exceptions import HttpResponseError
from azure.core.pipeline.transport import RequestsTransport
from azure.identity import ClientSecretCredential, DefaultAzureCredential
from azure.storage.blob import BlobProperties, ContainerClient, ExponentialRetry
from requests.adapters import HTTPAdapter

from landfall import __version__
from landfall.api import spec
from landfall.api.secret_keys import AZURE_APPLICATION, AZURE_KEY, AZURE_SAS, lacks
from landfall.api.secrets import read_secret
from landfall.errors import Stalled, StoreDenied
from landfall.store.azure.errors import blames_credentials, translate_errors

Value = TypeVar("Value")
CONNECTIONS = 64
"""How many connections to the store are kept open."""
Credential = AzureNamedKeyCredential | AzureSasCredential | TokenCredential


class RenewableContainer:
    """A client of a container, which is recreated when its Secret has changed. Thread-safe.

    Args:
        account: host name of the account, such as ``logs.dfs.core.windows.net``.
        container: name of the container.
        settings: where and how to access it.
        requests: gets the number of HTTP requests, retries included, by operation.
    """

    def __init__(
        self, account: str, container: str, settings: spec.AzureAccess, requests: Counter[str]
    ) -> None:
        """Read the Secret, without a request.

        Raises:
            StoreDenied: it is not there, or has no credentials.
        """
        self._settings = settings
        self._open: Callable[[Mapping[str, str] | None], ContainerClient] = lambda secret: _open(
            (account, container), settings, secret, requests
        )
        self._lock = threading.Lock()
        self._secret = _read(settings)
        self.current = self._open(self._secret)

    def renew(self, refused: ContainerClient) -> bool:
        """After a refusal, read the Secret again; whether there is another client now.

        Raises:
            StoreDenied: it is not there, or has no credentials.
        """
        with self._lock:
            if self.current is not refused:  # another thread has done it
                return True
            found = _read(self._settings)
            if found == self._secret:
                return False
            self.current = self._open(found)
            self._secret = found
            return True

    def renewed(self, call: Callable[[], Value]) -> Value:
        """The result of a call, which is made again if the Secret has changed meanwhile."""
        client = self.current
        try:
            return call()
        except HttpResponseError as error:
            if not (blames_credentials(error) and self.renew(client)):
                raise
            return call()

    def listed(self, url: str, hint: str = "", **choice: Any) -> Iterator[BlobProperties]:
        """The blobs that ``list_blobs`` finds; ``url`` and ``hint`` are for messages."""
        client = self.current
        found = iter(client.list_blobs(**choice))
        while True:
            # Each page is a request of its own, made when the caller comes to it.
            with translate_errors("list", url, hint):
                try:
                    blob = next(found, None)
                except HttpResponseError as error:
                    if blames_credentials(error):
                        self.renew(client)  # for the next listing: pages belong together
                    raise
            if blob is None:
                return
            yield blob


def container_client(
    account: str, container: str, settings: spec.AzureAccess, requests: Counter[str]
) -> ContainerClient:
    """A client that keeps the credentials it was made with; see ``RenewableContainer``.

    Raises:
        StoreDenied: the secret is not there, or has no credentials.
    """
    return _open((account, container), settings, _read(settings), requests)


def _open(
    at: tuple[str, str],
    settings: spec.AzureAccess,
    secret: Mapping[str, str] | None,
    requests: Counter[str],
) -> ContainerClient:
    account, container = at
    endpoint = settings.endpoint or f"https://{account.replace('.dfs.', '.blob.', 1)}"
    credential = _credential(settings, secret, account.partition(".")[0])
    if endpoint.startswith("http:") and hasattr(credential, "get_token"):
        raise StoreDenied(
            f"azure.endpoint: {endpoint} is not https, which tokens need; only a key or a "
            "shared access signature can be sent there"
        )
    lock = threading.Lock()

    def sent(request: Any) -> None:
        with lock:
            requests[_operation(request.http_request)] += 1

    return ContainerClient(
        endpoint,
        container,
        credential=credential,
        retry_policy=ExponentialRetry(
            initial_backoff=1, increment_base=2, retry_total=settings.max_attempts - 1
        ),
        connection_timeout=settings.connect_timeout.total_seconds(),
        read_timeout=settings.read_timeout.total_seconds(),
        max_single_put_size=5000 * 2**20,  # slots are put whole, so that the condition holds
        max_single_get_size=4 * 2**20,
        user_agent=f"landfall/{__version__}",
        transport=RequestsTransport(session=_session(), session_owner=False),
        raw_request_hook=sent,
    )


def _session() -> http.Session:
    """Connections for all threads of a driver; by default only ten would be kept open."""
    session = http.Session()
    for scheme in ("https://", "http://"):
        session.mount(scheme, HTTPAdapter(pool_maxsize=CONNECTIONS))
    return session


def _read(settings: spec.AzureAccess) -> Mapping[str, str] | None:
    """The Secret; None if there is none to read."""
    if not settings.credentials_secret_ref:
        return None
    try:
        return read_secret(settings.credentials_secret_ref.name)
    except Stalled as error:
        raise StoreDenied(str(error)) from error


def _credential(
    settings: spec.AzureAccess, secret: Mapping[str, str] | None, account: str
) -> Credential:
    if secret is None or settings.credentials_secret_ref is None:
        return DefaultAzureCredential()
    return credential_of(settings.credentials_secret_ref.name, secret, account)


def credential_of(name: str, secret: Mapping[str, str], account: str) -> Credential:
    """The credential that a secret has.

    Raises:
        StoreDenied: it has none, or not all of one.
    """
    if missing := lacks("azure", secret):
        raise StoreDenied(f"secret {name!r} {missing}")
    if AZURE_KEY in secret:
        return AzureNamedKeyCredential(account, secret[AZURE_KEY].strip())
    if AZURE_SAS in secret:
        return AzureSasCredential(secret[AZURE_SAS].strip().lstrip("?"))
    return ClientSecretCredential(*(secret[key].strip() for key in AZURE_APPLICATION))


def is_folder(found: BlobProperties) -> bool:
    """Return whether this is a directory of an account with a hierarchical namespace."""
    return (found.metadata or {}).get("hdi_isfolder") == "true"


def _operation(request: Any) -> str:
    """The name of an operation in Azure's documentation of costs, such as ``PutBlock``."""
    query = urlsplit(request.url).query
    about = dict(parameter.partition("=")[::2] for parameter in query.split("&"))
    verb = {"PUT": "Put", "GET": "Get", "HEAD": "Head", "DELETE": "Delete"}.get(request.method, "")
    kind = {"block": "Block", "blocklist": "BlockList", "list": "Blobs"}
    return f"{verb}{kind.get(about.get('comp', ''), 'Blob')}"
