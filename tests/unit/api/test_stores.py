"""What the sections of stores take, and what they need of the rest of a spec."""

from typing import Any

import pytest

from landfall.api.spec import Feed, Hdfs, Output
from landfall.errors import Stalled
from tests.support.driver.fakes import group

HDFS = {"url": "hdfs://namenode:8020/logs"}


@pytest.mark.parametrize(
    ("spec", "message"),
    [
        ({"route": {"pattern": "hr={hour}:00"}}, "route.pattern: names in HDFS have no colon"),
        (
            {
                "topics": [
                    {"pattern": "a"},
                    {"pattern": "b", "route": {"topicPath": "db=x:y/{topic}"}},
                ]
            },
            r"topics\[1\]: route.topicPath: names in HDFS have no colon",
        ),
    ],
)
def test_names_in_hdfs_have_no_colon(spec: dict[str, Any], message: str) -> None:
    with pytest.raises(Stalled, match=message):
        group(output=HDFS, **spec)

    group(**spec)  # in S3 they may


def test_placeholders_with_a_colon_are_no_part_of_a_name() -> None:
    pattern = "app={field:app}/hr={hour}"

    assert group(output=HDFS, route={"pattern": pattern}).spec.route.pattern == pattern


def test_a_principal_needs_a_keytab() -> None:
    with pytest.raises(ValueError, match="principal needs credentialsSecretRef"):
        Hdfs.model_validate({"principal": "landfall@EXAMPLE.COM"})

    Hdfs.model_validate(
        {"principal": "landfall@EXAMPLE.COM", "credentialsSecretRef": {"name": "hadoop"}}
    )


def test_parts_in_hdfs_are_as_large_as_blocks() -> None:
    assert Output.model_validate(HDFS).access.part_bytes == 128 * 2**20


@pytest.mark.parametrize(
    ("url", "field"),
    [
        ("s3://logs", "s3"),
        ("abfss://logs@account/in", "azure"),
        ("gs://logs", "gcs"),
        ("hdfs://host:8020/in", "hdfs"),
        ("file:///in", "s3"),
    ],
)
def test_a_feed_has_the_section_of_its_store(url: str, field: str) -> None:
    feed = Feed.model_validate({"topic": "t", "url": url, field: {"maxAttempts": 2}})

    assert (feed.access_field, feed.access.max_attempts) == (field, 2)
    assert not hasattr(feed.access, "part_bytes")


@pytest.mark.parametrize("url", ["ftp://logs", "gs:///in", "abfss://logs", "hdfs://host", "in"])
def test_a_feed_of_no_store_is_refused(url: str) -> None:
    with pytest.raises(ValueError, match="url"):
        Feed(topic="t", url=url)


def test_the_sections_of_hdfs_have_one_user() -> None:
    feed = {"topic": "t", "url": "hdfs://namenode:8020/in"}
    output = {**HDFS, "hdfs": {"user": "lander"}}
    with pytest.raises(Stalled, match=r"hdfs.user: must be the same .*: lander, none"):
        group(source={"files": [feed]}, output=output)

    group(source={"files": [{**feed, "hdfs": {"user": "lander"}}]}, output=output)
    group(source={"files": [feed]})  # the output is not in HDFS
