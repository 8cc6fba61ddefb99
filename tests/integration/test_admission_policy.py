"""The chart's ValidatingAdmissionPolicy: what the operator writes passes, and nothing else does.

The account in these tests is an administrator by RBAC, so the policy alone refuses. For each of its
rules there is a request that it refuses, and that passes when this rule alone is missing.
"""

import json
from collections.abc import Callable, Iterator
from contextlib import suppress
from copy import deepcopy
from dataclasses import dataclass
from datetime import UTC, datetime
from typing import Any

import pytest
from kubernetes.client.exceptions import ApiException

from landfall_operator.api.backfill import BackfillSpec
from landfall_operator.core.actions import EmitEvent
from landfall_operator.objects import backfill_pods as pods
from landfall_operator.objects import manifests, rbac, trials
from landfall_operator.objects.manifests import Owner
from landfall_operator.objects.names import OPERATOR
from landfall_operator.objects.pod_templates import OperatorContext, driver_template
from landfall_operator.runtime.event_recorder import manifest as event_manifest
from tests.rights.stories import STORIES, Stage, Story
from tests.support.kubernetes.api_audit_log import Account
from tests.support.kubernetes.cluster import Cluster, Refused
from tests.support.kubernetes.groups import Groups, changed, document, install
from tests.support.kubernetes.helm import RELEASE, rendered, the
from tests.support.operator.cluster_model import group
from tests.support.waiting import eventually

OPERATORS_STORIES = [story for story in STORIES if story.account == OPERATOR]
Json = dict[str, Any]
Change = Callable[[Json], None]

pytestmark = [pytest.mark.timeout(900, func_only=True), pytest.mark.xdist_group("admission")]

LABEL = ("landfall.dev/watch", "true")
ACCOUNT = f"{RELEASE}-landfall-operator"
MARK = "app.kubernetes.io/managed-by"
CONTEXT = OperatorContext("landfall:1", "landfall", image_pull_secrets=("pull",))


@dataclass
class Site:
    """A policy in force for an account in ``own``, which watches ``watched``, and not ``other``."""

    cluster: Cluster
    own: str
    watched: str
    other: str
    rules: list[str]

    @property
    def role(self) -> str:
        """The ClusterRole with the operator's rights, and the name of its own RoleBindings."""
        return f"{self.own}-{ACCOUNT}"

    def write(self, body: Json, *, without: str = "", command: str = "create") -> str:
        """Have the operator write an object, in a dry run; ``without`` one of the rules."""
        account = f"without-{self.rules.index(without)}" if without else ACCOUNT
        return self.cluster.kubectl(
            *(command, "--dry-run=server", "--as", f"system:serviceaccount:{self.own}:{account}"),
            *("-f", "-", "-o", "name"),
            manifest=body,
        )

    def owner(self, kind: str = "ConsumerGroup") -> Owner:
        """A resource that owns what the operator writes."""
        return Owner("clicks", self.watched, "0a1b2c3d-0000", kind)


def _policy(name: str, user: str, policy: Json, without: int | None) -> Json:
    """The policy for another account, without one of its rules."""
    made = deepcopy(policy)
    made["metadata"]["name"] = name
    made["spec"]["matchConditions"][0]["expression"] = f"request.userInfo.username == '{user}'"
    if without is not None:
        del made["spec"]["validations"][without]
    return made


