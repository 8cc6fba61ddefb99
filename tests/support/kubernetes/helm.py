"""Helm as tests run it: lint the chart, render it, install it."""

import subprocess
from functools import cache
from pathlib import Path
from typing import Any

import yaml

from dev.kube import programs

CHART = Path(__file__).resolve().parents[3] / "charts/landfall"
RELEASE = "try"
REGISTRY = "registry.example:5000/mirror"
Values = dict[str, Any]
Manifest = dict[str, Any]


class Refused(Exception):  # noqa: N818  # the name is the state
    """Helm failed; the message is its output."""


def lint(values: Values) -> str:
    """The output of a strict lint.

    Raises:
        Refused: The linter found a fault.
    """
    flags = ("--strict", *_for_our_kubernetes(), *_registry(values))
    return _helm("lint", CHART, *flags, values=yaml.safe_dump(values))


def rendered(values: Values, namespace: str = "landfall") -> list[Manifest]:
    """Every object that the chart renders, hooks included.

    Raises:
        Refused: Helm rejects the values.
    """
    return [
        manifest
        for manifest in yaml.safe_load_all(_rendered(yaml.safe_dump(values), namespace))
        if manifest
    ]


@cache
def _rendered(values: str, namespace: str) -> str:
    flags = ("-n", namespace, *_for_our_kubernetes(), *_registry(yaml.safe_load(values)))
    return _helm("template", RELEASE, CHART, *flags, values=values)


def of_kind(kind: str, manifests: list[Manifest]) -> list[Manifest]:
    """All manifests of a kind."""
    return [manifest for manifest in manifests if manifest["kind"] == kind]


def the(kind: str, manifests: list[Manifest]) -> Manifest:
    """The only manifest of a kind."""
    (found,) = of_kind(kind, manifests)
    return found


def run(
    kubeconfig: Path, namespace: str, command: str, *arguments: str, values: Values | None = None
) -> str:
    """Run a Helm command on the test release in a cluster; returns what Helm prints.

    Raises:
        Refused: The command failed.
    """
    where = ("--kubeconfig", str(kubeconfig), "-n", namespace)
    registry = _registry(values or {}) if command in {"install", "upgrade"} else ()
    return _helm(
        command,
        RELEASE,
        *arguments,
        *where,
        *registry,
        values=yaml.safe_dump(values) if values else "",
    )


def _registry(values: Values) -> tuple[str, ...]:
    """The registry, without which the chart installs nothing, for values that have none."""
    given = "registry" in values.get("image", {})
    return () if given else ("--set", f"image.registry={REGISTRY}")


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
