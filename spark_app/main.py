"""The driver's entry in its pod: ``python main.py``, with the environment that ``landfall.api.contract`` names.

The same loop as ``landfall run``, but the resource, the revision and the control token come by the
environment, Spark's master and settings from ``$SPARK_CONF_DIR/spark-defaults.conf``; events are
JSON lines on standard output; status and control are served on every interface, where probes and
the operator find them; and what ended the driver is left behind for whoever looks at the pod.
"""

import argparse
import logging
import os
import sys
from collections.abc import Mapping
from pathlib import Path

from landfall.api.contract import (
    CONTROL_PORT,
    CONTROL_TOKEN_FILE,
    GROUP_FILE,
    HTTP_PORT,
    REVISION,
    TERMINATION_FILE,
    ExitCode,
)
from landfall.cli import group_file
from landfall.driver.http.control import Control
from landfall.driver.run import Options, run_group
from landfall.driver.termination_message import TerminationMessage
from landfall.errors import Reason, Retry, Stalled
from landfall.logs import log_as_json

log = logging.getLogger("landfall.main")


def main(arguments: argparse.Namespace, environment: Mapping[str, str]) -> ExitCode:
    """Run the group until it is drained, fenced or stalled."""
    log_as_json()
    last = TerminationMessage(Path(arguments.termination_file))
    try:
        group = group_file.load(Path(environment[GROUP_FILE]), environment)
        return last.of(run_group(group, _options(arguments, environment), last.note))
    except Stalled as stalled:
        log.error("cannot run", extra={"reason": stalled.reason, "why": str(stalled)})  # noqa: TRY400  # it says all
        last.say(f"{stalled.reason}: {stalled}")
        return ExitCode.USAGE if stalled.reason is Reason.SPEC_INVALID else ExitCode.STALLED
    except Retry as error:
        log.error("cannot run", extra={"reason": "Unavailable", "why": str(error)})  # noqa: TRY400  # as above
        last.say(f"{ExitCode.UNAVAILABLE.name}: {error}")
        return ExitCode.UNAVAILABLE
    except Exception as error:  # whatever it is, it ends here: the pod is started again
        log.exception("an error nobody foresaw")
        last.say(f"{ExitCode.ERROR.name}: {type(error).__name__}: {error}")
        return ExitCode.ERROR


def _options(arguments: argparse.Namespace, environment: Mapping[str, str]) -> Options:
    token = environment.get(CONTROL_TOKEN_FILE)
    return Options(
        http_host=arguments.host,
        http_port=arguments.http_port,
        revision=environment.get(REVISION, ""),
        control=Control(Path(token), arguments.host, arguments.control_port) if token else None,
    )


def _arguments() -> argparse.Namespace:
    """Nothing of this is set in a pod; on a bare machine two drivers cannot have the same ports."""
    parser = argparse.ArgumentParser(description="Land the group that $LANDFALL_GROUP names.")
    parser.add_argument("--host", default="0.0.0.0")  # noqa: S104  # probes and the operator come from outside
    parser.add_argument("--http-port", type=int, default=HTTP_PORT)
    parser.add_argument("--control-port", type=int, default=CONTROL_PORT)
    parser.add_argument("--termination-file", default=TERMINATION_FILE)
    arguments = parser.parse_args()
    if GROUP_FILE not in os.environ:
        parser.error(f"{GROUP_FILE} is not set: it names the file with the group")
    return arguments


if __name__ == "__main__":
    sys.exit(main(_arguments(), os.environ))