@pytest.fixture(scope="module")
def site(control_plane: Cluster) -> Iterator[Site]:
    install(control_plane)
    own, watched, other = (control_plane.create_namespace() for _ in range(3))
    shared = f"{LABEL[0]}={LABEL[1]}"
    control_plane.kubectl("label", "namespace", watched, "kube-public", shared)
    objects = rendered({}, own)
    policy = the("ValidatingAdmissionPolicy", objects)
    binding = the("ValidatingAdmissionPolicyBinding", objects)
    rules = [rule["message"] for rule in policy["spec"]["validations"]]
    made = Site(control_plane, own, watched, other, rules)
    users = {None: ACCOUNT} | {n: f"without-{n}" for n in range(len(rules))}
    items: list[Json] = []
    for number, user in users.items():
        name = f"{own}-{user}"
        account = f"system:serviceaccount:{own}:{user}"
        items += (
            _policy(name, account, policy, number),
            {
                **binding,
                "metadata": {"name": name},
                "spec": {**binding["spec"], "policyName": name},
            },
        )
    rights = {"apiGroup": "rbac.authorization.k8s.io", "kind": "ClusterRole"}
    admins = {
        "apiVersion": "rbac.authorization.k8s.io/v1",
        "kind": "ClusterRoleBinding",
        "metadata": {"name": own},
        "roleRef": {**rights, "name": "cluster-admin"},
        "subjects": [
            {"kind": "ServiceAccount", "name": user, "namespace": own} for user in users.values()
        ],
    }
    batch = {"apiVersion": "v1", "kind": "List", "items": [*items, admins]}
    control_plane.kubectl("apply", "-f", "-", manifest=batch)
    for user in users.values():  # a policy is in force a moment later
        eventually(lambda user=user: _refuses_anything(made, user), bool)
    yield made
    control_plane.kubectl("delete", "-f", "-", "--wait=false", manifest=batch)
    control_plane.kubectl("label", "namespace", "kube-public", f"{LABEL[0]}-")
    for namespace in (own, watched, other):
        control_plane.delete_namespace(namespace)


def _refuses_anything(site: Site, user: str) -> bool:
    """Whether the user's policy is in force: several rules refuse this."""
    secret = {
        "apiVersion": "v1",
        "kind": "Secret",
        "metadata": {"name": "x", "namespace": site.other},
    }
    try:
        site.cluster.kubectl(
            *("create", "--dry-run=server", "-f", "-"),
            *("--as", f"system:serviceaccount:{site.own}:{user}"),
            manifest=secret,
        )
    except Refused as refused:
        return "ValidatingAdmissionPolicy" in str(refused)
    return False


def signing_key(site: Site) -> Json:
    return manifests.signing_key(site.own, f"{ACCOUNT}-key", {"current": "aHVzaA=="})


def driver_deployment(site: Site) -> Json:
    spec = group(driver={"containers": [{"name": "driver", "image": "mine"}]})
    template = driver_template(spec, "landfall:1", "config", CONTEXT)
    return manifests.deployment(site.owner(), spec, 1, template)


def everything(site: Site) -> Iterator[Json]:
    """All that the operator creates."""
    owner, spec = site.owner(), group()
    yield from manifests.shared_objects(owner, ["clicks-driver", "mine"], CONTEXT)
    yield signing_key(site)
    yield manifests.config_map(owner, spec, "landfall:1", 2, CONTEXT)
    yield manifests.live_settings(owner, spec, manifests.LiveSettings(2))
    yield driver_deployment(site)
    yield manifests.controller_revision(owner, spec, "landfall:1", 1)
    yield trials.trial_manifest(owner, spec, "clicks-trial", "g1-12345678", 2)
    backfill, what = site.owner("Backfill"), BackfillSpec(group="clicks", last="1h")
    # The API server admits a pod only if its account exists.
    lander = pods.Lander(group(driver={"serviceAccountName": "default"}), "landfall:1")
    yield pods.config_map(backfill, what, lander, CONTEXT)
    yield from pods.network_policies(backfill, what, CONTEXT)
    yield pods.landing_pod(backfill, what, lander, CONTEXT)
    yield pods.discarding_pod(backfill, what, lander, CONTEXT)
    yield event_manifest(owner, EmitEvent("Normal", "Reason", "message"), datetime.now(UTC))
    yield rbac.namespace_binding(site.watched, site.role, rbac.Account(site.own, ACCOUNT))
    yield lease(site.own)


