"""What tests do with the chart: lint it, render it, install it, and read what Helm says."""

import subprocess
from functools import cache
from pathlib import Path
from typing import Any

import yaml

from dev.kube import programs

CHART = Path(__file__).resolve().parents[2] / "charts/landfall"
RELEASE = "try"
Values = dict[str, Any]
Manifest = dict[str, Any]


class Refused(Exception):  # noqa: N818  # what happened, in Helm's words
    """Helm failed."""


def lint(values: Values) -> str:
    """What a strict linter says.

    Raises:
        Refused: there is something wrong.
    """
    return _helm("lint", CHART, "--strict", *_for_our_kubernetes(), values=yaml.safe_dump(values))


def rendered(values: Values, namespace: str = "landfall") -> list[Manifest]:
    """Every object, hooks too.

    Raises:
        Refused: Helm does.
    """
    return [
        manifest
        for manifest in yaml.safe_load_all(_rendered(yaml.safe_dump(values), namespace))
        if manifest
    ]


@cache
def _rendered(values: str, namespace: str) -> str:
    return _helm("template", RELEASE, CHART, "-n", namespace, *_for_our_kubernetes(), values=values)


def run(
    kubeconfig: Path, namespace: str, command: str, *arguments: str, values: Values | None = None
) -> str:
    """What Helm prints: ``install``, ``upgrade``, ``uninstall`` … of the release in a cluster.

    Raises:
        Refused: Helm does.
    """
    where = ("--kubeconfig", str(kubeconfig), "-n", namespace)
    return _helm(
        command, RELEASE, *arguments, *where, values=yaml.safe_dump(values) if values else ""
    )


def _for_our_kubernetes() -> tuple[str, str]:
    return "--kube-version", programs.KUBERNETES


def _helm(*arguments: str | Path, values: str) -> str:
    done = subprocess.run(
        [programs.helm() / "helm", *arguments, *(("--values", "-") if values else ())],
        input=values,
        capture_output=True,
        text=True,
        check=False,
    )
    if done.returncode:
        raise Refused(done.stdout + done.stderr)
    return done.stdout
