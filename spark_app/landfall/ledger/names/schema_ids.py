"""The objects that record which stored schema a registry calls by an id, or calls the latest."""

import hashlib
import re

import msgspec

from landfall import untrusted_json
from landfall.ledger.names import object_names

_REGISTRY = re.compile(r"[0-9a-f]{16}")
_PIN = re.compile(r"[a-z0-9][-a-z0-9]{0,62}")


class _Id(msgspec.Struct, frozen=True):
    """The schema of an id; the name of the field is persisted."""

    schema: str


class _Latest(msgspec.Struct, frozen=True):
    """The latest schema of a subject; the names of the fields are persisted."""

    schema: str
    subject: str


def encode_id(schema: str) -> bytes:
    """The object of an id whose schema is stored under this SHA-256."""
    return msgspec.json.encode(_Id(schema))


def encode_latest(schema: str, subject: str) -> bytes:
    """The object of a subject whose latest schema is stored under this SHA-256."""
    return msgspec.json.encode(_Latest(schema, subject))


def schema_of_id(body: bytes | None) -> str | None:
    """Return the SHA-256 that the object of an id or a subject names; None if it names none."""
    try:
        return untrusted_json.decode(body or b"", type=_Id).schema
    except msgspec.DecodeError:
        return None


def is_pin(name: str) -> bool:
    """Return whether a pin may be called so: at most 63 lowercase letters, digits and dashes."""
    return _PIN.fullmatch(name) is not None


def latest_key(group: str, lane: str, registry: str, pin: str, subject: str) -> str:
    """The key of the object that records which stored schema is a subject's latest under a pin.

    The subject may be any text, so its hash is in the key.

    Raises:
        ValueError: a name is not legal, ``registry`` is not 16 hexadecimal digits, or the pin is
            none.
    """
    if not _REGISTRY.fullmatch(registry) or not is_pin(pin):
        raise ValueError(f"not a registry and a pin: {registry!r}, {pin!r}")
    of_subject = hashlib.sha256(subject.encode()).hexdigest()
    prefix = object_names.schemas_prefix(group, lane)
    return f"{prefix}{registry}/latest/{pin}/{of_subject}.json"
