"""The librdkafka properties of a group: addresses, plain properties, its Secret's properties."""

from collections.abc import Iterator
from pkgutil import resolve_name
from typing import Any

from landfall_audit.errors import AuditReason, AuditStalled
from landfall_audit.login import read_secret
from landfall_audit.spec import AuditedGroup, Scalar

_FIELD = "spec.source.kafka"


def kafka_properties(group: AuditedGroup) -> dict[str, Any]:
    """Return the properties. They contain secrets: never log them.

    The key ``properties`` of the Secret holds ``key=value`` lines; any other key is the name of a
    property. What they set counts more than the spec.

    Raises:
        AuditStalled: SPEC_INVALID, the group has no Kafka, the Secret is not there, a line is not
            ``key=value``, or the function that gives tokens cannot be imported.
    """
    kafka = group.spec.source.kafka
    if kafka is None:
        raise AuditStalled(
            AuditReason.SPEC_INVALID, "spec.source: the group lands no topics of Kafka"
        )
    properties: dict[str, Any] = {
        name: _text(value) for name, value in kafka.properties.items() if value is not None
    }
    if kafka.properties_secret_ref:
        secret = dict(read_secret(kafka.properties_secret_ref.name))
        properties |= dict(_lines(secret.pop("properties", "")))
        properties |= {name: text.strip() for name, text in secret.items()}
    if "oauth_cb" in properties:
        properties["oauth_cb"] = _function(properties["oauth_cb"])
    own = {"bootstrap.servers": kafka.bootstrap_servers, "group.id": group.kafka_group_id}
    return {**properties, **own}


def _text(value: Scalar) -> str:
    return str(value).lower() if isinstance(value, bool) else str(value)


def _lines(text: str) -> Iterator[tuple[str, str]]:
    for number, line in enumerate(text.splitlines(), 1):
        if line.strip() and not line.lstrip().startswith("#"):
            name, found, value = line.partition("=")
            if not found:
                raise AuditStalled(
                    AuditReason.SPEC_INVALID,
                    f"{_FIELD}.propertiesSecretRef: properties, line {number}: not key=value",
                )
            yield name.strip(), value.strip()


def _function(name: str) -> Any:
    try:
        return resolve_name(name)
    except (ImportError, AttributeError, ValueError) as error:
        raise AuditStalled(
            AuditReason.SPEC_INVALID,
            f"{_FIELD}.properties.oauth_cb: cannot import {name!r}: {error}",
        ) from error
