"""The objects that say which stored schema a registry calls by an id."""

import msgspec


class _Id(msgspec.Struct, frozen=True):
    """Which schema an id has; the name of the field is persisted."""

    schema: str


def encode_id(schema: str) -> bytes:
    """The object of an id whose schema is stored under this SHA-256."""
    return msgspec.json.encode(_Id(schema))


def schema_of_id(body: bytes | None) -> str | None:
    """Return the SHA-256 that the object of an id names; None if it names none."""
    try:
        return msgspec.json.decode(body or b"", type=_Id).schema
    except msgspec.DecodeError:
        return None
