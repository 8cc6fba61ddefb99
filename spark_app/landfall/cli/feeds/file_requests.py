"""``landfall files retry`` and ``landfall files ignore``."""

import argparse
import os
from uuid import uuid4

from landfall.api.contract import ExitCode
from landfall.api.verbs import FilesRequest, IgnoreFilesRequest, RetryFilesRequest
from landfall.cli.decide.verb import driver_to_ask, lane_session, show, who
from landfall.cli.feeds.file_targets import FileTarget, file_target
from landfall.errors import Reason, Stalled


def file_requests(arguments: argparse.Namespace) -> ExitCode:
    """Execute a request about files, and print what was recorded."""
    target = file_target(arguments.target)
    request = _request(arguments, target)
    driver = driver_to_ask(arguments, os.environ)
    if driver:
        return show(driver.ask(request), as_json=arguments.json)
    with lane_session(target.path) as session:
        answer = session.carry_out(request, take_over=arguments.take_over)
    return show(answer, as_json=arguments.json)


def _request(arguments: argparse.Namespace, target: FileTarget) -> FilesRequest:
    common = {
        "who": arguments.who or who(),
        "dry_run": arguments.dry_run,
        "id": uuid4().hex,
        "topic": target.feed,
        "names": target.names,
    }
    try:
        if arguments.verb == "files-retry":
            return RetryFilesRequest(**common, why=arguments.why or "retry")
        return IgnoreFilesRequest(**common, why=arguments.why)
    except ValueError as error:
        raise Stalled(Reason.SPEC_INVALID, str(error)) from error
