"""``kubectl landfall top`` through kubectl, on the groups of a real API server."""

import json
from collections.abc import Iterator

import pytest

from tests.support.kubernetes.cluster import Cluster
from tests.support.kubernetes.groups import Groups
from tests.support.operator.documented_groups import shown
from tests.support.waiting import eventually


@pytest.fixture
def documented(resource: Cluster) -> Iterator[Groups]:
    """The groups of the reference, with their status, in a namespace of their own."""
    made = Groups(resource, resource.create_namespace())
    for group in shown():
        made.create(group.resource)
        status = group.status.model_dump(mode="json", by_alias=True, exclude_none=True)
        made.patch_status(group.name, {"status": status})
    yield made
    resource.delete_namespace(made.namespace)


def top(groups: Groups, *arguments: str) -> str:
    return groups.cluster.kubectl("landfall", "top", *arguments)


def test_the_groups_of_a_namespace_are_shown_as_the_status_says(documented: Groups) -> None:
    printed = top(documented, "-n", documented.namespace, "--once")

    header, *rows = printed.splitlines()
    phases = {group.name: str(group.status.phase) for group in shown()}
    assert header.split()[:3] == ["NAMESPACE", "GROUP", "STATE"]
    assert {row.split()[1]: row.split()[2] for row in rows} == phases
    assert {row.split()[0] for row in rows} == {documented.namespace}


def test_all_namespaces_are_printed_as_json(documented: Groups) -> None:
    found = json.loads(top(documented, "-A", "--once", "-o", "json"))

    own = {each["group"]: each for each in found if each["namespace"] == documented.namespace}
    assert own.keys() == {group.name for group in shown()}
    for group in shown():
        lag = group.status.lag
        assert own[group.name]["lag_records"] == (lag.records if lag else None)


def test_the_next_look_shows_what_has_changed(documented: Groups) -> None:
    name = shown()[0].name
    documented.patch_status(name, {"status": {"phase": "Stalled"}})

    looked = eventually(
        lambda: json.loads(top(documented, "-n", documented.namespace, "--once", "-o", "json")),
        lambda groups: groups[0]["state"] == "Stalled",
        60,
    )

    assert looked[0]["group"] == name, "what needs somebody comes first"
