"""Operators as separate processes with the rights of ``landfall_operator.objects.rbac``."""

import os
import re
import signal
import subprocess
import sys
import threading
import urllib.error
import urllib.request
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import yaml
from prometheus_client.parser import text_string_to_metric_families
from prometheus_client.samples import Sample

from landfall_operator.objects import rbac
from landfall_operator.objects.names import OPERATOR
from tests.support.kubernetes.cluster import Cluster
from tests.support.waiting import eventually

PATIENCE = 240.0


@dataclass
class Running:
    """An operator that was started; ``log`` is the file of its output."""

    popen: subprocess.Popen[bytes]
    log: Path

    def ask(self, path: str) -> tuple[int, str]:
        """The status code and body of a page; code 0 when the operator does not answer."""
        try:
            with urllib.request.urlopen(f"{self._address}{path}", timeout=PATIENCE) as answer:
                return answer.status, answer.read().decode()
        except urllib.error.HTTPError as error:
            return error.code, error.read().decode()
        except OSError:
            return 0, ""

    def metric(self, name: str, **labels: str) -> float:
        """The value of a sample; 0 when it does not exist."""
        found = (
            s.value
            for s in self._samples()
            if s.name == name and labels.items() <= s.labels.items()
        )
        return next(found, 0.0)

    def written(self) -> dict[tuple[str, str], float]:
        """The number of writes by verb and kind, except for the lease and the groups' status."""
        requests = (s for s in self._samples() if s.name == "landfall_operator_api_requests_total")
        counted = {
            (s.labels["verb"], s.labels["kind"]): s.value
            for s in requests
            if s.labels["kind"] != "Lease"
        }
        return {
            request: n
            for request, n in counted.items()
            if request[0] not in {"get", "list", "patch_status"}
        }

    def asked(self) -> float:
        """The number of requests to the API server, except for watches."""
        requests = (s for s in self._samples() if s.name == "landfall_operator_api_requests_total")
        return sum(s.value for s in requests)

    def _samples(self) -> list[Sample]:
        families = text_string_to_metric_families(self.ask("/metrics")[1])
        return [sample for family in families for sample in family.samples]

    def wait_until_leading(self) -> None:
        eventually(
            lambda: (self.popen.poll(), self.ask("/readyz")),
            lambda seen: "leading" in seen[1][1],
            PATIENCE,
        )

    def kill(self) -> None:
        """Kill it, as a power failure would."""
        self.popen.kill()
        self.popen.wait()

    def end(self, number: signal.Signals = signal.SIGTERM) -> int:
        """Send a signal and wait for the end; returns the exit code."""
        self.popen.send_signal(number)
        return self.popen.wait(PATIENCE)

    @property
    def _address(self) -> str:
        """The address in its log; before it is logged, one that nobody listens on."""
        found = re.search(r"address=(\S+)", self.said)
        return found[1] if found else "http://127.0.0.1:1"

    @property
    def said(self) -> str:
        return self.log.read_text(errors="replace")


@dataclass
class Operators:
    """Starts operators in a namespace, for the groups of that namespace."""

    cluster: Cluster
    namespace: str
    folder: Path
    begun: list[Running] = field(default_factory=list)
    host: str = ""
    """The address of the API server for the operators, if it is a proxy's."""
    pod: str = ""
    """The POD_NAME of all operators; empty for different names."""
    _over: threading.Event = field(default_factory=threading.Event)
    _starting: threading.Lock = field(default_factory=threading.Lock)

    def allow(self, rules: Sequence[Any] = rbac.GROUPS) -> None:
        """Give the operator's account exactly these rights, and those on its lease."""
        self.cluster.allow(self.namespace, OPERATOR, [*rules, *rbac.own(OPERATOR)])

    def start(self, *options: str, everywhere: bool = False) -> Running:
        """Start another operator, of this namespace or of those that the options name."""
        number = len(self.begun)
        log = self.folder / f"operator-{number}.log"
        command = [
            *(sys.executable, "-m", "landfall_operator"),
            *(() if everywhere else ("--namespace", self.namespace)),
            *("--own-namespace", self.namespace),
            *("--http-host", "127.0.0.1", "--http-port", "0"),
            *(
                "--image",
                "landfall:1",
                "--log-format",
                "text",
                "--log-level",
                "DEBUG",
                "--interval",
                "3",
            ),
            *options,
        ]
        environment = {**os.environ, "KUBECONFIG": str(self._kubeconfig()), "POD_NAME": self.pod}
        with log.open("wb") as output:
            popen = subprocess.Popen(
                command,
                stdin=subprocess.DEVNULL,
                stdout=output,
                stderr=output,
                env=environment,
                start_new_session=True,
            )
        self.begun.append(Running(popen, log))
        return self.begun[-1]

    def lead(self, *options: str) -> Running:
        """Start another operator and wait until it is the leader."""
        started = self.start(*options)
        started.wait_until_leading()
        return started

    def keep(self, *options: str) -> None:
        """Keep an operator running, as a Deployment does: start another one whenever one ends."""
        threading.Thread(
            target=self._again, args=(self.start(*options), options), daemon=True
        ).start()
        eventually(
            lambda: self.begun[-1].ask("/readyz")[1], lambda text: "leading" in text, 2 * PATIENCE
        )

    def _again(self, running: Running, options: Sequence[str]) -> None:
        while not self._over.is_set():
            running.popen.wait()
            with self._starting:
                if not self._over.is_set():
                    running = self.start(*options)

    @contextmanager
    def clearing(self) -> Iterator["Operators"]:
        """Kill all operators at the end of the block."""
        try:
            yield self
        finally:
            with self._starting:
                self._over.set()
            for running in self.begun:
                running.kill()

    def _kubeconfig(self) -> Path:
        """A kubeconfig with a real token of the account, without a client certificate."""
        account = self.cluster.as_account(self.namespace, OPERATOR).configuration
        token = str(account.api_key["authorization"]).removeprefix("Bearer ")
        server = {
            "server": self.host or account.host,
            "certificate-authority": str(account.ssl_ca_cert),
        }
        document = {
            "apiVersion": "v1",
            "kind": "Config",
            "clusters": [{"name": "c", "cluster": server}],
            "users": [{"name": "u", "user": {"token": token}}],
            "contexts": [{"name": "x", "context": {"cluster": "c", "user": "u"}}],
            "current-context": "x",
        }
        path = self.folder / "operator.kubeconfig"
        path.write_text(yaml.safe_dump(document))
        return path
