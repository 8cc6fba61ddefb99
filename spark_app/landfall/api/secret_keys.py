"""The required keys of the Secrets of stores, registries and publishers, and missing ones. Pure.

Clients reread their Secret, as it may be rotated. The check at the start comes before that, so that
a missing key is named before anything connects.
"""

from collections.abc import Callable, Mapping
from functools import partial

S3_KEYS = ("AWS_ACCESS_KEY_ID", "AWS_SECRET_ACCESS_KEY")
PROXY_USER, PROXY_PASSWORD = "PROXY_USER", "PROXY_PASSWORD"
GCS_KEY = "key.json"
AZURE_KEY, AZURE_SAS = "AZURE_STORAGE_KEY", "AZURE_STORAGE_SAS_TOKEN"
AZURE_APPLICATION = ("AZURE_TENANT_ID", "AZURE_CLIENT_ID", "AZURE_CLIENT_SECRET")
BIGQUERY_KEY = "credentials.json"
_TLS = ("tls.crt", "ca.crt")
REGISTRY_KEYS = ("token", "username", *_TLS)

Secret = Mapping[str, str]


def lacks(section: str, secret: Secret) -> str:
    """Return what a Secret lacks, as the rest of a sentence that begins with it; empty if nothing.

    ``section`` is the section of a store in the spec, ``registry``, or the kind of a publisher.
    HDFS has files, not keys; what Iceberg, Delta and Kafka take depends on their options.
    """
    check = _CHECKS.get(section)
    return check(secret) if check else ""


def is_of_proxy_only(secret: Secret) -> bool:
    """Return whether a Secret has only a proxy's login: the keys then come from elsewhere."""
    return PROXY_USER in secret and not any(key.startswith("AWS_") for key in secret)


def _s3(secret: Secret) -> str:
    return "" if is_of_proxy_only(secret) else _missing(S3_KEYS, secret)


def _gcs(secret: Secret) -> str:
    return _missing((GCS_KEY,), secret)


def _azure(secret: Secret) -> str:
    if AZURE_KEY in secret or AZURE_SAS in secret:
        return ""
    missing = _missing(AZURE_APPLICATION, secret)
    return missing and f"has neither {AZURE_KEY} nor {AZURE_SAS}, and {missing}"


def _any_of(*keys: str) -> Callable[[Secret], str]:
    def check(secret: Secret) -> str:
        return "" if any(key in secret for key in keys) else f"has none of {', '.join(keys)}"

    return check


def _missing(keys: tuple[str, ...], secret: Secret) -> str:
    missing = [key for key in keys if key not in secret]
    return f"lacks {' and '.join(missing)}" if missing else ""


_CHECKS: Mapping[str, Callable[[Secret], str]] = {
    "s3": _s3,
    "gcs": _gcs,
    "azure": _azure,
    "registry": _any_of(*REGISTRY_KEYS),
    "Glue": partial(_missing, S3_KEYS),
    "BigQuery": partial(_missing, (BIGQUERY_KEY,)),
    "Airflow": _any_of("token", "username", *_TLS),
    "OpenLineage": _any_of("token", *_TLS),
    "Webhook": _any_of("secret", "secret-old", "token", *_TLS),
}
