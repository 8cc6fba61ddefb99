"""The operator's command line: flags that can also be set by environment variables.

A flag wins over its variable, and an empty variable counts as not set.
"""

import argparse
import json
import re
import socket
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any, TypeVar
from uuid import uuid4

from landfall import __version__
from landfall.api.pod_spec import DriverPod, ExecutorPod, Pod
from landfall_operator.core.claims import Claims, parse_selector
from landfall_operator.objects.names import OPERATOR, SIGNING_KEY, is_reserved
from landfall_operator.objects.overlay import Json
from landfall_operator.objects.pod_templates import OperatorContext
from landfall_operator.objects.rbac import Account
from landfall_operator.runtime.namespaces import Labelled
from landfall_operator.runtime.reconciler import INTERVAL

_POD_NAMESPACE_FILE = Path("/var/run/secrets/kubernetes.io/serviceaccount/namespace")
_DESCRIPTION = (
    "Manages ConsumerGroups on Kubernetes: runs, scales, upgrades and monitors one Landfall driver "
    "for each of them."
)
_EPILOG = (
    "In brackets: the environment variable and the default. POD_NAME is the operator's name in the "
    "lease. KUBECONFIG selects the cluster when the operator runs outside of one."
)


@dataclass(frozen=True, slots=True)
class OperatorSettings:
    """The settings of one operator.

    Attributes:
        namespaces: The namespaces whose groups the operator manages; empty for all, or for the
            ``labelled`` ones.
        labelled: How the namespaces are found whose groups the operator manages, if by a label.
        namespace: The namespace of the operator and of its lease.
        lease: The name of the lease.
        signing_key: The name of the Secret with the key that commands to drivers are signed with.
        holder: The operator's name in the lease.
        host: The address that the HTTP server listens on; empty for all.
        port: The port that the HTTP server listens on.
        log_format: ``text`` or ``json``.
        log_level: The lowest level that is logged, as ``logging`` names it.
        threads: How many requests to the API server may run at the same time.
        interval: Seconds between two reconcile passes over a group when nothing happens.
        claims: Which groups of these namespaces the operator manages.
        max_rollouts: How many groups may change their revision at once; 0 for any number.
        context: What the objects of all groups have in common.
    """

    namespaces: tuple[str, ...]
    labelled: Labelled | None
    namespace: str
    lease: str
    signing_key: str
    holder: str
    host: str
    port: int
    log_format: str
    log_level: str
    threads: int
    interval: float
    claims: Claims
    max_rollouts: int
    context: OperatorContext


def read(arguments: Sequence[str], environment: Mapping[str, str]) -> OperatorSettings:
    """Parse the command line and the environment; exits on a wrong flag, as argparse does."""
    parser = _parser(environment)
    parsed = parser.parse_args(arguments)
    namespaces = parsed.namespace or _items(environment.get("LANDFALL_NAMESPACES", ""))
    if reserved := [name for name in namespaces if is_reserved(name)]:
        parser.error(f"--namespace {reserved[0]}: groups in kube-* namespaces are not managed")
    if namespaces and parsed.namespace_label:
        parser.error("--namespace and --namespace-label exclude each other")
    pod = environment.get("POD_NAME")
    return OperatorSettings(
        namespaces=tuple(sorted(set(namespaces))),
        labelled=Labelled(
            parsed.namespace_label,
            parsed.namespace_role,
            Account(parsed.own_namespace, parsed.service_account),
        )
        if parsed.namespace_label
        else None,
        namespace=parsed.own_namespace,
        lease=parsed.lease,
        signing_key=parsed.signing_key,
        # Outside of a pod, two operators on one machine must not share a name: each would think
        # that it holds the lease.
        holder=pod or f"{socket.gethostname()}-{uuid4().hex[:8]}",
        host=parsed.http_host,
        port=parsed.http_port,
        log_format=parsed.log_format,
        log_level=parsed.log_level,
        threads=parsed.threads,
        interval=parsed.interval,
        claims=Claims(f"{parsed.own_namespace}/{parsed.lease}", parsed.selector),
        max_rollouts=parsed.max_rollouts,
        context=OperatorContext(
            image=parsed.image,
            namespace=parsed.own_namespace,
            operator_labels=_labels(parsed.operator_labels),
            image_pull_policy=parsed.image_pull_policy,
            image_pull_secrets=_items(parsed.image_pull_secrets),
            readers=parsed.metrics_readers,
            driver=parsed.driver_defaults,
            executor=parsed.executor_defaults,
            inherited=parsed.inherited_labels,
        ),
    )


def _interval(text: str) -> float:
    """Seconds from 1 to 15: a longer interval would let fresh numbers count as outdated.

    See ``landfall_operator.core.snapshot.FRESH``.
    """
    seconds = float(text)
    if not 1 <= seconds <= INTERVAL:
        raise ValueError(text)
    return seconds


def _at_least_zero(text: str) -> int:
    if int(text) < 0:
        raise ValueError(text)
    return int(text)


def _label(text: str) -> str:
    """A label as ``key=value``, or nothing."""
    if text and not re.fullmatch(r"[A-Za-z0-9./_-]+=[A-Za-z0-9._-]+", text):
        raise ValueError(text)
    return text


def _keys(text: str) -> tuple[str, ...]:
    """Keys of labels."""
    keys = _items(text)
    if not all(re.fullmatch(r"[A-Za-z0-9./_-]+", key) for key in keys):
        raise ValueError(text)
    return keys


