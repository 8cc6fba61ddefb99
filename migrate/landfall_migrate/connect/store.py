"""Where Connect's S3 sink writes to: ``output.url`` and ``output.s3``."""

from collections.abc import Mapping

from landfall_migrate.draft import Draft
from landfall_migrate.registry import without_login
from landfall_migrate.secor.store import with_scheme

PATH_STYLE = "s3.path.style.access.enabled"
PROXY = "s3.proxy.url"
_ROLE = "s3.credentials.provider.sts.role"
_SECRET = "output.s3.credentialsSecretRef"  # noqa: S105  # the name of a field

PLAIN: Mapping[str, str] = {
    "s3.ssea.name": "output.s3.sse.type",
    "s3.sse.kms.key.id": "output.s3.sse.kmsKeyId",
    "s3.acl.canned": "output.s3.acl",
    f"{_ROLE}.arn": "output.s3.assumeRole.roleArn",
    f"{_ROLE}.session.name": "output.s3.assumeRole.sessionName",
    f"{_ROLE}.external.id": "output.s3.assumeRole.externalId",
}
"""Keys whose values are a field's values."""


def take_store(draft: Draft) -> None:
    """Set ``output.url``, ``output.s3`` and ``output.existingObjects``."""
    settings = draft.settings
    bucket = settings.text("s3.bucket.name")
    if bucket:
        folder = "/".join(filter(None, settings.text("topics.dir").split("/")))
        url = f"s3://{bucket}/{folder}".rstrip("/")
        draft.put("output.url", url, "s3.bucket.name", "topics.dir", "storage.class")
    why = "Landfall lands next to the objects that the connector left"
    draft.put("output.existingObjects", "Keep", why=why)
    _take_endpoint(draft)
    for key, name in PLAIN.items():
        if settings.has(key):
            draft.put(name, settings.text(key), key)
    for key, name, more in (
        ("s3.part.size", "partBytes", 0),
        ("s3.part.retries", "maxAttempts", 1),
    ):
        text = settings.text(key)
        if text:
            value: object = int(text) + more if text.isdigit() else text
            draft.put(f"output.s3.{name}", value, key)
    _take_credentials(draft)
    _take_proxy(draft)


def _take_endpoint(draft: Draft) -> None:
    settings = draft.settings
    if region := settings.text("s3.region"):
        draft.put("output.s3.region", region, "s3.region", default="its default")
    if settings.has("store.url"):
        draft.put("output.s3.endpoint", with_scheme(settings.text("store.url")), "store.url")
    if settings.flag(PATH_STYLE):
        draft.put("output.s3.pathStyle", settings.flag(PATH_STYLE), PATH_STYLE)


def _take_credentials(draft: Draft) -> None:
    settings = draft.settings
    pair = {
        "AWS_ACCESS_KEY_ID": "aws.access.key.id",
        "AWS_SECRET_ACCESS_KEY": "aws.secret.access.key",
    }
    if all(settings.secret(key) for key in pair.values()):
        draft.secret("s3", _SECRET, pair)
    else:
        for key in pair.values():
            draft.drop(key, "without both keys, credentials come from where the driver runs")
    provider = "s3.credentials.provider.class"
    known = ("DefaultAWSCredentialsProviderChain", "AwsAssumeRoleCredentialsProvider")
    if settings.text(provider).endswith(known):
        draft.take(provider, "output.s3.assumeRole", "or else the chain of defaults")
    elif settings.has(provider):
        why = "a provider of your own has no counterpart: give a Secret, or output.s3.assumeRole"
        draft.refuse(provider, why)


def _take_proxy(draft: Draft) -> None:
    settings = draft.settings
    if not settings.has(PROXY):
        return
    url, has_login = without_login(settings.secret(PROXY))
    draft.put("output.s3.proxy", url, PROXY)
    login = {"PROXY_USER": "s3.proxy.user", "PROXY_PASSWORD": "s3.proxy.password"}
    if has_login:
        draft.secret("s3", _SECRET, dict.fromkeys(login, PROXY), "user and password in its URL")
    elif settings.secret("s3.proxy.password"):
        draft.secret("s3", _SECRET, login)
