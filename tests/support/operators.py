"""The operator as a process of its own, with a ServiceAccount that may do what
``landfall_operator.objects.rbac`` says, and no more.
"""

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
from tests.support.cluster import Cluster
from tests.support.waiting import eventually

PATIENCE = 240.0


@dataclass
class Running:
    """An operator that was started; ``log`` is what it says."""

    popen: subprocess.Popen[bytes]
    log: Path

    def ask(self, path: str) -> tuple[int, str]:
        """Its HTTP face; code 0 when nobody answers."""
        try:
            with urllib.request.urlopen(f"{self._address}{path}", timeout=PATIENCE) as answer:
                return answer.status, answer.read().decode()
        except urllib.error.HTTPError as error:
            return error.code, error.read().decode()
        except OSError:
            return 0, ""

    def metric(self, name: str, **labels: str) -> float:
        """A sample's value; 0 when there is none."""
        found = (
            s.value
            for s in self._samples()
            if s.name == name and labels.items() <= s.labels.items()
        )
        return next(found, 0.0)

    def written(self) -> dict[tuple[str, str], float]:
        """How often it has changed what, by verb and kind; its lease and the groups' status apart."""
        requests = (s for s in self._samples() if s.name == "landfall_operator_api_requests_total")
        counted = {
            (s.labels["verb"], s.labels["kind"]): s.value
            for s in requests
            if s.labels["kind"] != "Lease"
        }
        return {
            asked: n
            for asked, n in counted.items()
            if asked[0] not in {"get", "list", "patch_status"}
        }

    def asked(self) -> float:
        """How many requests the API server got of it, but for its lease and watches."""
        requests = (s for s in self._samples() if s.name == "landfall_operator_api_requests_total")
        return sum(s.value for s in requests if s.labels["kind"] != "Lease")

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
        """As if the power went."""
        self.popen.kill()
        self.popen.wait()

    def end(self, number: signal.Signals = signal.SIGTERM) -> int:
        """Ask it to end, and return its exit code."""
        self.popen.send_signal(number)
        return self.popen.wait(PATIENCE)

    @property
    def _address(self) -> str:
        """Where it says that it can be asked; an address of nobody's until then."""
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
    """Where they find the API server, if not where it is."""
    pod: str = ""
    """What all of them are called, if they are to have the same name."""
    _over: threading.Event = field(default_factory=threading.Event)
    _starting: threading.Lock = field(default_factory=threading.Lock)

    def allow(self, rules: Sequence[Any] = rbac.GROUPS) -> None:
        """Let the operator's account do this and hold its lease; whatever it was allowed before, it
        no longer is.
        """
        self.cluster.allow(self.namespace, OPERATOR, [*rules, *rbac.own(OPERATOR)])

    def start(self, *options: str) -> Running:
        """Another one."""
        number = len(self.begun)
        log = self.folder / f"operator-{number}.log"
        command = [
            *(sys.executable, "-m", "landfall_operator"),
            *("--namespace", self.namespace, "--own-namespace", self.namespace),
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
        """Another one, that leads."""
        started = self.start(*options)
        started.wait_until_leading()
        return started

    def keep(self, *options: str) -> None:
        """Have one that leads, and another one whenever it ends, as a Deployment has: one that
        cannot renew its lease does end.
        """
        threading.Thread(
            target=self._again, args=(self.start(*options), options), daemon=True
        ).start()
        eventually(
            lambda: self.begun[-1].ask("/readyz")[1], lambda word: "leading" in word, 2 * PATIENCE
        )

    def _again(self, running: Running, options: Sequence[str]) -> None:
        while not self._over.is_set():
            running.popen.wait()
            with self._starting:
                if not self._over.is_set():
                    running = self.start(*options)

    @contextmanager
    def clearing(self) -> Iterator["Operators"]:
        """Let none of them outlive the block."""
        try:
            yield self
        finally:
            with self._starting:
                self._over.set()
            for running in self.begun:
                running.kill()

    def _kubeconfig(self) -> Path:
        """Of the account: a real token, no certificate."""
        ours = self.cluster.as_account(self.namespace, OPERATOR).configuration
        token = str(ours.api_key["authorization"]).removeprefix("Bearer ")
        where = {"server": self.host or ours.host, "certificate-authority": str(ours.ssl_ca_cert)}
        document = {
            "apiVersion": "v1",
            "kind": "Config",
            "clusters": [{"name": "c", "cluster": where}],
            "users": [{"name": "u", "user": {"token": token}}],
            "contexts": [{"name": "x", "context": {"cluster": "c", "user": "u"}}],
            "current-context": "x",
        }
        path = self.folder / "operator.kubeconfig"
        path.write_text(yaml.safe_dump(document))
        return path
