"""Creates a client of an Azure container from ``spec.output.azure``: credentials and timeouts.

The first credentials that are given are used: the secret, with the key of the account, a shared
access signature (SAS), or an application and its secret; then the default chain of Azure's library
(environment, workload identity, managed identity). A secret's file is read again when a request is
refused as if its credentials were wrong, so a key that was rotated does not cost a batch.
"""

from collections import Counter
from collections.abc import Mapping
from typing import Any
from urllib.parse import urlsplit

import requests
from azure.core.credentials import AzureNamedKeyCredential, AzureSasCredential, TokenCredential
from azure.core.pipeline.transport import RequestsTransport
from azure.identity import ClientSecretCredential, DefaultAzureCredential
from azure.storage.blob import ContainerClient, ExponentialRetry
from requests.adapters import HTTPAdapter

from landfall import __version__
from landfall.api import spec
from landfall.api.secrets import read_secret
from landfall.errors import Stalled, StoreDenied

KEY, SAS = "AZURE_STORAGE_KEY", "AZURE_STORAGE_SAS_TOKEN"
APPLICATION = ("AZURE_TENANT_ID", "AZURE_CLIENT_ID", "AZURE_CLIENT_SECRET")
CONNECTIONS = 64
"""How many connections to the store are kept open."""
Credential = AzureNamedKeyCredential | AzureSasCredential | TokenCredential


def container_client(
    account: str, container: str, settings: spec.Azure, requests: Counter[str]
) -> ContainerClient:
    """A thread-safe client that counts its HTTP requests, retries included, in ``requests``.

    Args:
        account: host name of the account, such as ``logs.dfs.core.windows.net``.
        container: name of the container.
        settings: where and how to access it.
        requests: counts by operation, such as ``PutBlock``.

    Raises:
        StoreDenied: the secret is not there, or has no credentials.
    """
    endpoint = settings.endpoint or f"https://{account.replace('.dfs.', '.blob.', 1)}"
    return ContainerClient(
        endpoint,
        container,
        credential=_credential(settings, account.partition(".")[0]),
        retry_policy=ExponentialRetry(
            initial_backoff=1, increment_base=2, retry_total=settings.max_attempts - 1
        ),
        connection_timeout=settings.connect_timeout.total_seconds(),
        read_timeout=settings.read_timeout.total_seconds(),
        max_single_put_size=5000 * 2**20,  # slots are put whole, so that the condition holds
        max_single_get_size=4 * 2**20,
        user_agent=f"landfall/{__version__}",
        transport=RequestsTransport(session=_session(), session_owner=False),
        raw_request_hook=lambda request: requests.update([_operation(request.http_request)]),
    )


def _session() -> requests.Session:
    """Connections for all threads of a driver; by default there are ten, and others are closed."""
    session = requests.Session()
    for scheme in ("https://", "http://"):
        session.mount(scheme, HTTPAdapter(pool_maxsize=CONNECTIONS))
    return session


def _credential(settings: spec.Azure, account: str) -> Credential:
    if not settings.credentials_secret_ref:
        return DefaultAzureCredential()
    name = settings.credentials_secret_ref.name
    try:
        secret = read_secret(name)
    except Stalled as error:
        raise StoreDenied(str(error)) from error
    return credential_of(name, secret, account)


def credential_of(name: str, secret: Mapping[str, str], account: str) -> Credential:
    """The credential that a secret has.

    Raises:
        StoreDenied: it has none, or not all of one.
    """
    if KEY in secret:
        return AzureNamedKeyCredential(account, secret[KEY].strip())
    if SAS in secret:
        return AzureSasCredential(secret[SAS].strip().lstrip("?"))
    if missing := [each for each in APPLICATION if each not in secret]:
        raise StoreDenied(
            f"secret {name!r} has neither {KEY} nor {SAS}, and lacks {' and '.join(missing)}"
        )
    return ClientSecretCredential(*(secret[each].strip() for each in APPLICATION))


def _operation(request: Any) -> str:
    """The name of an operation in Azure's documentation of costs, such as ``PutBlock``."""
    query = urlsplit(request.url).query
    about = dict(each.partition("=")[::2] for each in query.split("&"))
    verb = {"PUT": "Put", "GET": "Get", "HEAD": "Head", "DELETE": "Delete"}.get(request.method, "")
    kind = {"block": "Block", "blocklist": "BlockList", "list": "Blobs"}
    return f"{verb}{kind.get(about.get('comp', ''), 'Blob')}"
