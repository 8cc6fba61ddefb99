"""The section ``spec.source.landed``."""

from typing import Any

import pytest

from landfall.api.spec import ConsumerGroup, parse_group
from landfall.errors import Stalled

LANDED = {"group": "backup", "url": "s3://backup/raw", "topics": ["clicks"]}
KAFKA = {"bootstrapServers": "kafka:9092", "topics": ["clicks"]}


def group(source: dict[str, Any], **spec: Any) -> ConsumerGroup:
    return parse_group(
        {
            "apiVersion": "landfall.dev/v1alpha1",
            "kind": "ConsumerGroup",
            "metadata": {"name": "rewrite"},
            "spec": {"source": source, "output": {"url": "s3://lake/clicks"}, **spec},
        }
    )


def test_topics_are_named_or_matched() -> None:
    named = group({"landed": LANDED}).spec.source
    pattern = {"topicPattern": "app[.].*", "exclude": ".*[.]test"}
    matched = group({"landed": {"group": "backup", "url": "s3://b", **pattern}}).spec.source

    assert (named.topics, named.topic_pattern) == (("clicks",), None)
    assert [named.selects(name) for name in ("clicks", "views")] == [True, False]
    assert (matched.topics, matched.topic_pattern) == ((), "app[.].*")
    names = ("app.web", "app.test", "other")
    assert [matched.selects(name) for name in names] == [True, False, False]


def test_the_root_is_opened_with_its_own_access() -> None:
    s3 = {"endpoint": "http://minio:9000", "credentialsSecretRef": {"name": "reader"}}
    landed = group({"landed": {**LANDED, "s3": s3}}).spec.source.landed

    assert landed is not None
    assert landed.root.s3.endpoint == "http://minio:9000"
    assert landed.root.access.credentials_secret_ref == landed.access.credentials_secret_ref


@pytest.mark.parametrize(
    ("source", "spec", "error"),
    [
        ({"landed": LANDED, "kafka": KAFKA}, {}, "exactly one of kafka, files and landed"),
        ({}, {}, "exactly one of kafka, files and landed"),
        (
            {"landed": {**LANDED, "topicPattern": ".*"}},
            {},
            "exactly one of topics and topicPattern",
        ),
        ({"landed": {**LANDED, "url": "ftp://x"}}, {}, "spec.source.landed.url"),
        ({"landed": {**LANDED, "url": "s3://lake/clicks/"}}, {}, "is the group's own output.url"),
        ({"landed": LANDED}, {"schedule": {"cron": "5 * * * *"}}, "schedule: the ledger of backup"),
        ({"landed": LANDED}, {"completeness": {"delay": "1h"}}, "completeness: the ledger of"),
    ],
)
def test_what_does_not_fit_is_refused(
    source: dict[str, Any], spec: dict[str, Any], error: str
) -> None:
    with pytest.raises(Stalled, match=error):
        group(source, **spec)
