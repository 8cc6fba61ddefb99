"""The RBAC rules of the operator."""

from pathlib import Path

import pytest
import yaml

from landfall_operator.objects import rbac
from landfall_operator.objects.manifests import Owner, shared_objects
from tests.rights.grants import single
from tests.support.operator.cluster_model import SITE

CHART = Path(__file__).resolve().parents[3] / "charts" / "landfall" / "templates" / "_rights.tpl"


def test_the_operator_has_all_rights_that_it_grants_to_drivers() -> None:
    role = next(
        m
        for m in shared_objects(Owner("clicks", "logs", "u"), ["clicks-driver"], SITE)
        if m["kind"] == "Role"
    )

    assert set(single(role["rules"])) <= set(single(rbac.GROUPS))


def test_the_operator_cannot_list_secrets_and_has_no_wildcard() -> None:
    own = rbac.own("lease", "key")
    requested = {*single(rbac.GROUPS), *single(own), *single(rbac.BEARER_TOKENS)}

    assert not any("*" in right for right in requested)
    assert not any("secrets" in rule["resources"] for rule in rbac.GROUPS)
    assert rbac.BEARER_TOKENS == (
        {"apiGroups": [""], "resources": ["secrets"], "verbs": ["get", "create"]},
    )
    assert [rule for rule in own if "secrets" in rule["resources"]] == [
        {
            "apiGroups": [""],
            "resources": ["secrets"],
            "verbs": ["get", "create", "patch"],
            "resourceNames": ["key"],
        }
    ]


@pytest.mark.parametrize(
    ("name", "rules"),
    [
        ("rights", rbac.GROUPS),
        ("bearerRights", rbac.BEARER_TOKENS),
        ("finalizerRights", rbac.FINALIZERS),
    ],
)
def test_the_chart_has_the_same_rules(name: str, rules: tuple[rbac.Rule, ...]) -> None:
    template = CHART.read_text()
    start = f'{{{{- define "landfall.{name}" -}}}}'
    rendered = template[template.index(start) + len(start) :].partition("{{- end }}")[0]

    assert yaml.safe_load(rendered) == list(rules)


def test_by_the_label_alone_the_operator_may_only_bind_itself() -> None:
    (*_, bind) = rbac.labelled("role")

    assert (bind["resourceNames"], bind["verbs"]) == (["role"], ["bind"])
    assert {(resource, verb) for _, resource, verb in single(rbac.labelled("role"))} == {
        ("namespaces", "list"),
        ("rolebindings", "list"),
        ("rolebindings", "create"),
        ("rolebindings", "delete"),
        ("clusterroles", "bind"),
    }


def test_all_rules_are_printed() -> None:
    assert yaml.safe_load(rbac.to_yaml()).keys() == {
        *("groups", "bearerTokens", "finalizers", "labelled", "own"),
    }


def test_the_rights_in_the_whole_cluster_only_let_groups_go() -> None:
    assert {(resource, verb) for _, resource, verb in single(rbac.FINALIZERS)} == {
        ("backfills", "list"),
        ("backfills", "patch"),
        ("consumergroups", "list"),
        ("consumergroups", "patch"),
        ("consumergroups/status", "patch"),
    }
