"""Bodies of notifications: the forms that senders use, and everything else."""

import json
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from landfall.source.event_bodies import MAX_BODY_BYTES, names_below, written_keys


def s3_event(*keys: str, bucket: str = "logs", event: str = "ObjectCreated:Put") -> dict[str, Any]:
    where = [
        {"bucket": {"name": bucket, "arn": "x"}, "object": {"key": k, "size": 0}} for k in keys
    ]
    return {"Records": [{"eventName": event, "awsRegion": "eu", "s3": each} for each in where]}


def event_bridge(key: str, kind: str = "Object Created") -> dict[str, Any]:
    detail = {"bucket": {"name": "logs"}, "object": {"key": key}, "reason": "PutObject"}
    return {"source": "aws.s3", "detail-type": kind, "detail": detail}


def sns(inner: object) -> dict[str, Any]:
    return {"Type": "Notification", "MessageId": "1", "Message": json.dumps(inner)}


def body(document: object) -> bytes:
    return json.dumps(document).encode()


@pytest.mark.parametrize(
    ("document", "keys"),
    [
        (s3_event("in/a", "in/b"), {"in/a", "in/b"}),
        (s3_event("in/a+b%2Bc%C3%A9"), {"in/a b+cé", "in/a+b%2Bc%C3%A9"}),
        (s3_event("in/a", event="s3:ObjectCreated:CompleteMultipartUpload"), {"in/a"}),
        (s3_event("in/a", event="ObjectRemoved:Delete"), set()),
        (s3_event("in/a", event="LifecycleExpiration:Delete"), set()),
        (event_bridge("in/a+b%2B"), {"in/a+b%2B"}),
        (event_bridge("in/a", "Object Deleted"), set()),
        (sns(s3_event("in/a")), {"in/a"}),
        (sns(event_bridge("in/a")), {"in/a"}),
        ({"EventName": "s3:ObjectCreated:Put", "Key": "logs/in/a"} | s3_event("in/a"), {"in/a"}),
        ({"Service": "Amazon S3", "Event": "s3:TestEvent", "Bucket": "logs"}, set()),
    ],
)
def test_the_keys_of_a_notification(document: object, keys: set[str]) -> None:
    assert written_keys(body(document)) == {("logs", key) for key in keys}


@pytest.mark.parametrize(
    "hostile",
    [
        b"",
        b"garbage",
        b"\xff\xfe",
        b"null",
        b"[]",
        b"{}",
        b'{"Records": []}',
        b'{"Records": [{"s3": {"bucket": {"name": 7}, "object": {"key": "a"}}}]}',
        b'{"Records": [{}]}',
        b'{"detail": {"state": "RUNNING"}}',
        b'{"Message": "not json"}',
        b"[" * 100_000,
        b'{"a":' * 100_000,
        b'{"Records": "%s"}' % (b"x" * 2**20),
        b" " * (MAX_BODY_BYTES + 1),
        body(sns(sns(sns(sns(s3_event("a")))))),
    ],
)
def test_what_is_no_notification_is_refused(hostile: bytes) -> None:
    with pytest.raises(ValueError, match=r"not a notification of S3|bytes, at most"):
        written_keys(hostile)


JSON = st.recursive(
    st.none() | st.booleans() | st.integers() | st.floats() | st.text(),
    lambda inner: (
        st.lists(inner)
        | st.dictionaries(
            st.sampled_from(["Records", "Message", "s3", "bucket", "object", "key", "name"])
            | st.text(),
            inner,
        )
    ),
    max_leaves=30,
)


@given(JSON.map(lambda document: json.dumps(document).encode()) | st.binary())
def test_any_bytes_are_keys_or_a_value_error(anything: bytes) -> None:
    try:
        found = written_keys(anything)
    except ValueError:
        return
    assert all(isinstance(part, str) for key in found for part in key)


@given(st.text(min_size=1), st.sampled_from(["", "in", "/in/", "in/x"]))
def test_a_name_below_a_prefix_is_found_again(name: str, prefix: str) -> None:
    root = f"{prefix.strip('/')}/" if prefix else ""

    found = names_below(f"s3://logs/{prefix}", frozenset({("logs", root + name)}))

    assert found == (name,)


def test_objects_elsewhere_are_left_out() -> None:
    keys = frozenset({("logs", "in/a"), ("logs", "in/"), ("logs", "inner"), ("other", "in/b")})

    assert names_below("s3://logs/in", keys) == ("a",)
    assert names_below("s3://logs", keys) == ("in/", "in/a", "inner")
