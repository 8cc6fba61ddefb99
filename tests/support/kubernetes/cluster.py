"""A Kubernetes cluster for tests: namespaces, clients with many or few rights, kubectl."""

import os
import subprocess
import sys
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from functools import cached_property
from pathlib import Path
from typing import Any
from uuid import uuid4

import orjson
from kubernetes import client, config
from kubernetes.client.exceptions import ApiException

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
        """A client with the rights of the administrator."""
        made: client.ApiClient = config.new_client_from_config(str(self.kubeconfig))
        return made

    def as_account(self, namespace: str, account: str) -> client.ApiClient:
        """A client with the rights of a ServiceAccount."""
        request = client.AuthenticationV1TokenRequest(spec=client.V1TokenRequestSpec(audiences=[]))
        tokens = client.CoreV1Api(self.admin)
        status = tokens.create_namespaced_service_account_token(account, namespace, request).status
        assert status
        admin = self.admin.configuration
        configuration = client.Configuration(
            host=admin.host, api_key={"authorization": f"Bearer {status.token}"}
        )
        configuration.ssl_ca_cert = admin.ssl_ca_cert
        return client.ApiClient(configuration)

    def allow(self, namespace: str, account: str, rules: Sequence[Mapping[str, Any]]) -> None:
        """Give a ServiceAccount exactly these rights in a namespace; creates it if necessary."""
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
        # The API server applies a Role a moment later, and an operator without a right exits.
        eventually(
            lambda: self._in_force(namespace, account),
            lambda known: all(rule in known for rule in wanted),
        )

    def _in_force(self, namespace: str, account: str) -> list[tuple[frozenset[str], ...]]:
        """The rules that the API server applies to an account."""
        review = client.V1SelfSubjectRulesReview(
            spec=client.V1SelfSubjectRulesReviewSpec(namespace=namespace)
        )
        api = client.AuthorizationV1Api(self.as_account(namespace, account))
        status = api.create_self_subject_rules_review(review).to_dict()["status"]
        return [
            _rule(
                {"apiGroups": rule["api_groups"], "resourceNames": rule["resource_names"], **rule}
            )
            for rule in status["resource_rules"]
        ]

    def create_namespace(self) -> str:
        """Create a namespace in which pods can be created."""
        name = f"test-{uuid4().hex[:12]}"
        api = client.CoreV1Api(self.admin)
        api.create_namespace(client.V1Namespace(metadata=client.V1ObjectMeta(name=name)))
        # Kubernetes creates the default account a moment later and admits no pod before.
        eventually(lambda: api.list_namespaced_service_account(name).items, bool)
        return name

    def has_namespace(self, name: str) -> bool:
        """Whether a namespace exists, perhaps in the middle of its deletion."""
        try:
            client.CoreV1Api(self.admin).read_namespace(name)
        except ApiException as error:
            return bool(error.status != 404)  # HTTP
        return True

    def delete_namespace(self, name: str) -> None:
        """Delete a namespace, if it exists, and all that is in it; returns before that is done."""
        try:
            client.CoreV1Api(self.admin).delete_namespace(name)
        except ApiException as error:
            if error.status != 404:  # HTTP
                raise

    def kubectl(self, *arguments: str, manifest: Mapping[str, Any] | None = None) -> str:
        """Run kubectl; returns its output. A manifest is passed as the file ``-``.

        Raises:
            Refused: It failed; the message is its error output.
        """
        program = programs.control_plane() / "kubectl"
        # Plug-ins, such as the wheel's own, are beside Python; they find kubectl on the PATH.
        folders = (str(Path(sys.executable).parent), str(program.parent), os.environ["PATH"])
        done = subprocess.run(
            [program, *arguments],
            env={
                **os.environ,
                "KUBECONFIG": str(self.kubeconfig),
                "PATH": os.pathsep.join(folders),
            },
            input=orjson.dumps(manifest) if manifest is not None else b"",
            capture_output=True,
            check=False,
        )
        if done.returncode:
            raise Refused(done.stderr.decode().strip())
        return done.stdout.decode()


class Refused(Exception):  # noqa: N818  # the name is the state
    """kubectl failed."""


def _rule(rule: Mapping[str, Any]) -> tuple[frozenset[str], ...]:
    """A rule in a form in which equal rules are equal, however they are written."""
    return tuple(
        frozenset(rule.get(key) or ())
        for key in ("apiGroups", "resources", "resourceNames", "verbs")
    )
