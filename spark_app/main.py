"""The driver's entry in its pod: ``python main.py GROUP``, GROUP being the file that the resource is mounted as.

The same loop as ``landfall run``, but Spark's master and settings come from the pod (``spark-defaults.conf``), events are
JSON lines on standard output, and status is served on every interface, where probes and the operator find it.
"""

import logging
import os
import sys
from pathlib import Path

from landfall.app.events import log_as_json
from landfall.app.run import Options, run_group
from landfall.cli import group_file
from landfall.contract import ExitCode
from landfall.errors import Reason, Retry, Stalled

log = logging.getLogger("landfall.main")


def main(path: Path) -> ExitCode:
    """Run the group until it is drained, fenced or stalled."""
    log_as_json()
    try:
        group = group_file.load(path, os.environ)
        return run_group(group, Options(http_host="0.0.0.0"))  # noqa: S104  # probes and the operator come from outside
    except Stalled as stalled:
        log.error("cannot run", extra={"reason": stalled.reason, "why": str(stalled)})  # noqa: TRY400  # it says all
        return ExitCode.USAGE if stalled.reason is Reason.SPEC_INVALID else ExitCode.STALLED
    except Retry as error:
        log.error("cannot run", extra={"reason": "Unavailable", "why": str(error)})  # noqa: TRY400  # as above
        return ExitCode.UNAVAILABLE


if __name__ == "__main__":
    if len(sys.argv) != 2:
        sys.exit(f"usage: {sys.argv[0]} GROUP")
    sys.exit(main(Path(sys.argv[1])))
