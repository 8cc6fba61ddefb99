"""A driver's Spark on this machine, with the service account and the configuration of a driver.

The pods of its executors never run. ``python -m tests.rights.spark`` is the process: it creates a
context, reads a number of executors from each line of its input and requests them, and ends at the
end of its input.
"""

import json
import os
import subprocess
import sys
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import IO, Self

from landfall.api.spec import parse_group
from landfall.driver.spark.executors import Executors
from landfall.driver.spark.session import spark_context
from landfall_operator.objects.names import driver_name
from landfall_operator.objects.pod_templates import (
    OperatorContext,
    executor_template,
    spark_defaults,
)
from tests.support.kubernetes.groups import Groups, changed, document

DRIVER = driver_name("clicks")
"""The name of the service account, and of the pod that owns the executors."""
EXECUTORS = 2


@dataclass
class Spark:
    """The Spark process, in a namespace that has the service account."""

    groups: Groups

    @contextmanager
    def running(self) -> Iterator[Self]:
        """Run the process until the end of the block at the latest."""
        with TemporaryDirectory() as folder:
            self._pod()
            self._write(Path(folder))
            log = Path(folder, "log")
            with log.open("wb") as output:
                self._popen = subprocess.Popen(
                    [sys.executable, "-m", __name__],
                    stdin=subprocess.PIPE,
                    stdout=output,
                    stderr=output,
                    env={**os.environ, "SPARK_CONF_DIR": folder},
                )
            try:
                yield self
            finally:
                self._popen.kill()
                self._popen.wait()

    def want(self, executors: int) -> None:
        """Make it request this many executors."""
        self._input.write(f"{executors}\n".encode())
        self._input.flush()

    def end(self) -> None:
        """Make the process end."""
        self._input.close()

    def has_ended(self) -> bool:
        return self._popen.poll() is not None

    def executors(self) -> list[str]:
        """Return the names of the executors' pods."""
        return self.groups.kubectl("get", "pods", "-l", "spark-role=executor", "-o", "name").split()

    def _pod(self) -> None:
        """Create the driver's pod, which owns the executors."""
        container = {"name": "driver", "image": "none"}
        metadata = {"name": DRIVER, "labels": {"played": "driver"}}
        pod = {
            "apiVersion": "v1",
            "kind": "Pod",
            "metadata": metadata,
            "spec": {"containers": [container]},
        }
        self.groups.kubectl("create", "-f", "-", manifest=pod)

    def _write(self, folder: Path) -> None:
        """Write what a driver finds in its pod, adapted to a process outside the cluster."""
        group, context = (
            parse_group(changed(document(), "metadata.namespace", self.groups.namespace)),
            OperatorContext("landfall:1", "landfall"),
        )
        api = self.groups.cluster.as_account(self.groups.namespace, DRIVER).configuration
        (folder / "token").write_text(str(api.api_key["authorization"]).removeprefix("Bearer "))
        (folder / "executor.json").write_text(json.dumps(executor_template(group, context)))
        outside_cluster = {
            "spark.master": f"k8s://{api.host}",
            "spark.kubernetes.authenticate.oauthTokenFile": folder / "token",
            "spark.kubernetes.authenticate.caCertFile": api.ssl_ca_cert,
            "spark.kubernetes.driver.pod.name": DRIVER,
            "spark.kubernetes.executor.podTemplateFile": folder / "executor.json",
            "spark.driver.host": "127.0.0.1",
            "spark.driver.bindAddress": "127.0.0.1",
            "spark.driver.port": 0,
            "spark.driver.blockManager.port": 0,
            # Spark deletes a surplus pod that has not registered only when it is this old.
            "spark.dynamicAllocation.executorIdleTimeout": "1s",
        }
        of_driver = dict(
            line.split(" ", 1)
            for line in spark_defaults(group, "landfall:1", EXECUTORS, context).splitlines()
        )
        lines = [f"{name} {value}\n" for name, value in {**of_driver, **outside_cluster}.items()]
        (folder / "spark-defaults.conf").write_text("".join(lines))

    @property
    def _input(self) -> IO[bytes]:
        assert self._popen.stdin
        return self._popen.stdin


def main() -> None:
    """Request as many executors as each line of the input says."""
    context = spark_context(parse_group(document()), None)
    executors = Executors(context)
    for line in sys.stdin:
        executors.want(int(line))
        executors.settle()
    context.stop()


if __name__ == "__main__":
    main()