def lease(namespace: str) -> Json:
    return {
        "apiVersion": "coordination.k8s.io/v1",
        "kind": "Lease",
        "metadata": {"name": "landfall-operator", "namespace": namespace},
        "spec": {},
    }


def test_all_that_the_operator_creates_passes(site: Site) -> None:
    refused = {}
    for body in everything(site):
        try:
            site.write(body)
        except Refused as error:
            refused[f"{body['kind']}/{body['metadata']['name']}"] = str(error)

    assert refused == {}


def shared(kind: str) -> Callable[[Site], Json]:
    def of(site: Site) -> Json:
        objects = manifests.shared_objects(site.owner(), ["clicks-driver"], CONTEXT)
        return deepcopy(next(body for body in objects if body["kind"] == kind))

    return of


def placed(
    body: Callable[[Site], Json], namespace: Callable[[Site], str]
) -> Callable[[Site], Json]:
    return lambda site: changed(body(site), "metadata.namespace", namespace(site))


def edited(body: Callable[[Site], Json], path: str, value: object) -> Callable[[Site], Json]:
    return lambda site: changed(body(site), path, value)


def pod(path: str, value: object) -> Callable[[Site], Json]:
    """The driver's Deployment with one field of its pods set; ``0`` is the first container."""

    def of(site: Site) -> Json:
        made = driver_deployment(site)
        template = made["spec"]["template"]
        if path.startswith("0."):
            container = template["spec"]["containers"][0]
            container.update(changed(container, path.removeprefix("0."), value))
        else:
            made["spec"]["template"] = changed(template, path, value)
        return made

    return of


def host_path(site: Site) -> Json:
    made = driver_deployment(site)
    root = {"name": "root", "hostPath": {"path": "/"}}
    made["spec"]["template"]["spec"]["volumes"].append(root)
    return made


def stranger(site: Site) -> Json:
    return {
        "apiVersion": "v1",
        "kind": "PersistentVolumeClaim",
        "metadata": {"name": "claim", "namespace": site.watched},
        "spec": {
            "accessModes": ["ReadWriteOnce"],
            "resources": {"requests": {"storage": "1Gi"}},
        },
    }


def token(site: Site) -> Json:
    """A Secret into which Kubernetes would write the token of any account."""
    made = signing_key(site)
    made["type"] = "kubernetes.io/service-account-token"
    made["metadata"]["annotations"] = {"kubernetes.io/service-account.name": "default"}
    return made


def foreign_event(site: Site) -> Json:
    made = event_manifest(site.owner(), EmitEvent("Normal", "R", "m"), datetime.now(UTC))
    made["involvedObject"] |= {"apiVersion": "v1", "kind": "Pod"}
    return made


def own_binding(site: Site) -> Json:
    return rbac.namespace_binding(site.watched, site.role, rbac.Account(site.own, "default"))


