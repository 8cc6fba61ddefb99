"""Output roots inside other ones: refused where two objects may get one name."""

from collections.abc import Iterator
from itertools import product
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from landfall.api.spec import ConsumerGroup
from landfall.api.spec.roots import roots_above
from landfall.ledger.names.object_names import ObjectName
from landfall_operator.api.output_roots import may_collide
from landfall_operator.api.validation import conflict
from tests.support.operator.cluster_model import group

DB = "db={field:app}/{topic}"


def landing(
    url: str, route: dict[str, Any] | None = None, name: str = "g", **spec: Any
) -> ConsumerGroup:
    kafka = {"bootstrapServers": "kafka:9092", "topicPattern": ".*", "groupId": name}
    made = group(
        **{
            "output": {"url": url, "format": "Json"},
            "route": route or {},
            "source": {"kafka": kafka},
            "decode": {"format": "Json"},
            **spec,
        }
    )
    return made.model_copy(update={"metadata": made.metadata.model_copy(update={"name": name})})


def collide(outer: ConsumerGroup, inner: ConsumerGroup) -> bool:
    """Whether they do; it never matters which is asked about which."""
    assert may_collide(outer, inner) == may_collide(inner, outer)
    return may_collide(outer, inner)


@pytest.mark.parametrize(
    ("outer", "root", "inner"),
    [
        # Both land the topic clicks: db=shop/clicks/dt=2026-11-21/1_0_0.
        ({"topicPath": DB}, "db=shop", {}),
        ({"topicPath": DB}, "db=shop", {"pattern": "other={hour}/depth={minute}"}),
        ({"topicPath": "db=a{field:app}z/l={key}/{topic}"}, "db=a1z", {}),
        ({"topicPath": "db=a{field:app}z/l={key}/{topic}"}, "db=a1z/l=", {"topicPath": DB}),
        ({}, "_landfall", {}),
        # The folder x is a topic of the one and in the root of the other.
        ({"pattern": "{field:app}/dt={date}"}, "x", {"pattern": "dt={date}"}),
        ({"pattern": "{field:app}/dt={date}"}, "x", {"pattern": "{field:day}"}),
        ({"pattern": "raw/{time:%Y/%m}"}, "x", {"pattern": "%Y/{key}"}),
        ({"pattern": "{key}/{key}", "topicPath": DB}, "db=a/x", {"pattern": "y{key}"}),
    ],
)
def test_roots_in_which_names_may_meet_are_refused(
    outer: dict[str, Any], root: str, inner: dict[str, Any]
) -> None:
    above = landing("s3://logs/all", outer, "above")
    below = landing(f"s3://logs/all/{root}/", inner, "below")

    assert collide(above, below)
    assert conflict(below, above).startswith("spec.output.url: objects in s3://logs/all/")
    assert conflict(below, above).endswith("because one output root is in the other")


@pytest.mark.parametrize(
    ("outer", "root", "inner"),
    [
        ({}, "parsed", {}),
        ({}, "parsed/daily", {"pattern": "all"}),
        ({"pattern": "dt={date}"}, "x", {"pattern": "dt={date}"}),
        ({"pattern": "{field:app}/dt={date}"}, "x", {"pattern": "hr={hour}"}),
        ({"pattern": "{field:app}/dt={date}"}, "no topic", {"pattern": "dt={date}"}),
        ({"pattern": "{field:app}/dt={date}"}, "__internal", {"pattern": "dt={date}"}),
        ({"topicPath": DB}, "parsed", {}),
        ({"topicPath": DB}, "layer=raw", {}),
        ({"topicPath": "db=a{field:app}z/{topic}"}, "db=az1", {}),
        ({"topicPath": DB}, "db=a/x", {"pattern": "dt={date}"}),
    ],
)
def test_roots_in_which_no_names_meet_are_allowed(
    outer: dict[str, Any], root: str, inner: dict[str, Any]
) -> None:
    above = landing("s3://logs", {"pattern": "dt={date}", **outer}, "above")
    below = landing(f"s3://logs/{root}", {"pattern": "dt={date}", **inner}, "below")

    assert not collide(above, below)
    assert conflict(above, below) == ""


def test_roots_of_other_stores_or_beside_each_other_are_apart() -> None:
    above = landing("s3://logs", {"topicPath": DB})
    elsewhere = {
        "url": "s3://logs/db=a",
        "format": "Json",
        "s3": {"endpoint": "http://other:9000"},
    }

    assert not collide(above, landing("", output=elsewhere))
    assert not collide(above, landing("s3://logs2/db=a"))
    assert not collide(above, landing("s3://logs"))


def test_a_topic_that_only_one_entry_gives_destinations_counts() -> None:
    topics = [{"pattern": "orders", "route": {"topicPath": DB}}]

    assert collide(landing("s3://l", topics=topics), landing("s3://l/db=a"))
    assert not collide(landing("s3://l"), landing("s3://l/db=a"))


def test_topics_that_a_group_does_not_land_are_no_folders_of_it() -> None:
    named = {"kafka": {"bootstrapServers": "k:1", "topics": ["y"], "groupId": "h"}}
    deep = {"pattern": "{field:app}/all"}

    assert not collide(
        landing("s3://l", deep, source=named), landing("s3://l/x", {"pattern": "all"})
    )
    assert collide(landing("s3://l", deep, source=named), landing("s3://l/y", {"pattern": "all"}))


def test_every_root_above_is_found() -> None:
    assert list(roots_above("s3://logs/a/b/")) == ["s3://logs", "s3://logs/a"]
    assert list(roots_above("s3://logs")) == []


ROOTS = st.sampled_from(["x", "y", "db=x", "db=y"])
TEMPLATES = st.lists(st.sampled_from(["x", "{key}", "db={key}", "y{key}"]), min_size=1, max_size=2)
DESTINATIONS = st.sampled_from([None, "db={key}"])


@given(ROOTS, st.tuples(TEMPLATES, DESTINATIONS), st.tuples(TEMPLATES, DESTINATIONS))
def test_whatever_is_allowed_no_two_objects_have_one_name(
    root: str, outer: tuple[list[str], str | None], inner: tuple[list[str], str | None]
) -> None:
    above, below = (
        landing(url, {"pattern": "/".join(folders), **_to(destination)}, name)
        for name, url, (folders, destination) in (
            ("above", "s3://l", outer),
            ("below", f"s3://l/{root}", inner),
        )
    )

    names = set(_names(*outer)) & {f"{root}/{name}" for name in _names(*inner)}

    assert collide(above, below) or not names


def _names(folders: list[str], destination: str | None) -> Iterator[str]:
    """Names of objects with some topics and values of keys, as the writer makes them."""
    for topic, value, other in product("xy", "xyz", "xyz"):
        where = (destination or "").replace("{key}", other)
        partition = "/".join(folders).replace("{key}", value)
        yield ObjectName(topic, partition, 1, 0, 0, "", where).key


def _to(destination: str | None) -> dict[str, str]:
    return {"topicPath": f"{destination}/{{topic}}"} if destination else {}
