"""Tokens and kubeconfigs for the API server, and a minimal client that suffices for the start."""

import base64
import csv
import io
import json
import secrets
import ssl
import urllib.request
from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any
from urllib.error import HTTPError

from dev.servers.ports import write

NODE = "landfall"
"""The name of the node."""
USERS: Mapping[str, tuple[str, str]] = {
    "admin": ("landfall-admin", "system:masters"),
    "controller-manager": ("system:kube-controller-manager", ""),
    "scheduler": ("system:kube-scheduler", ""),
    "proxy": ("system:kube-proxy", ""),
    "dns": ("system:coredns", ""),
    "policies": ("system:network-policies", ""),
    "node": (f"system:node:{NODE}", "system:nodes"),
}
"""The user name and group of each user, by the name of its kubeconfig."""


@dataclass(frozen=True, slots=True)
class ClusterAccess:
    """Access to the API server of one cluster."""

    home: Path
    server: str

    def write(self) -> None:
        """Write a token and a kubeconfig for each user."""
        tokens = self._tokens()
        authority = base64.b64encode((self.home / "pki" / "ca.crt").read_bytes()).decode()
        for user, token in tokens.items():
            document = {
                "apiVersion": "v1",
                "kind": "Config",
                "clusters": [
                    {
                        "name": "landfall",
                        "cluster": {"server": self.server, "certificate-authority-data": authority},
                    }
                ],
                "users": [{"name": user, "user": {"token": token}}],
                "contexts": [
                    {
                        "name": "landfall",
                        "context": {"cluster": "landfall", "user": user, "namespace": "default"},
                    }
                ],
                "current-context": "landfall",
            }
            write(self.kubeconfig(user), json.dumps(document, indent=1) + "\n", mode=0o600)

    def kubeconfig(self, user: str = "admin") -> Path:
        """The path of a user's kubeconfig, which is written as JSON, a subset of YAML."""
        return self.home / f"{user}.kubeconfig"

    @property
    def tokens(self) -> Path:
        """The token file of the API server."""
        return self.home / "pki" / "tokens.csv"

    def ready(self) -> bool:
        """Return whether the API server answers that it is ready."""
        try:
            self.call("GET", "/readyz")
        except OSError:
            return False
        return True

    def exists(self, path: str) -> bool:
        """Return whether an object exists."""
        try:
            self.call("GET", path)
        except HTTPError as error:
            if error.code == 404:
                return False
            raise
        return True

    def apply(self, path: str, manifest: Mapping[str, Any]) -> None:
        """Create or change an object by server-side apply."""
        query = "?fieldManager=landfall-dev&force=true"
        self.call("PATCH", path + query, manifest, {"Content-Type": "application/apply-patch+yaml"})

    def call(
        self,
        method: str,
        path: str,
        body: Mapping[str, Any] | None = None,
        headers: Mapping[str, str] | None = None,
    ) -> bytes:
        """Send one request as the administrator.

        Raises:
            HTTPError: The API server rejects it.
            OSError: The API server does not answer.
        """
        token = self._tokens()["admin"]
        trust = ssl.create_default_context(cafile=str(self.home / "pki" / "ca.crt"))
        # Without the proxies of the environment: they cannot reach addresses of this machine.
        opener = urllib.request.build_opener(
            urllib.request.ProxyHandler({}), urllib.request.HTTPSHandler(context=trust)
        )
        data = json.dumps(body).encode() if body is not None else None
        request = urllib.request.Request(  # noqa: S310  # always https
            self.server + path,
            data,
            {"Authorization": f"Bearer {token}", **(headers or {})},
            method=method,
        )
        with opener.open(request, timeout=30) as answer:
            return bytes(answer.read())

    def _tokens(self) -> dict[str, str]:
        """The tokens by user; created on the first call."""
        if not self.tokens.exists():
            rows = io.StringIO()
            writer = csv.writer(rows, lineterminator="\n")
            for user, (name, group) in USERS.items():
                writer.writerow(
                    [secrets.token_urlsafe(24), name, user, *([group] if group else [])]
                )
            write(self.tokens, rows.getvalue(), mode=0o600)
        with self.tokens.open(newline="") as file:
            return {row[2]: row[0] for row in csv.reader(file)}
