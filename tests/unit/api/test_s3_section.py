"""The section ``output.s3``: what is accepted, and how a refusal is explained."""

from typing import Any

import pytest
from pydantic import ValidationError

from landfall.api.spec import S3


def refusal(**fields: Any) -> str:
    with pytest.raises(ValidationError) as refused:
        S3.model_validate(fields)
    (found,) = refused.value.errors()
    return str(found["msg"])


@pytest.mark.parametrize(
    "fields",
    [
        {"storageClass": "STANDARD_IA"},
        {"storageClass": "GLACIER_IR"},
        {"storageClass": "cold-hdd", "endpoint": "https://ceph.example.org"},
        {"tags": {f"key-{n}": "" for n in range(10)}},
        {"tags": {"Kostenstelle für": "größe 1+1=2/3@x:y_z.w-"}},
        {"tags": {"k" * 128: "v" * 256}},
        {"acl": "bucket-owner-full-control"},
        {"objectLock": {}},
        {"objectLock": {"mode": "Compliance", "retain": "30d"}},
        {"useFips": True, "useDualStack": True, "pathStyle": True},
        {"useFips": False, "endpoint": "https://s3.example.org"},
        {"proxy": "http://proxy.example.com:3128"},
        {"requesterPays": True},
    ],
)
def test_what_s3_knows_is_accepted(fields: dict[str, Any]) -> None:
    assert S3.model_validate(fields).model_dump(exclude_defaults=True)


@pytest.mark.parametrize(
    ("fields", "message"),
    [
        ({"storageClass": "GLACIER"}, "cannot be read at once"),
        ({"storageClass": "DEEP_ARCHIVE"}, "take GLACIER_IR"),
        ({"storageClass": "EXPRESS_ONEZONE"}, "other kinds of buckets"),
        ({"storageClass": "OUTPOSTS"}, "lack conditional writes"),
        ({"storageClass": "a b"}, "must be a storage class such as STANDARD_IA"),
        ({"sse": {"type": "SSE-C"}}, "readers, tables and auditors would all need the key"),
        ({"sse": {"type": "customer"}}, "use aws:kms with a key of your own"),
        ({"tags": {f"key-{n}": "" for n in range(11)}}, "at most 10 items"),
        ({"tags": {"": "x"}}, "key '' has 0 characters, not 1 to 128"),
        ({"tags": {"k" * 129: "x"}}, "has 129 characters, not 1 to 128"),
        ({"tags": {"k": "v" * 257}}, "value of 'k' has 257 characters, not 0 to 256"),
        ({"tags": {"a&b": "x"}}, "may have letters, digits, spaces and"),
        ({"tags": {"k": "a\tb"}}, "value of 'k' may have letters, digits, spaces and"),
        ({"tags": {"AWS:x": "x"}}, "aws: is reserved"),
        ({"acl": "public-read"}, "'private', 'bucket-owner-read' or 'bucket-owner-full-control'"),
        ({"objectLock": {"mode": "Governance"}}, "mode and retain go together"),
        ({"objectLock": {"retain": "30d"}}, "mode and retain go together"),
        ({"useFips": True, "endpoint": "https://s3.example.org"}, "leave endpoint out"),
        ({"useDualStack": True, "endpoint": "https://s3.example.org"}, "leave endpoint out"),
        ({"proxy": "http://me:pa55word@proxy:3128"}, "must not have user and password"),
        ({"proxy": "proxy:3128"}, "must be a URL such as"),
    ],
)
def test_what_s3_does_not_know_is_refused_with_the_reason(
    fields: dict[str, Any], message: str
) -> None:
    assert message in refusal(**fields)


def test_a_refused_proxy_does_not_show_its_password() -> None:
    assert "pa55word" not in refusal(proxy="http://me:pa55word@proxy:3128")
