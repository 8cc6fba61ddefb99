"""``landfall run``: a driver on local Spark, with its progress on the terminal."""

import argparse
import logging
import os

from landfall.api.contract import ExitCode
from landfall.cli import console, group_file
from landfall.cli.log_lines import EventFormatter
from landfall.cli.progress import progress


def run(arguments: argparse.Namespace) -> ExitCode:
    """Land a group until it is stopped or caught up."""
    from landfall.driver.run import Options, run_group  # noqa: PLC0415  # other commands need neither Spark nor Kafka

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
        return run_group(group, options, show_status)


def _log_to_stderr(level: int) -> None:
    handler = logging.StreamHandler()
    handler.setFormatter(EventFormatter())
    logging.basicConfig(level=logging.WARNING, handlers=[handler])
    logging.getLogger("landfall").setLevel(level)
