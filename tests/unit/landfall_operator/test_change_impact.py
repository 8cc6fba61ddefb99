from typing import Any

import pytest

from landfall.api.pod_spec import Model
from landfall.api.spec import GroupSpec
from landfall_operator.api.change_impact import ChangeImpact, difference, weight
from landfall_operator.api.revisions import digest_of, generation_of, group_file, revision_of
from tests.support.operator.cluster_model import group

CHANGES: list[tuple[dict[str, Any], ChangeImpact, tuple[str, ...]]] = [
    ({}, ChangeImpact.IGNORE, ()),
    (
        {"upgrade": {"rollback": {"window": "1h"}}},
        ChangeImpact.IGNORE,
        ("upgrade.rollback.window",),
    ),
    ({"replicas": 3}, ChangeImpact.LIVE, ("replicas",)),
    ({"state": "Suspended"}, ChangeImpact.LIVE, ("state",)),
    ({"upgrade": {"rollback": {"crashes": 9}}}, ChangeImpact.IGNORE, ("upgrade.rollback.crashes",)),
    ({"uploadPolicy": {"maxAge": "1m"}}, ChangeImpact.NEW_REVISION, ("uploadPolicy.maxAge",)),
    ({"upgrade": {"drainTimeout": "1m"}}, ChangeImpact.NEW_REVISION, ("upgrade.drainTimeout",)),
    (
        {"executor": {"nodeSelector": {"disk": "fast"}}},
        ChangeImpact.NEW_REVISION,
        ("executor.nodeSelector", "executor.nodeSelector.disk"),
    ),
    ({"generation": 2, "replicas": 3}, ChangeImpact.NEW_REVISION, ("generation", "replicas")),
    ({"route": {"pattern": "d={date}"}}, ChangeImpact.NEW_REVISION, ("route.pattern",)),
    (
        {"topics": [{"pattern": "a", "route": {"timezone": "UTC"}}]},
        ChangeImpact.NEW_REVISION,
        ("topics",),
    ),
    ({"publish": [{"name": "lake", "type": "Iceberg"}]}, ChangeImpact.NEW_REVISION, ("publish",)),
]  # fmt: skip


@pytest.mark.parametrize(("spec", "change", "fields"), CHANGES)
def test_the_strongest_changed_field_counts(
    spec: dict[str, Any], change: ChangeImpact, fields: tuple[str, ...]
) -> None:
    found = difference(group().spec, group(**spec).spec)

    assert (found.change, found.fields) == (change, fields)


@pytest.mark.parametrize(("spec", "change"), [(spec, change) for spec, change, _ in CHANGES])
def test_names_and_digests_follow_the_class_of_change(
    spec: dict[str, Any], change: ChangeImpact
) -> None:
    before, after = group(), group(**spec)

    assert (revision_of(before) != revision_of(after)) == (change is ChangeImpact.NEW_REVISION)
    assert (digest_of(before) != digest_of(after)) == (change is ChangeImpact.NEW_REVISION)


def test_a_revision_names_its_generation_and_its_digest() -> None:
    spec = group(generation=7)

    assert revision_of(spec) == f"g7-{digest_of(spec)[:8]}"
    assert (generation_of(revision_of(spec)), generation_of("other")) == (7, 0)


def test_digests_of_the_last_release_are_the_same() -> None:
    # They are in annotations of Deployments that run: another value would replace every driver.
    spec = group("registry/landfall:1", generation=3, uploadPolicy={"maxAge": "1m"}, replicas=4)

    assert digest_of(spec) == "22d4c48ff2ed2fdf"


def test_a_change_is_written_as_the_status_has_it() -> None:
    assert [str(change) for change in ChangeImpact] == ["Ignore", "Live", "NewRevision"]


def paths(model: type[Model], at: str = "") -> list[str]:
    found = []
    for field in model.model_fields.values():
        path = f"{at}{field.alias}"
        inner = field.annotation
        nested = isinstance(inner, type) and issubclass(inner, Model)
        found += paths(inner, f"{path}.") if nested else [path]  # type: ignore[arg-type]  # checked just before
    return found


def test_every_field_of_a_spec_has_a_class() -> None:
    weights = {path: weight(path) for path in paths(GroupSpec)}

    assert {path for path, change in weights.items() if change is ChangeImpact.LIVE} == {
        "state",
        "replicas",
        "autoscaling",
    }
    assert all(
        path.startswith("idle") or (path.startswith("upgrade.") and path != "upgrade.drainTimeout")
        for path, change in weights.items()
        if change is ChangeImpact.IGNORE
    )
    with pytest.raises(ValueError, match="no impact is defined for field 'new"):
        weight("new.field")


def test_writing_a_default_out_changes_nothing() -> None:
    written = group(
        uploadPolicy={"maxBytes": "256Mi", "maxAge": "5m"}, decode={"format": "Raw"}, driver={}
    )

    assert (revision_of(written), digest_of(written)) == (revision_of(group()), digest_of(group()))


def test_the_contract_escapes_what_a_group_file_would_replace() -> None:
    assert '"$${HOME}/x$"' in group_file(group(decode={"options": {"pattern": "${HOME}/x$"}}))
