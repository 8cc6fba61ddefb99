"""The command line: parse, do one command, end with an ``ExitCode``. ``landfall --help`` is its documentation.

A module per command, with a function of the same name; ``arguments`` knows them all. Judging is in
``landfall.checks``: here the store is read and people are told. Results go to standard output,
everything about the run itself to standard error.
"""

import os
import sys
from collections.abc import Sequence
from importlib import import_module

from landfall.api.contract import ExitCode
from landfall.cli import arguments, console
from landfall.errors import Fenced, Reason, Retry, Stalled

INTERRUPTED = 130
"""What shells expect of a program that Ctrl-C ended; ``run`` drains instead."""


def main(argv: Sequence[str] | None = None) -> int:
    """Run one command and return how it ended; an error nobody foresaw shows its trace and is Python's own 1."""
    parsed = arguments.parser().parse_args(argv)
    try:
        # Imported when asked for: no help text should wait for NumPy.
        does = getattr(import_module(f"landfall.cli.{parsed.command}"), parsed.command)
        return ExitCode(does(parsed))
    except Stalled as stalled:
        console.complain(stalled.reason, str(stalled))
        return ExitCode.USAGE if stalled.reason is Reason.SPEC_INVALID else ExitCode.STALLED
    except Fenced as fenced:
        console.complain("Fenced", str(fenced))
        return ExitCode.FENCED
    except Retry as error:
        console.complain("Unavailable", str(error))
        return ExitCode.UNAVAILABLE
    except KeyboardInterrupt:
        return INTERRUPTED
    except BrokenPipeError:
        # The reader, such as head, has seen enough; Python must not complain about it once more
        # when it ends.
        os.dup2(os.open(os.devnull, os.O_WRONLY), sys.stdout.fileno())
        return ExitCode.OK
