"""The driver pod's entry point: ``python main.py``.

It runs the same loop as ``landfall run``, in the environment that ``landfall.api.contract`` names.
The resource, the revision and what opens the control port come from the environment, Spark's master
and settings from ``$SPARK_CONF_DIR/spark-defaults.conf``. Log events are JSON lines on standard
output. Status and control are served on every interface, where probes and the operator reach them.
A driver that ends with an error writes the reason to the pod's termination message.
"""

import os
from pathlib import Path

from landfall.api.contract import GROUP_FILE
from landfall.driver.spark.direct_start import EarlyStart, start_in_pod

# Before all other imports, for they take as long as the JVM's start: it is in parallel.
BEGUN = EarlyStart()
if __name__ == "__main__":
    BEGUN = start_in_pod(Path(os.environ.get(GROUP_FILE, "")), os.environ)

import argparse
import logging
import secrets
import sys
from collections.abc import Callable, Mapping
from typing import TypeVar

from landfall.api import group_file
from landfall.api.contract import (
    CONTROL_PORT,
    CONTROL_TOKEN_FILE,
    HTTP_PORT,
    KNOWN_LEDGER,
    LEDGER_ANCHOR,
    LOCAL_TOKEN_FILE,
    OPERATOR_KEYS,
    PEERS,
    POD_UID,
    REVISION,
    TERMINATION_FILE,
    ExitCode,
    LedgerAnchor,
    LedgerPosition,
)
from landfall.api.spec import ConsumerGroup
from landfall.cli.values import port
from landfall.driver.http.control import Control
from landfall.driver.http.signed_requests import SignatureCheck
from landfall.driver.process.run import RunOptions, run_group
from landfall.driver.process.termination_message import TerminationMessage
from landfall.errors import Reason, Retry, Stalled, StoreDenied
from landfall.logs import log_as_json

log = logging.getLogger("landfall.main")
_Value = TypeVar("_Value")

_OF_THE_SPEC = frozenset({Reason.SPEC_INVALID, Reason.LEDGER_BEHIND, Reason.LEDGER_REWRITTEN})
"""Reasons that an edit of the resource ends."""


def main(arguments: argparse.Namespace, environment: Mapping[str, str]) -> ExitCode:
    """Run the group until it is drained, fenced or stalled."""
    log_as_json()
    termination = TerminationMessage(Path(arguments.termination_file))
    try:
        group = group_file.load(Path(environment[GROUP_FILE]), environment)
        code = run_group(group, _options(group, arguments, environment), termination.update)
        return termination.write_exit(code)
    except Stalled as stalled:
        log.error("driver ended", extra={"reason": stalled.reason, "why": str(stalled)})  # noqa: TRY400  # a trace would add nothing
        termination.write(f"{stalled.reason}: {stalled}")
        return ExitCode.USAGE if stalled.reason in _OF_THE_SPEC else ExitCode.STALLED
    except StoreDenied as denied:
        log.error("driver ended", extra={"reason": Reason.STORE_DENIED, "why": str(denied)})  # noqa: TRY400  # as above
        termination.write(f"{Reason.STORE_DENIED}: {denied}")
        return ExitCode.STALLED
    except Retry as error:
        log.error("driver ended", extra={"reason": "Unavailable", "why": str(error)})  # noqa: TRY400  # as above
        termination.write(f"{ExitCode.UNAVAILABLE.name}: {error}")
        return ExitCode.UNAVAILABLE
    except Exception as error:  # a bug: the pod ends with it, and Kubernetes restarts it
        log.exception("unexpected error")
        termination.write(f"{ExitCode.ERROR.name}: {type(error).__name__}: {error}")
        return ExitCode.ERROR


def _options(
    group: ConsumerGroup, arguments: argparse.Namespace, environment: Mapping[str, str]
) -> RunOptions:
    return RunOptions(
        stays=True,
        http_host=arguments.host,
        http_port=arguments.http_port,
        revision=environment.get(REVISION, ""),
        peers=environment.get(PEERS, ""),
        known_ledger=_of_ledger(KNOWN_LEDGER, LedgerPosition.parse, environment),
        anchor=_of_ledger(LEDGER_ANCHOR, LedgerAnchor.parse, environment),
        control=_control(group, arguments, environment),
        begun=BEGUN,
    )


def _control(
    group: ConsumerGroup, arguments: argparse.Namespace, environment: Mapping[str, str]
) -> Control | None:
    """Where commands are accepted, and from whom; None if the environment names no token's file."""
    token, keys = environment.get(CONTROL_TOKEN_FILE), environment.get(OPERATOR_KEYS)
    if not token:
        return None
    namespace, name = group.metadata.namespace, group.metadata.name
    revision, pod = environment.get(REVISION, ""), environment.get(POD_UID, "")
    return Control(
        Path(token),
        arguments.host,
        arguments.control_port,
        _local_token_file(environment.get(LOCAL_TOKEN_FILE)),
        SignatureCheck(Path(keys), namespace, name, revision, pod) if keys else None,
    )


def _local_token_file(name: str | None) -> Path | None:
    """A file with a new token, which only this user can read; None where none can be made."""
    if not name:
        return None
    file = Path(name)
    try:
        file.unlink(missing_ok=True)  # of the container before this one in the same pod
        with os.fdopen(os.open(file, os.O_WRONLY | os.O_CREAT | os.O_EXCL, 0o600), "w") as made:
            made.write(secrets.token_urlsafe(32))
    except OSError as error:
        log.warning("token of the pod not read", extra={"why": error.strerror})
        return None
    return file


def _of_ledger(
    name: str, parse: Callable[[str], _Value], environment: Mapping[str, str]
) -> _Value | None:
    """The ledger's position in an environment variable; None if it is unset."""
    text = environment.get(name, "")
    try:
        return parse(text) if text else None
    except ValueError as error:
        raise Stalled(Reason.SPEC_INVALID, f"{name}: {error}") from error


def _arguments() -> argparse.Namespace:
    """The defaults are for a pod; on one machine, two drivers need different ports and files."""
    parser = argparse.ArgumentParser(description="Land the group that $LANDFALL_GROUP names.")
    parser.add_argument("--host", default="0.0.0.0")  # noqa: S104  # probes and the operator come from outside
    parser.add_argument("--http-port", type=port, default=HTTP_PORT)
    parser.add_argument("--control-port", type=port, default=CONTROL_PORT)
    parser.add_argument("--termination-file", default=TERMINATION_FILE)
    arguments = parser.parse_args()
    if GROUP_FILE not in os.environ:
        parser.error(f"{GROUP_FILE} is not set: it names the file with the group")
    return arguments


if __name__ == "__main__":
    sys.exit(main(_arguments(), os.environ))
