"""Where Secor uploads to: ``output.url`` and how the store is accessed."""

import re
from collections.abc import Callable, Mapping

from landfall_migrate.draft import Draft

MANAGER = "secor.upload.manager.class"
SERVICE = "cloud.service"
PATH_STYLE = "aws.client.pathstyleaccess"
_OF_MANAGERS = {
    "HadoopS3UploadManager": "",
    "S3UploadManager": "S3",
    "GsUploadManager": "GS",
    "AzureUploadManager": "Azure",
}
"""The service that a manager uploads to; Hadoop's asks ``cloud.service``."""
_SSE = {"S3": "AES256", "KMS": "aws:kms"}


def take_store(draft: Draft) -> None:
    """Set ``output.url``, its section, and ``output.existingObjects``."""
    settings = draft.settings
    name = settings.text(MANAGER).rpartition(".")[2]
    manager = _OF_MANAGERS.get(name)
    if manager is None:
        why = "an uploader of your own is a store of your own: output.store package.module:Name"
        draft.refuse(MANAGER, why)
    service = manager or settings.text(SERVICE)
    take = _SERVICES.get(service)
    if take is None:
        why = "only Swift servers that speak S3's API: give output.url and output.s3.endpoint"
        draft.refuse(SERVICE if not manager else MANAGER, why)
    else:
        draft.take(SERVICE, "output.url")
        draft.take(MANAGER, "output.url", "the scheme of output.url chooses the store")
        take(draft)
    why = "Landfall lands next to the objects that Secor left"
    draft.put("output.existingObjects", "Keep", why=why)


def _url(draft: Draft, root: str, folder: str, *keys: str) -> None:
    if root:
        path = "/".join(filter(None, folder.split("/")))
        draft.put("output.url", f"{root}/{path}".rstrip("/"), *keys)


def _take_s3(draft: Draft) -> None:
    settings = draft.settings
    bucket = settings.text("secor.s3.bucket")
    folder = settings.text("secor.s3.path")
    keys = ("secor.s3.bucket", "secor.s3.path", "secor.s3.filesystem")
    _url(draft, bucket and f"s3://{bucket}", folder, *keys)
    if not (settings.secret("aws.access.key") and settings.secret("aws.secret.key")):
        for key in ("aws.access.key", "aws.secret.key", "aws.session.token"):
            draft.drop(key, "without both keys, credentials come from where the driver runs")
    else:
        entries = {"AWS_ACCESS_KEY_ID": "aws.access.key", "AWS_SECRET_ACCESS_KEY": "aws.secret.key"}
        if settings.secret("aws.session.token"):
            entries["AWS_SESSION_TOKEN"] = "aws.session.token"  # noqa: S105  # the name of a key
        draft.secret("s3", "output.s3.credentialsSecretRef", entries)
    if settings.has("aws.role"):
        draft.put("output.s3.assumeRole.roleArn", settings.text("aws.role"), "aws.role")
    if settings.has("aws.region"):
        draft.put("output.s3.region", settings.text("aws.region"), "aws.region")
    if settings.has("aws.endpoint"):
        draft.put("output.s3.endpoint", with_scheme(settings.text("aws.endpoint")), "aws.endpoint")
    if settings.flag(PATH_STYLE):
        draft.put("output.s3.pathStyle", settings.flag(PATH_STYLE), PATH_STYLE)
    _take_encryption(draft)
    _take_proxy(draft)


def _take_encryption(draft: Draft) -> None:
    kind = draft.settings.text("aws.sse.type")
    if not kind:
        return
    if kind not in _SSE:
        why = "every reader would need a key of the customer: use aws:kms with a key of your own"
        draft.refuse("aws.sse.type", why)
        draft.refuse("aws.sse.customer.key", why)
        return
    draft.put("output.s3.sse.type", _SSE[kind], "aws.sse.type")
    if kind == "KMS" and draft.settings.has("aws.sse.kms.key"):
        key = draft.settings.text("aws.sse.kms.key")
        draft.put("output.s3.sse.kmsKeyId", key, "aws.sse.kms.key")


def _take_proxy(draft: Draft) -> None:
    settings = draft.settings
    if settings.flag("aws.proxy.isEnabled"):
        host, port = settings.text("aws.proxy.http.host"), settings.text("aws.proxy.http.port")
        keys = ("aws.proxy.isEnabled", "aws.proxy.http.host", "aws.proxy.http.port")
        draft.put("output.s3.proxy", f"http://{host}:{port}", *keys)


def _take_gs(draft: Draft) -> None:
    settings = draft.settings
    bucket = settings.text("secor.gs.bucket")
    keys = ("secor.gs.bucket", "secor.gs.path")
    _url(draft, bucket and f"gs://{bucket}", settings.text("secor.gs.path"), *keys)
    if settings.has("secor.gs.credentials.path"):
        entries = {"key.json": "secor.gs.credentials.path"}
        draft.secret("gcs", "output.gcs.credentialsSecretRef", entries, "the content of that file")
    for key, field in (
        ("secor.gs.connect.timeout.ms", "output.gcs.connectTimeout"),
        ("secor.gs.read.timeout.ms", "output.gcs.readTimeout"),
    ):
        if settings.has(key):
            draft.put(field, f"{settings.text(key)}ms", key)


def _take_azure(draft: Draft) -> None:
    settings = draft.settings
    container = settings.text("secor.azure.container.name")
    account = settings.text("secor.azure.account.name")
    root = f"abfss://{container}@{account}.dfs.core.windows.net" if container and account else ""
    keys = ("secor.azure.container.name", "secor.azure.account.name", "secor.azure.path")
    _url(draft, root, settings.text("secor.azure.path"), *keys)
    if settings.text("secor.azure.endpoints.protocol") == "http" and account:
        endpoint = f"http://{account}.blob.core.windows.net"
        draft.put("output.azure.endpoint", endpoint, "secor.azure.endpoints.protocol")
    if settings.secret("secor.azure.account.key"):
        entries = {"AZURE_STORAGE_KEY": "secor.azure.account.key"}
        draft.secret("azure", "output.azure.credentialsSecretRef", entries)


_SERVICES: Mapping[str, Callable[[Draft], None]] = {
    "S3": _take_s3,
    "GS": _take_gs,
    "Azure": _take_azure,
}


def with_scheme(endpoint: str) -> str:
    """An endpoint as a URL: AWS's Java client takes a host name alone, too."""
    return endpoint if re.match(r"https?://", endpoint) else f"https://{endpoint}"
