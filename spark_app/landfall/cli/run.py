"""``landfall run``: a driver on local Spark, with its progress on the terminal."""

import argparse
import logging
import os

from landfall.api.contract import ExitCode
from landfall.cli import console, group_file
from landfall.cli.log_lines import EventFormatter
from landfall.cli.progress import progress
from landfall.errors import Reason, Stalled


def run(arguments: argparse.Namespace) -> ExitCode:
    """Land a group until it is stopped or caught up.

    Raises:
        Stalled: SPEC_INVALID, ``--http-port`` is taken.
    """
    # Other commands need neither Spark nor Kafka.
    from landfall.driver.http.server import PortUnavailable  # noqa: PLC0415
    from landfall.driver.run import Options, run_group  # noqa: PLC0415

    group = group_file.load(arguments.group, os.environ)
    options = Options(
        until_caught_up=arguments.until_caught_up,
        master=arguments.master,
        http_port=arguments.http_port,
    )
    with progress(console.err()) as show_status:
        # The log handler must be made inside this block: the live table replaces sys.stderr, and
        # only lines written to the replacement scroll above the table instead of through it.
        _log_to_stderr(logging.INFO if arguments.verbose else logging.WARNING)
        try:
            return run_group(group, options, show_status)
        except PortUnavailable as error:
            raise Stalled(
                Reason.SPEC_INVALID, f"--http-port: {error}; 0 takes any free port"
            ) from None


def _log_to_stderr(level: int) -> None:
    handler = logging.StreamHandler()
    handler.setFormatter(EventFormatter())
    logging.basicConfig(level=logging.WARNING, handlers=[handler])
    logging.getLogger("landfall").setLevel(level)
