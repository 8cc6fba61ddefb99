"""Of two groups that exclude each other, only one is refused: the newcomer."""

from dataclasses import dataclass, replace
from typing import Any

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from landfall_operator.api.revisions import revision_of
from landfall_operator.api.validation import parsed
from landfall_operator.core.cache import Key, ObjectCache
from landfall_operator.objects.manifests import Owner, controller_revision
from tests.support.operator.api_objects import stored


@dataclass(frozen=True)
class Group:
    """A group of a cluster.

    Attributes:
        name: its name.
        namespace: its namespace.
        wants: the output root that its resource names.
        lands: the output root of the revision that lands; None if none does.
        kafka: the Kafka group that it names, if any.
        letters: the place of dead letters that it names, if any; what it lands has the same.
        ledger: the root of its ledger, if that is another one, likewise.
        minute: when it was created.
    """

    name: str
    wants: str = "s3://lake/clicks"
    lands: str | None = None
    namespace: str = "a"
    kafka: str | None = None
    letters: str | None = None
    ledger: str | None = None
    minute: int = 0

    @property
    def key(self) -> Key:
        return self.namespace, self.name

    @property
    def is_valid(self) -> bool:
        """Whether its own roots are apart."""
        urls = [url for url in (self.wants, self.lands) if url]
        return all(parsed(self.resource(url))[0] for url in urls)

    def resource(self, url: str) -> dict[str, Any]:
        kafka: dict[str, Any] = {"bootstrapServers": "k:9092", "topicPattern": ".*"}
        return {
            "apiVersion": "landfall.dev/v1alpha1",
            "kind": "ConsumerGroup",
            "metadata": {
                "name": self.name,
                "namespace": self.namespace,
                "uid": f"{self.namespace}-{self.name}",
                "resourceVersion": "1",
                "generation": 1,
                "creationTimestamp": f"2026-11-21T12:{self.minute:02}:00Z",
            },
            "spec": {
                "source": {"kafka": {**kafka, **({"groupId": self.kafka} if self.kafka else {})}},
                # Names of nested roots meet if they have as many folders.
                "route": {"pattern": "/".join(["{field:f}"] * max(1, 4 - url.count("/")))},
                "decode": {"format": "Json"},
                "output": {"url": url, "format": "Json"},
                **({"badRecords": {"url": self.letters}} if self.letters else {}),
                **({"ledger": {"url": self.ledger}} if self.ledger else {}),
            },
        }

    def put(self, cache: ObjectCache) -> None:
        """Show the group, and the record of what it lands, to an operator."""
        status: dict[str, Any] = {}
        if self.lands:
            spec, error = parsed(self.resource(self.lands))
            assert spec, error
            owner = Owner(self.name, self.namespace, f"{self.namespace}-{self.name}")
            record = controller_revision(owner, spec, "landfall:1", 1)
            cache.put("ControllerRevision", stored(record, 1, f"record-{owner.uid}"))
            status = {"rollout": {"active": revision_of(spec)}}
        cache.put("ConsumerGroup", {**self.resource(self.wants), "status": status})


def refused(*groups: Group) -> dict[str, str]:
    """The groups that are refused, with the group that has what they want."""
    cache = ObjectCache()
    for each in groups:
        each.put(cache)
    found = {each.name: cache.refusal(each.key) for each in groups}
    return {name: refusal.other for name, refusal in found.items() if refusal}


def landing(name: str, url: str = "s3://lake/clicks", **fields: Any) -> Group:
    return Group(name, url, url, **fields)


def with_letters(url: str) -> tuple[Any, ...]:
    return "s3://lake/orders", None, "a", None, url


def with_ledger(url: str) -> tuple[Any, ...]:
    return "s3://lake/orders", None, "a", None, None, url


