"""What an operator is told when it is started: flags, or environment variables of the same meaning.

A flag wins over its variable; an empty variable is as good as none.
"""

import argparse
import socket
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from uuid import uuid4

from landfall import __version__
from landfall_operator.objects.names import OPERATOR
from landfall_operator.objects.pod_templates import OperatorContext
from landfall_operator.runtime.reconciler import INTERVAL

_OWN_NAMESPACE = Path("/var/run/secrets/kubernetes.io/serviceaccount/namespace")
_DESCRIPTION = "Runs ConsumerGroups: one Landfall driver for each, on Kubernetes."
_ENVIRONMENT = "POD_NAME names this one in the lease, and POD_NAMESPACE where it runs. KUBECONFIG says which cluster, outside of one."


@dataclass(frozen=True, slots=True)
class Settings:
    """Everything that is told.

    Attributes:
        namespaces: whose groups are run; all of the cluster when empty.
        namespace: where the operator runs, and where its lease is.
        lease: name of the lease.
        holder: this operator's name in the lease.
        host: of the HTTP face.
        port: of the HTTP face.
        log_format: text or json.
        log_level: as in ``logging``.
        threads: that ask the API server.
        interval: seconds between two looks at a group when nothing happens.
        site: what holds for all groups.
    """

    namespaces: tuple[str, ...]
    namespace: str
    lease: str
    holder: str
    host: str
    port: int
    log_format: str
    log_level: str
    threads: int
    interval: float
    context: OperatorContext


def read(arguments: Sequence[str], environment: Mapping[str, str]) -> Settings:
    """From the command line and the environment; ends the process on a wrong flag, as argparse does."""
    told = _parser(environment).parse_args(arguments)
    namespace = told.own_namespace
    pod = environment.get("POD_NAME")
    return Settings(
        namespaces=tuple(
            sorted(set(told.namespace or _words(environment.get("LANDFALL_NAMESPACES", ""))))
        ),
        namespace=namespace,
        lease=told.lease,
        holder=pod or f"{socket.gethostname()}-{uuid4().hex[:8]}",
        host=told.http_host,
        port=told.http_port,
        log_format=told.log_format,
        log_level=told.log_level,
        threads=told.threads,
        interval=told.interval,
        context=OperatorContext(
            image=told.image,
            namespace=namespace,
            operator_labels=_labels(told.operator_labels),
            image_pull_policy=told.image_pull_policy,
            image_pull_secrets=_words(told.image_pull_secrets),
        ),
    )


def _parser(environment: Mapping[str, str]) -> argparse.ArgumentParser:
    parser = argparse.ArgumentParser(prog=OPERATOR, description=_DESCRIPTION, epilog=_ENVIRONMENT)
    parser.add_argument("--version", action="version", version=__version__)
    parser.add_argument(
        "--namespace",
        action="append",
        metavar="NAME",
        help="run groups of this namespace; may be given more than once [LANDFALL_NAMESPACES, with commas; all of the cluster]",
    )

    def add(flag: str, default: str, text: str, **more: object) -> None:
        variable = f"LANDFALL_{flag.removeprefix('--').replace('-', '_').upper()}"
        shown = f" [{variable}; {default}]" if default else f" [{variable}]"
        value = environment.get(variable) or default
        parser.add_argument(flag, default=value, help=text.replace("%", "%%") + shown, **more)  # type: ignore[arg-type]

    own = environment.get("POD_NAMESPACE") or _own_namespace()
    parser.add_argument(
        "--own-namespace",
        default=own,
        metavar="NAME",
        help=f"where the lease is [POD_NAMESPACE; {own}]",
    )
    add(
        "--image",
        f"landfall-spark:{__version__}",
        "of drivers and executors whose group names none",
    )
    add("--image-pull-policy", "IfNotPresent", "of those, where a group says nothing")
    add("--image-pull-secrets", "", "names of Secrets, with commas; added to every pod")
    add(
        "--operator-labels",
        f"app.kubernetes.io/name={OPERATOR}",
        "of the operator's pods, as a=b,c=d: these may reach drivers' control",
    )
    add("--lease", OPERATOR, "name of the lease: of operators with the same one, one acts")
    add("--http-host", "", "where to serve /metrics, /healthz and /readyz; everywhere if empty")
    add("--http-port", "8080", "port of these", type=int)
    add("--log-format", "json", "text or json", choices=("text", "json"))
    add(
        "--log-level",
        "INFO",
        "DEBUG, INFO, WARNING or ERROR",
        choices=("DEBUG", "INFO", "WARNING", "ERROR"),
    )
    add(
        "--interval",
        "15",
        "seconds between two looks at a group when nothing happens; at most 15",
        type=_interval,
    )
    add("--threads", "16", "requests to the API server at the same time", type=int)
    return parser


def _interval(text: str) -> float:
    """More than 15 would make numbers look old that are not: see ``landfall_operator.core.snapshot.FRESH``."""
    seconds = float(text)
    if not 1 <= seconds <= INTERVAL:
        raise ValueError(text)
    return seconds


def _own_namespace() -> str:
    return _OWN_NAMESPACE.read_text().strip() if _OWN_NAMESPACE.exists() else "default"


def _words(text: str) -> tuple[str, ...]:
    return tuple(filter(None, (word.strip() for word in text.split(","))))


def _labels(text: str) -> dict[str, str]:
    return {name: value for name, _, value in (word.partition("=") for word in _words(text))}
