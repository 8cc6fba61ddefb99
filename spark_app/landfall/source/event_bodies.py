"""The objects that notifications of S3 name as written. Pure.

They are not trusted. A notification may come late, twice or never, from any sender: what
it names is only ever looked up. So this module accepts everything that names an object, in any of
these forms, and all keys that are possible if a form leaves open how the key is encoded:

- S3's own, which S3-compatible servers send, too: ``{"Records": [{"s3": {"bucket": …}}]}``, whose
  keys are encoded as in a URL, or are not (versitygw);
- EventBridge's: ``{"detail": {"bucket": …, "object": …}}``, whose keys are not encoded;
- SNS's: ``{"Message": "…"}`` around one of them.

Sources: AWS, "Event message structure" and "EventBridge event message structure" in the Amazon S3
user guide; "Amazon SNS message formats".
"""

from collections.abc import Iterator
from urllib.parse import unquote_plus

import msgspec

MAX_BODY_BYTES = 4 * 2**20
"""Larger bodies are not read: S3 sends a few KB, and Kafka and SQS have limits of about 1 MiB."""
_MAX_DEPTH = 3
_REMOVALS = ("Removed", "Deleted", "Expiration")


class _Bucket(msgspec.Struct, frozen=True):
    name: str


class _NotifiedObject(msgspec.Struct, frozen=True):
    key: str


class _Where(msgspec.Struct, frozen=True):
    bucket: _Bucket
    object: _NotifiedObject


class _NotifiedRecord(msgspec.Struct, frozen=True, rename="camel"):
    s3: _Where
    event_name: str = ""


class _Body(msgspec.Struct, frozen=True):
    records: tuple[_NotifiedRecord, ...] = msgspec.field(default=(), name="Records")
    message: str = msgspec.field(default="", name="Message")
    test: str = msgspec.field(default="", name="Event")
    detail: _Where | None = None
    detail_type: str = msgspec.field(default="", name="detail-type")


_decoder = msgspec.json.Decoder(_Body)


def written_keys(body: bytes) -> frozenset[tuple[str, str]]:
    """Bucket and key of the objects that a notification may mean; none for a test or a removal.

    Raises:
        ValueError: it is no notification.
    """
    return frozenset(_keys(body, _MAX_DEPTH))


def names_below(url: str, keys: frozenset[tuple[str, str]]) -> tuple[str, ...]:
    """Return the sorted names of the objects below ``s3://BUCKET/PREFIX``; the rest is left out."""
    bucket, _, prefix = url.removeprefix("s3://").partition("/")
    root = f"{prefix.strip('/')}/" if prefix.strip("/") else ""
    below = (
        key.removeprefix(root)
        for key_bucket, key in keys
        if key_bucket == bucket and key.startswith(root)
    )
    return tuple(sorted(filter(None, below)))


def _keys(body: bytes, depth: int) -> Iterator[tuple[str, str]]:
    if len(body) > MAX_BODY_BYTES:
        raise ValueError(f"{len(body)} bytes, at most {MAX_BODY_BYTES} are read")
    try:
        found = _decoder.decode(body)
    except (msgspec.DecodeError, RecursionError, UnicodeDecodeError) as error:
        raise ValueError(f"not a notification of S3: {error}") from None
    if found.message and depth:
        yield from _keys(found.message.encode(errors="replace"), depth - 1)
    elif not (found.records or found.detail or found.test):
        raise ValueError("not a notification of S3: it names no object")
    for record in found.records:
        if not any(word in record.event_name for word in _REMOVALS):
            yield record.s3.bucket.name, record.s3.object.key
            yield record.s3.bucket.name, unquote_plus(record.s3.object.key)
    if found.detail and not any(word in found.detail_type for word in _REMOVALS):
        yield found.detail.bucket.name, found.detail.object.key