def _peers(text: str) -> tuple[Json, ...]:
    """Peers of a NetworkPolicy. An empty one would be every pod of the group's namespace."""
    peers = json.loads(text or "[]")
    if not isinstance(peers, list) or not all(isinstance(p, dict) and p for p in peers):
        raise ValueError(text)
    return tuple(peers)


P = TypeVar("P", bound=Pod)


def _pod(kind: type[P]) -> Callable[[str], P]:
    """Reads what the pods of all groups get; the account of a pod is a group's own affair."""

    def pod(text: str) -> P:
        found = kind.model_validate(json.loads(text or "{}"), by_alias=True, by_name=False)
        if found.service_account_name:
            raise ValueError("serviceAccountName is no default")
        return found

    return pod


_READERS = (
    "peers that may read the status and metrics of drivers, as JSON: the list `from` of a "
    "NetworkPolicy; empty for everyone"
)
_FLAGS: Sequence[tuple[str, str, str, Mapping[str, Any]]] = (
    (
        "--namespace-label",
        "",
        "manage the groups of the namespaces with this label, as key=value",
        {"type": _label},
    ),
    (
        "--namespace-role",
        "",
        "ClusterRole that the operator binds itself to in each namespace with that label, if any",
        {},
    ),
    (
        "--selector",
        "",
        "manage only the groups whose labels match, as in kubectl --selector; empty for all",
        {"type": parse_selector},
    ),
    (
        "--service-account",
        OPERATOR,
        "the operator's ServiceAccount, for these bindings",
        {},
    ),
    (
        "--image",
        f"landfall-spark:{__version__}",
        "image of drivers and executors of groups without spec.image",
        {},
    ),
    (
        "--image-pull-policy",
        "IfNotPresent",
        "pull policy of drivers and executors, unless a group sets its own",
        {},
    ),
    (
        "--image-pull-secrets",
        "",
        "comma-separated names of Secrets that every driver and executor pod gets for pulling",
        {},
    ),
    (
        "--operator-labels",
        f"app.kubernetes.io/name={OPERATOR}",
        "labels of the operator's pods, as a=b,c=d; only they may reach drivers' control port",
        {},
    ),
    (
        "--metrics-readers",
        "",
        _READERS,
        {"type": _peers},
    ),
    (
        "--driver-defaults",
        "",
        "what the pods of all drivers get, as JSON of spec.driver; the values of a group win",
        {"type": _pod(DriverPod)},
    ),
    (
        "--executor-defaults",
        "",
        "what the pods of all executors get, as JSON of spec.executor; the values of a group win",
        {"type": _pod(ExecutorPod)},
    ),
    (
        "--inherited-labels",
        "",
        "comma-separated keys of labels that pods and other objects of a group have from it",
        {"type": _keys},
    ),
    (
        "--lease",
        OPERATOR,
        "name of the lease; of all operators with the same lease, one is the leader",
        {},
    ),
    (
        "--signing-key",
        SIGNING_KEY,
        "Secret of its own namespace with the key that signs commands; made by the operator",
        {},
    ),
    (
        "--http-host",
        "",
        "address to serve /metrics, /healthz and /readyz on; empty for all addresses",
        {},
    ),
    ("--http-port", "8080", "port to serve these on", {"type": int}),
    ("--log-format", "json", "text or json", {"choices": ("text", "json")}),
    (
        "--log-level",
        "INFO",
        "DEBUG, INFO, WARNING or ERROR",
        {"choices": ("DEBUG", "INFO", "WARNING", "ERROR")},
    ),
    (
        "--interval",
        "15",
        "seconds between two reconcile passes over a group when nothing happens, from 1 to 15",
        {"type": _interval},
    ),
    (
        "--max-rollouts",
        "0",
        "how many groups may change their revision at once, the rest wait; 0: any number",
        {"type": _at_least_zero},
    ),
    (
        "--threads",
        "16",
        "maximum number of concurrent requests to the API server",
        {"type": int},
    ),
)
"""Flag, default, help and further arguments of argparse; the environment variable follows."""


def _parser(environment: Mapping[str, str]) -> argparse.ArgumentParser:
    parser = argparse.ArgumentParser(prog=OPERATOR, description=_DESCRIPTION, epilog=_EPILOG)
    parser.add_argument("--version", action="version", version=__version__)
    parser.add_argument(
        "--namespace",
        action="append",
        metavar="NAME",
        help="manage the groups of this namespace; may be repeated "
        "[LANDFALL_NAMESPACES, comma-separated; all but kube-*]",
    )
    own = environment.get("POD_NAMESPACE") or _pod_namespace()
    parser.add_argument(
        "--own-namespace",
        default=own,
        metavar="NAME",
        help=f"namespace of the operator and its lease [POD_NAMESPACE; {own}]",
    )
    for flag, default, text, more in _FLAGS:
        variable = f"LANDFALL_{flag.removeprefix('--').replace('-', '_').upper()}"
        brackets = f"[{variable}; {default}]" if default else f"[{variable}]"
        value = environment.get(variable) or default
        parser.add_argument(
            flag, default=value, help=f"{text} {brackets}".replace("%", "%%"), **more
        )
    return parser


def _pod_namespace() -> str:
    """The namespace of this pod; ``default`` outside of one."""
    return _POD_NAMESPACE_FILE.read_text().strip() if _POD_NAMESPACE_FILE.exists() else "default"


def _items(text: str) -> tuple[str, ...]:
    return tuple(filter(None, (item.strip() for item in text.split(","))))


def _labels(text: str) -> dict[str, str]:
    return {name: value for name, _, value in (item.partition("=") for item in _items(text))}