@pytest.mark.parametrize(
    ("groups", "expected"),
    [
        # The one that lands, whoever is older: a restored or a renamed group is no newcomer.
        ((landing("old"), Group("new", minute=1)), {"new": "a/old"}),
        ((landing("young", minute=9), Group("new")), {"new": "a/young"}),
        # An output root around that of another group, and one inside.
        ((landing("old"), Group("new", "s3://lake", minute=1)), {"new": "a/old"}),
        ((landing("old", "s3://lake"), Group("new", minute=1)), {"new": "a/old"}),
        # Neither lands: the older one; created in the same second: the one whose uid is less.
        ((Group("one", minute=1), Group("two", minute=2)), {"two": "a/one"}),
        ((Group("one"), Group("two")), {"two": "a/one"}),
        # An edit that wants what another one has, by an older group.
        (
            (landing("young", minute=5), Group("old", lands="s3://lake/orders")),
            {"old": "a/young"},
        ),
        # Both land in it, as after a change of what excludes what.
        ((landing("one", minute=1), landing("two", minute=2)), {"two": "a/one"}),
        # One that lands and is edited to what a newcomer wants, too: it landed nothing there.
        (
            (
                Group("old", "s3://lake/new", "s3://lake/old"),
                Group("new", "s3://lake/new", minute=1),
            ),
            {"new": "a/old"},
        ),
        # What a group moves away from is still its own while the old revision lands.
        (
            (
                Group("old", "s3://lake/new", "s3://lake/old"),
                Group("new", "s3://lake/old", minute=1),
            ),
            {"new": "a/old"},
        ),
        # A Kafka group.
        (
            (landing("old", kafka="k"), Group("new", "s3://else", kafka="k", minute=1)),
            {"new": "a/old"},
        ),
        ((landing("one"), landing("two", "s3://lake/orders")), {}),
        # Dead letters in the same place, as former ones, or in or around a root of another group.
        *(
            ((landing("old", letters=mine), Group("new", *theirs, minute=1)), {"new": "a/old"})
            for mine, theirs in (
                ("s3://letters/a", with_letters("s3://letters/a/")),
                ("s3://letters/a", with_letters("s3://letters/a/b")),
                ("s3://letters/a", with_letters("s3://letters")),
                ("s3://lake/orders/letters", ("s3://lake/orders",)),
                ("s3://letters/a", ("s3://letters/a/orders",)),
                ("s3://letters/a", with_ledger("s3://letters/a/ledger")),
                ("s3://ledgers/b/letters", with_ledger("s3://ledgers/b")),
            )
        ),
        (
            (landing("old", "s3://lake/orders"), Group("new", letters="s3://lake/orders/x")),
            {"new": "a/old"},
        ),
        (
            (
                landing("old", letters="s3://letters/a"),
                Group("new", "s3://lake/orders", letters="s3://letters/b", minute=1),
            ),
            {},
        ),
    ],
)
def test_only_the_newcomer_is_refused(groups: tuple[Group, ...], expected: dict[str, str]) -> None:
    assert refused(*groups) == expected
    assert refused(*reversed(groups)) == expected


def test_a_refused_group_gets_its_place_when_the_other_one_is_gone() -> None:
    cache, old, new = ObjectCache(), landing("old"), Group("new", minute=1)
    for each in (old, new):
        each.put(cache)
    assert cache.refusal(new.key)

    cache.drop("ConsumerGroup", old.resource(old.wants))

    assert cache.refusal(new.key) is None


def test_the_message_names_no_group_of_another_namespace() -> None:
    cache, old, new = ObjectCache(), landing("old"), Group("new", namespace="b", minute=1)
    near = Group("near", minute=2)
    for each in (old, new, near):
        each.put(cache)

    messages = [found.message for each in (near, new) if (found := cache.refusal(each.key))]

    same = "spec.output.url: s3://lake/clicks is also the output of"
    assert messages == [f"{same} a/old", f"{same} a group of another namespace"]
    found = cache.refusal(new.key)
    assert found is not None
    assert found.other == "a/old"


def test_braces_of_names_are_shown_as_they_are() -> None:
    cache, url = ObjectCache(), "s3://lake/{0}{}"
    for each in (Group("old", url), Group("new", url, minute=1)):
        each.put(cache)

    found = cache.refusal(("a", "new"))
    assert found is not None
    assert found.message == f"spec.output.url: {url} is also the output of a/old"


PLACES = ("s3://letters", "s3://letters/a", "s3://lake/orders/letters", "s3://b")
ROOTS = ("s3://lake", "s3://lake/clicks", "s3://lake/clicks/x", "s3://lake/orders", "s3://b/x")


@st.composite
def clusters(draw: Any) -> tuple[Group, ...]:
    groups = draw(
        st.lists(
            st.builds(
                Group,
                st.just(""),
                st.sampled_from(ROOTS),
                st.none() | st.sampled_from(ROOTS),
                st.sampled_from("ab"),
                st.none() | st.sampled_from("kl"),
                st.none() | st.sampled_from(PLACES),
                st.none(),
                st.integers(0, 8),
            ),
            max_size=4,
        )
    )
    valid = (each if each.is_valid else replace(each, letters=None) for each in groups)
    return tuple(replace(each, name=f"g{number}") for number, each in enumerate(valid))


@given(
    clusters(),
    st.sampled_from(ROOTS),
    st.none() | st.sampled_from("kl"),
    st.none() | st.sampled_from(PLACES),
)
@settings(deadline=None)
def test_creating_a_group_changes_nothing_for_any_other_one(
    groups: tuple[Group, ...], url: str, kafka: str | None, letters: str | None
) -> None:
    newcomer = Group("newcomer", url, None, "c", kafka, letters, minute=59)

    after = refused(*groups, newcomer)

    assert {name: other for name, other in after.items() if name != "newcomer"} == refused(*groups)


@given(clusters())
@settings(deadline=None)
def test_of_two_groups_at_most_one_is_refused(groups: tuple[Group, ...]) -> None:
    for number, one in enumerate(groups):
        for two in groups[:number]:
            assert len(refused(one, two)) <= 1
