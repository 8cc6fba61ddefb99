"""Converts properties of Kafka's Java client to librdkafka's, one at a time. Pure."""

import re
from collections.abc import Mapping

from landfall.source.property_names import NAMES
from landfall_migrate.draft import Draft

SECTION = ("source", "kafka", "properties")
SECRET = "source.kafka.propertiesSecretRef"  # noqa: S105  # the name of a field

RENAMED: Mapping[str, str] = {
    "request.timeout.ms": "socket.timeout.ms",
    "receive.buffer.bytes": "socket.receive.buffer.bytes",
    "send.buffer.bytes": "socket.send.buffer.bytes",
    "fetch.max.wait.ms": "fetch.wait.max.ms",
}
NOT_NEEDED: Mapping[str, str] = {
    "isolation.level": "is always read_committed",
    "max.poll.interval.ms": "no consumer group of Kafka assigns topic partitions",
    "max.poll.records": "tasks read ranges of offsets",
    "session.timeout.ms": "no consumer group of Kafka assigns topic partitions",
    "heartbeat.interval.ms": "no consumer group of Kafka assigns topic partitions",
    "partition.assignment.strategy": "no consumer group of Kafka assigns topic partitions",
    "group.instance.id": "no consumer group of Kafka assigns topic partitions",
    "enable.auto.commit": "the ledger records what is landed",
    "auto.commit.interval.ms": "the ledger records what is landed",
    "allow.auto.create.topics": "is always false",
    "check.crcs": "is always true",
    "ssl.enabled.protocols": "OpenSSL takes TLS 1.2 and later",
    "ssl.protocol": "OpenSSL takes TLS 1.2 and later",
    "ssl.provider": "the library is OpenSSL",
    "interceptor.classes": "there are no interceptors: see the metrics",
    "metric.reporters": "metrics are Prometheus'",
    "key.deserializer": "a deserializer is spec.decode.key",
    "value.deserializer": "a deserializer is spec.decode",
}
_PEM = "librdkafka wants PEM: keytool -exportcert -rfc writes it; put it as"
REFUSED: Mapping[str, str] = {
    "ssl.truststore.location": f"{_PEM} ssl.ca.pem into the Secret of {SECRET}",
    "ssl.truststore.password": "PEM of certificates has no password: see ssl.truststore.location",
    "ssl.truststore.type": "see ssl.truststore.location",
    "sasl.client.callback.handler.class": "librdkafka has sasl.oauthbearer.method",
    "sasl.login.callback.handler.class": "librdkafka has sasl.oauthbearer.method",
    "sasl.login.class": "librdkafka has sasl.oauthbearer.method",
}
SECRETS = ("ssl.key.password", "ssl.keystore.password", "sasl.password", "ssl.key.pem")
_LOGIN = re.compile(r"""\b(username|password)\s*=\s*("(?:[^"\\]|\\.)*"|'[^']*'|[^\s;]+)""")
_WITH_PASSWORDS = re.compile(r"\.(Plain|Scram)LoginModule\b")


def take(draft: Draft, key: str, name: str) -> None:
    """Account for a key that has a property of the Java client.

    Args:
        draft: the group.
        key: of the input.
        name: of the property.
    """
    if name == "sasl.jaas.config":
        _login(draft, key)
    elif name in SECRETS or draft.keys.is_secret(key):
        _secret(draft, key, name)
    elif name in NOT_NEEDED:
        draft.drop(key, NOT_NEEDED[name])
    elif name in REFUSED:
        draft.refuse(key, REFUSED[name])
    elif name.startswith("ssl.keystore."):
        _key_store(draft, key, name)
    elif name in RENAMED or name in NAMES:
        path = (*SECTION, RENAMED.get(name, name))
        draft.put(path, _value(draft.settings.text(key)), key)
    else:
        draft.refuse(key, "librdkafka has no such property: see its CONFIGURATION.md")


def _secret(draft: Draft, key: str, name: str) -> None:
    if name in REFUSED:
        draft.refuse(key, REFUSED[name])
    elif name in NAMES:
        draft.secret("kafka", SECRET, {name: key})
    else:
        draft.refuse(key, "librdkafka has no such property: see its CONFIGURATION.md")


def _login(draft: Draft, key: str) -> None:
    """A JAAS configuration: its user and password are properties of librdkafka."""
    text = draft.settings.secret(key)
    if not _WITH_PASSWORDS.search(text) or len({name for name, _ in _LOGIN.findall(text)}) < 2:
        why = "only logins with username and password are: librdkafka has sasl.kerberos.* and "
        draft.refuse(key, f"{why}sasl.oauthbearer.*, for source.kafka.properties or its Secret")
        return
    entries = {"sasl.username": key, "sasl.password": key}
    draft.secret("kafka", SECRET, entries, "its username and password")


def _key_store(draft: Draft, key: str, name: str) -> None:
    prefix = key.removesuffix(name)
    kind = draft.settings.text(f"{prefix}ssl.keystore.type").upper()
    if kind == "PKCS12" and name == "ssl.keystore.location":
        why = "the file must be in the pods, by volumes of driver and executor"
        draft.put((*SECTION, name), draft.settings.text(key), key, why=why)
    elif kind == "PKCS12" and name == "ssl.keystore.type":
        draft.drop(key, "librdkafka takes PKCS#12 only")
    else:
        why = "librdkafka reads PKCS#12: keytool -importkeystore -deststoretype PKCS12 makes it; "
        draft.refuse(key, f"{why}mount it, and name it in ssl.keystore.location")


def _value(text: str) -> str | int | bool:
    if text.lower() in {"true", "false"}:
        return text.lower() == "true"
    return int(text) if re.fullmatch(r"-?\d{1,18}", text) else text