RESTRICTED = "restricted pods:"
CASES: dict[str, tuple[str, Callable[[Site], Json]]] = {
    "another kind": ("this kind of object", stranger),
    "a Secret of a group": (
        "this kind of object",
        lambda site: manifests.control_secret(site.owner(), "token"),
    ),
    "kube-*": ("kube-* namespaces", placed(shared("ServiceAccount"), lambda _: "kube-public")),
    "no label of the namespace": (
        "does not carry the label",
        placed(shared("ServiceAccount"), lambda site: site.other),
    ),
    "own binding elsewhere": (
        "does not carry the label",
        lambda site: rbac.namespace_binding(site.other, site.role, rbac.Account(site.own, ACCOUNT)),
    ),
    "no mark": ("lacks the label", edited(shared("ServiceAccount"), "metadata.labels", {"a": "b"})),
    "no owner": (
        "no ConsumerGroup",
        edited(shared("ServiceAccount"), "metadata.ownerReferences", []),
    ),
    "an Event of others": ("Event is not about", foreign_event),
    "a Secret with a token": ("control tokens", token),
    "a Role": (
        "Role is not a driver's",
        edited(
            shared("Role"),
            "rules",
            [{"apiGroups": [""], "resources": ["secrets"], "verbs": ["get"]}],
        ),
    ),
    "a RoleBinding": (
        "RoleBinding is not a driver's",
        edited(
            shared("RoleBinding"),
            "roleRef",
            {"apiGroup": "rbac.authorization.k8s.io", "kind": "ClusterRole", "name": "admin"},
        ),
    ),
    "a RoleBinding for another namespace": (
        "RoleBinding is not a driver's",
        edited(
            shared("RoleBinding"),
            "subjects",
            [{"kind": "ServiceAccount", "name": "clicks-driver", "namespace": "elsewhere"}],
        ),
    ),
    "own binding for another": ("rights to somebody else", own_binding),
    "a Service": (
        "Service is not a driver's",
        edited(shared("Service"), "spec.externalIPs", ["10.1.1.1"]),
    ),
    "a NetworkPolicy": (
        "NetworkPolicy selects",
        edited(shared("NetworkPolicy"), "spec.podSelector", {}),
    ),
    "a budget": (
        "PodDisruptionBudget selects",
        edited(shared("PodDisruptionBudget"), "spec.selector", {"matchLabels": {"app": "theirs"}}),
    ),
    "host network": (f"{RESTRICTED} hostNetwork", pod("spec.hostNetwork", value=True)),
    "host path": (
        f"{RESTRICTED} a volume",
        host_path,
    ),
    "host port": (
        f"{RESTRICTED} hostPort",
        pod("0.ports", [{"containerPort": 80, "hostPort": 80}]),
    ),
    "escalation": (
        "allowPrivilegeEscalation",
        pod("0.securityContext.allowPrivilegeEscalation", value=True),
    ),
    "privileged": (
        "allowPrivilegeEscalation",
        pod("0.securityContext", {"privileged": True, "capabilities": {"drop": ["ALL"]}}),
    ),
    "capabilities": ("capabilities ALL", pod("0.securityContext.capabilities", {"drop": []})),
    "added": (
        "capabilities ALL",
        pod("0.securityContext.capabilities", {"drop": ["ALL"], "add": ["SYS_ADMIN"]}),
    ),
    "root": ("runs as root", pod("spec.securityContext.runAsUser", 0)),
    "perhaps root": ("runs as root", pod("0.securityContext.runAsNonRoot", value=False)),
    "seccomp": (
        "seccompProfile.type",
        pod("spec.securityContext.seccompProfile", {"type": "Unconfined"}),
    ),
    "sysctl": (
        "procMount, AppArmor",
        pod("spec.securityContext.sysctls", [{"name": "kernel.msgmax", "value": "1"}]),
    ),
    "apparmor": (
        "procMount, AppArmor",
        pod("0.securityContext.appArmorProfile", {"type": "Unconfined"}),
    ),
}
UPDATES = ("exists and is not Landfall's", "does not change specs")
"""Rules about objects that exist, with tests of their own."""


def rule(site: Site, words: str) -> str:
    (found,) = (message for message in site.rules if words in message)
    return found


@pytest.mark.parametrize("case", CASES)
def test_a_rule_refuses_what_would_pass_without_it(site: Site, case: str) -> None:
    words, body = CASES[case]
    message = rule(site, words)

    with pytest.raises(Refused) as refused:
        site.write(body(site))

    assert message in str(refused.value)
    assert site.write(body(site), without=message)


def test_every_rule_has_a_case(site: Site) -> None:
    assert {rule(site, words) for words, _ in CASES.values()} | {
        rule(site, words) for words in UPDATES
    } == set(site.rules)


