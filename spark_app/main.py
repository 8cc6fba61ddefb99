"""The driver pod's entry point: ``python main.py``.

It runs the same loop as ``landfall run``, in the environment that ``landfall.api.contract`` names.
The resource, the revision and the control token come from the environment, Spark's master and
settings from ``$SPARK_CONF_DIR/spark-defaults.conf``. Log events are JSON lines on standard output.
Status and control are served on every interface, where probes and the operator reach them. A driver
that ends with an error writes the reason to the pod's termination message.
"""

import os
from pathlib import Path

from landfall.api.contract import GROUP_FILE
from landfall.driver.spark.direct_start import EarlyStart, start_in_pod

# Before all other imports, for they take as long as the JVM's start: it is beside them.
BEGUN = EarlyStart()
if __name__ == "__main__":
    BEGUN = start_in_pod(Path(os.environ.get(GROUP_FILE, "")), os.environ)

import argparse
import logging
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
    PEERS,
    REVISION,
    TERMINATION_FILE,
    ExitCode,
    LedgerAnchor,
    LedgerPosition,
)
from landfall.cli.numbers import port
from landfall.driver.http.control import Control
from landfall.driver.run import Options, run_group
from landfall.driver.termination_message import TerminationMessage
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
        code = run_group(group, _options(arguments, environment), termination.update)
        return termination.write_exit(code)
    except Stalled as stalled:
        log.error("cannot run", extra={"reason": stalled.reason, "why": str(stalled)})  # noqa: TRY400  # a trace would add nothing
        termination.write(f"{stalled.reason}: {stalled}")
        return ExitCode.USAGE if stalled.reason in _OF_THE_SPEC else ExitCode.STALLED
    except StoreDenied as denied:
        log.error("cannot run", extra={"reason": Reason.STORE_DENIED, "why": str(denied)})  # noqa: TRY400  # as above
        termination.write(f"{Reason.STORE_DENIED}: {denied}")
        return ExitCode.STALLED
    except Retry as error:
        log.error("cannot run", extra={"reason": "Unavailable", "why": str(error)})  # noqa: TRY400  # as above
        termination.write(f"{ExitCode.UNAVAILABLE.name}: {error}")
        return ExitCode.UNAVAILABLE
    except Exception as error:  # a bug: the pod ends with it, and Kubernetes restarts it
        log.exception("unexpected error")
        termination.write(f"{ExitCode.ERROR.name}: {type(error).__name__}: {error}")
        return ExitCode.ERROR


def _options(arguments: argparse.Namespace, environment: Mapping[str, str]) -> Options:
    token = environment.get(CONTROL_TOKEN_FILE)
    return Options(
        stays=True,
        http_host=arguments.host,
        http_port=arguments.http_port,
        revision=environment.get(REVISION, ""),
        peers=environment.get(PEERS, ""),
        known_ledger=_of_ledger(KNOWN_LEDGER, LedgerPosition.parse, environment),
        anchor=_of_ledger(LEDGER_ANCHOR, LedgerAnchor.parse, environment),
        control=Control(Path(token), arguments.host, arguments.control_port) if token else None,
        begun=BEGUN,
    )


def _of_ledger(
    name: str, parse: Callable[[str], _Value], environment: Mapping[str, str]
) -> _Value | None:
    """What an environment variable says of the ledger; None if it is unset."""
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
