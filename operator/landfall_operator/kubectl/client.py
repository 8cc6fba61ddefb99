"""Runs kubectl, with the cluster and the namespace that the user has chosen."""

import json
import subprocess
import sys
from collections.abc import Sequence
from typing import Any

RESOURCE = "consumergroups.landfall.dev"


class KubectlError(Exception):
    """kubectl ended with an error; the message is its output.

    Attributes:
        exit_code: kubectl's exit code.
    """

    def __init__(self, message: str, exit_code: int) -> None:
        super().__init__(message)
        self.exit_code = exit_code


class Kubectl:
    """kubectl with the user's options for the connection, such as ``--context``."""

    def __init__(self, options: Sequence[str], program: str = "kubectl") -> None:
        """Every command is run as ``program *options COMMAND…``."""
        self._start = [program, *options]

    def group(self, name: str) -> dict[str, Any]:
        """The ``ConsumerGroup`` as the API server has it.

        Raises:
            KubectlError: there is no such group, or the API server refuses to show it.
        """
        read: dict[str, Any] = json.loads(self._run("get", RESOURCE, name, "-o", "json"))
        return read

    def groups(self, *, everywhere: bool) -> list[dict[str, Any]]:
        """The groups of a namespace, or of all.

        Raises:
            KubectlError: the API server does not answer, or refuses to list groups.
        """
        place = ["--all-namespaces"] if everywhere else []
        listed: list[dict[str, Any]] = json.loads(self._run("get", RESOURCE, *place, "-o", "json"))[
            "items"
        ]
        return listed

    def annotate(self, name: str, annotation: str) -> None:
        """Set an annotation, as ``name=value``, or remove it, as ``name-``.

        Raises:
            KubectlError: the API server refuses it.
        """
        self._run("annotate", RESOURCE, name, "--overwrite", annotation)

    def execute(self, deployment: str, command: Sequence[str]) -> int:
        """Run a command in the driver's container with this terminal; returns its exit code."""
        terminal = ["-it"] if sys.stdin.isatty() and sys.stdout.isatty() else []
        target = [*terminal, f"deployment/{deployment}", "-c", "driver", "--", *command]
        return subprocess.run([*self._start, "exec", *target], check=False).returncode  # noqa: S603  # no shell

    def _run(self, *command: str) -> str:
        try:
            done = subprocess.run(  # noqa: S603  # no shell
                [*self._start, *command], check=False, capture_output=True, text=True
            )
        except FileNotFoundError as missing:
            raise KubectlError(f"{self._start[0]} is not on the PATH", 127) from missing
        if done.returncode:
            raise KubectlError(done.stderr.strip(), done.returncode)
        return done.stdout
