"""What tests do to a Kubernetes cluster: a namespace of their own, clients with many or few rights,
kubectl.
"""

import subprocess
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from functools import cached_property
from pathlib import Path
from typing import Any
from uuid import uuid4

import orjson
from kubernetes import client, config

from dev.kube import programs
from tests.support.waiting import eventually


@dataclass(frozen=True)
class Cluster:
    """A running cluster; ``str()`` and ``kubeconfig`` give the administrator's kubeconfig."""

    kubeconfig: Path

    def __str__(self) -> str:
        return str(self.kubeconfig)

    @cached_property
    def admin(self) -> client.ApiClient:
        """May do anything."""
        made: client.ApiClient = config.new_client_from_config(str(self.kubeconfig))
        return made

    def as_account(self, namespace: str, account: str) -> client.ApiClient:
        """May do what a ServiceAccount may."""
        request = client.AuthenticationV1TokenRequest(spec=client.V1TokenRequestSpec(audiences=[]))
        tokens = client.CoreV1Api(self.admin)
        status = tokens.create_namespaced_service_account_token(account, namespace, request).status
        assert status
        ours = self.admin.configuration
        theirs = client.Configuration(
            host=ours.host, api_key={"authorization": f"Bearer {status.token}"}
        )
        theirs.ssl_ca_cert = ours.ssl_ca_cert
        return client.ApiClient(theirs)

    def allow(self, namespace: str, account: str, rules: Sequence[Mapping[str, Any]]) -> None:
        """Let a ServiceAccount, which is made, do this in a namespace; whatever it was allowed
        before, it no longer is.
        """
        rbac, named = "rbac.authorization.k8s.io", {"name": account, "namespace": namespace}
        items = [
            {"apiVersion": "v1", "kind": "ServiceAccount", "metadata": named},
            {"apiVersion": f"{rbac}/v1", "kind": "Role", "metadata": named, "rules": list(rules)},
            {
                "apiVersion": f"{rbac}/v1",
                "kind": "RoleBinding",
                "metadata": named,
                "roleRef": {"apiGroup": rbac, "kind": "Role", "name": account},
                "subjects": [{"kind": "ServiceAccount", **named}],
            },
        ]
        self.kubectl(
            "apply", "-f", "-", manifest={"apiVersion": "v1", "kind": "List", "items": items}
        )
        wanted = list(map(_rule, rules))
        # the API server hears of a role a moment later; an operator that lacks a right ends at once
        eventually(
            lambda: self._in_force(namespace, account),
            lambda known: all(rule in known for rule in wanted),
        )

    def _in_force(self, namespace: str, account: str) -> list[tuple[frozenset[str], ...]]:
        """What an account may do."""
        review = client.V1SelfSubjectRulesReview(
            spec=client.V1SelfSubjectRulesReviewSpec(namespace=namespace)
        )
        asking = client.AuthorizationV1Api(self.as_account(namespace, account))
        told = asking.create_self_subject_rules_review(review).to_dict()["status"]["resource_rules"]
        return [
            _rule(
                {"apiGroups": rule["api_groups"], "resourceNames": rule["resource_names"], **rule}
            )
            for rule in told
        ]

    def create_namespace(self) -> str:
        """A namespace nobody else uses, in which pods may be made."""
        name = f"test-{uuid4().hex[:12]}"
        api = client.CoreV1Api(self.admin)
        api.create_namespace(client.V1Namespace(metadata=client.V1ObjectMeta(name=name)))
        # a moment later; without it no pod is let in
        eventually(lambda: api.list_namespaced_service_account(name).items, bool)
        return name

    def delete_namespace(self, name: str) -> None:
        """Have it gone with all that is in it, some time soon."""
        client.CoreV1Api(self.admin).delete_namespace(name)

    def kubectl(self, *arguments: str, manifest: Mapping[str, Any] | None = None) -> str:
        """What kubectl prints; a manifest is what it reads as the file ``-``.

        Raises:
            Refused: it fails; says what kubectl says.
        """
        program = programs.control_plane() / "kubectl"
        done = subprocess.run(
            [program, "--kubeconfig", self.kubeconfig, *arguments],
            input=orjson.dumps(manifest) if manifest is not None else b"",
            capture_output=True,
            check=False,
        )
        if done.returncode:
            raise Refused(done.stderr.decode().strip())
        return done.stdout.decode()


class Refused(Exception):  # noqa: N818  # what happened, in kubectl's words
    """Kubectl failed."""


def _rule(rule: Mapping[str, Any]) -> tuple[frozenset[str], ...]:
    """What a rule says, however it is written."""
    return tuple(
        frozenset(rule.get(key) or ())
        for key in ("apiGroups", "resources", "resourceNames", "verbs")
    )
