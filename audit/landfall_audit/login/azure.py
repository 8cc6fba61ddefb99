"""A client of an Azure container by ``azure`` of a place, and what its errors mean.

The first credentials that are given are used: the Secret, with the key of the account, a shared
access signature or an application; then the default chain of Azure's library.
"""

from collections.abc import Iterator
from contextlib import contextmanager

from azure.core import exceptions as azure
from azure.core.credentials import AzureNamedKeyCredential, AzureSasCredential, TokenCredential
from azure.identity import ClientSecretCredential, DefaultAzureCredential
from azure.storage.blob import ContainerClient, ExponentialRetry

from landfall_audit.errors import AuditRetry, AuditStoreDenied
from landfall_audit.login import USER_AGENT, fault, read_secret, require
from landfall_audit.spec import AzureSection

_TEMPORARY = frozenset({"ServerBusy", "InternalError", "OperationTimedOut", "BlobBeingRehydrated"})
_KEY, _SAS = "AZURE_STORAGE_KEY", "AZURE_STORAGE_SAS_TOKEN"
_APPLICATION = ("AZURE_TENANT_ID", "AZURE_CLIENT_ID", "AZURE_CLIENT_SECRET")


def container_client(account: str, container: str, settings: AzureSection) -> ContainerClient:
    """Return a client, which makes no request until it is used.

    Raises:
        Stalled: SPEC_INVALID, the Secret is not there or has no credentials.
        AuditStoreDenied: a token would be sent without TLS.
    """
    # The Blob service of an account has another name than its Data Lake Storage, and the same data.
    endpoint = settings.endpoint or f"https://{account.replace('.dfs.', '.blob.', 1)}"
    credential = _credential(settings, account.partition(".")[0])
    if endpoint.startswith("http:") and isinstance(
        credential, ClientSecretCredential | DefaultAzureCredential
    ):
        raise AuditStoreDenied(f"azure.endpoint: {endpoint} is not https, which tokens need")
    return ContainerClient(
        endpoint,
        container,
        credential=credential,
        retry_policy=ExponentialRetry(
            initial_backoff=1, increment_base=2, retry_total=settings.max_attempts - 1
        ),
        connection_timeout=settings.connect_timeout.total_seconds(),
        read_timeout=settings.read_timeout.total_seconds(),
        user_agent=USER_AGENT,
    )


def _credential(
    settings: AzureSection, account: str
) -> AzureNamedKeyCredential | AzureSasCredential | TokenCredential:
    if settings.credentials_secret_ref is None:
        return DefaultAzureCredential()
    name = settings.credentials_secret_ref.name
    secret = read_secret(name)
    if _KEY in secret:
        return AzureNamedKeyCredential(account, secret[_KEY].strip())
    if _SAS in secret:
        return AzureSasCredential(secret[_SAS].strip().lstrip("?"))
    return ClientSecretCredential(
        *(value.strip() for value in require(name, secret, *_APPLICATION))
    )


def code_of(error: azure.HttpResponseError) -> str:
    """The store's error code, such as ``BlobNotFound``; the status if the response has none."""
    code = getattr(error, "error_code", None)
    return str(getattr(code, "value", code) or error.status_code or "")


@contextmanager
def translate_errors(operation: str, url: str) -> Iterator[None]:
    """Translate any error of Azure's client raised inside; messages begin with operation and URL.

    They never have the client's own text, which may quote a URL with a signature.
    """
    request = f"{operation} {url}"
    try:
        yield
    except azure.HttpResponseError as error:
        code, status = code_of(error), int(error.status_code or 0)
        message = f"{request}: {code} ({status})"
        is_refused = isinstance(error, azure.ClientAuthenticationError)
        is_temporary = status >= 500 or status in {0, 408, 429} or code in _TEMPORARY
        kind = AuditRetry if is_temporary and not is_refused else AuditStoreDenied
        raise kind(message) from error
    except (azure.AzureError, OSError) as error:
        raise AuditRetry(f"{request}: {fault(error)}") from error