def test_an_object_of_others_is_not_taken_over(site: Site) -> None:
    name = {"name": "clicks-driver", "namespace": site.watched}
    theirs = {"apiVersion": "v1", "kind": "ServiceAccount", "metadata": name}
    site.cluster.kubectl("create", "-f", "-", manifest=theirs)
    ours = shared("ServiceAccount")(site)
    message = rule(site, UPDATES[0])
    command = "apply"

    with pytest.raises(Refused) as refused:
        site.write(ours, command=command)

    assert message in str(refused.value)
    assert site.write(ours, command=command, without=message)
    delete = ("delete", "-n", site.watched, "serviceaccount", "clicks-driver", "--dry-run=server")
    as_operator = ("--as", f"system:serviceaccount:{site.own}:{ACCOUNT}")
    with pytest.raises(Refused, match="is not Landfall's"):
        site.cluster.kubectl(*delete, *as_operator)
    site.cluster.kubectl("delete", "-n", site.watched, "serviceaccount", "clicks-driver")


def test_the_spec_of_a_group_stays_and_its_finalizers_may_change(site: Site) -> None:
    name = "kept"
    group_of_user = changed(document(name), "metadata.namespace", site.watched)
    site.cluster.kubectl("create", "-f", "-", manifest=group_of_user)
    message = rule(site, UPDATES[1])

    def patch(body: Json, without: str = "", *options: str) -> str:
        account = f"without-{site.rules.index(without)}" if without else ACCOUNT
        return site.cluster.kubectl(
            *("patch", "consumergroup", name, "-n", site.watched, "--type=merge"),
            *("--dry-run=server", "-p", json.dumps(body), "-o", "name", *options),
            *("--as", f"system:serviceaccount:{site.own}:{account}"),
        )

    assert patch({"metadata": {"finalizers": ["landfall.dev/drain"]}})
    assert patch({"status": {"phase": "Running"}}, "", "--subresource=status")
    with pytest.raises(Refused) as refused:
        patch({"spec": {"state": "Suspended"}})
    assert message in str(refused.value)
    assert patch({"spec": {"state": "Suspended"}}, message)


@pytest.mark.parametrize("story", OPERATORS_STORIES, ids=lambda story: story.run.__name__)
def test_the_operator_works_under_the_policy(
    resource: Cluster, namespace: str, story: Story
) -> None:
    values = {"watch": {"namespaces": [namespace]}, "fullnameOverride": "landfall"}
    objects = rendered(values, namespace)
    ours = [each for each in objects if each["kind"].startswith("ValidatingAdmissionPolicy")]
    batch = {"apiVersion": "v1", "kind": "List", "items": ours}
    resource.kubectl("apply", "-f", "-", manifest=batch)
    stage = Stage(Groups(resource, namespace), Account(resource, namespace, OPERATOR))
    resource.allow(namespace, OPERATOR, story.rules)
    try:
        story.run(stage)
        refused = {str(each.right): each.refused for each in stage.account.asked() if each.refused}
    finally:
        resource.kubectl("delete", "-f", "-", "--wait=false", manifest=batch)
        with suppress(ApiException):  # the group may not exist
            stage.groups.patch("clicks", {"metadata": {"finalizers": None}})

    assert len(ours) == 2
    assert refused == {}


def test_what_the_policy_says_holds_for_the_operator_alone(site: Site) -> None:
    claim = stranger(site)

    assert site.cluster.kubectl(
        "create", "--dry-run=server", "-f", "-", "-o", "name", manifest=claim
    )


def test_a_listed_namespace_is_named_in_the_policy_instead_of_a_label() -> None:
    listed = the("ValidatingAdmissionPolicy", rendered({"watch": {"namespaces": ["a", "b"]}}))
    everywhere = the("ValidatingAdmissionPolicy", rendered({"watch": {"namespaces": ["*"]}}))

    conditions = [rule["expression"] for rule in listed["spec"]["validations"]]
    allowed = "variables.isLease || variables.isKey || request.namespace in ['a','b']"
    assert allowed in conditions
    assert "namespaceObject" not in json.dumps([listed, everywhere])


def test_pods_need_not_be_restricted() -> None:
    policy = the(
        "ValidatingAdmissionPolicy", rendered({"admissionPolicy": {"restrictPods": False}})
    )

    assert "restricted pods" not in json.dumps(policy)
