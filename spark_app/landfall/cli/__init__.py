"""The command line: parse, run one command, end with an ``ExitCode``.

Rooms hold the commands: ``author`` (writing and trying a group file), ``contract`` (what producers
want to change), ``land``, ``feeds`` (the files of feeds), ``decide`` (what happens to records),
``look`` (groups and ledgers), ``objects`` (landed objects). The ``__init__`` of a room has the
arguments of its commands and imports nothing heavy; the modules next to it are their code, and
``parser.COMMANDS`` maps commands to them. ``text`` prints.

The rules that a check applies are in ``landfall.checks`` and ``landfall_audit``; the modules here
read the store and print. Results go to standard output, progress, logs and errors to standard
error.
"""

import os
import sys
from collections.abc import Sequence

from landfall.api.contract import ExitCode
from landfall.cli import distributions
from landfall.cli.parser import imported, parser
from landfall.cli.text import console
from landfall.errors import Fenced, LettersDenied, Reason, Retry, Stalled, StoreDenied

INTERRUPTED = 130
"""The exit code that shells expect after Ctrl-C. ``run`` never returns it: it drains instead."""


def main(argv: Sequence[str] | None = None) -> int:  # noqa: PLR0911  # one per way to end
    """Run one command and return its exit code.

    An unexpected error is not caught: Python prints its traceback and exits with 1.
    """
    parsed = parser().parse_args(argv)
    # Before NumPy is imported, which starts a thread per core for matrix products that Landfall
    # never computes: the process of a local run is forked, and must have one thread until then.
    os.environ.setdefault("OPENBLAS_NUM_THREADS", "1")
    try:
        if parsed.code.startswith("landfall_audit."):
            distributions.check_group(parsed.group)
        return ExitCode(imported(parsed.code)(parsed))
    except Stalled as stalled:
        console.print_error(stalled.reason, str(stalled))
        return ExitCode.USAGE if stalled.reason is Reason.SPEC_INVALID else ExitCode.STALLED
    except console.NothingToCheck as nothing:
        console.print_error("NothingToCheck", str(nothing))
        return ExitCode.NOTHING
    except Fenced as fenced:
        console.print_error("Fenced", str(fenced))
        return ExitCode.FENCED
    except Retry as error:
        denied = isinstance(error, StoreDenied | LettersDenied)
        console.print_error(Reason.STORE_DENIED if denied else "Unavailable", str(error))
        return ExitCode.STALLED if denied else ExitCode.UNAVAILABLE
    except KeyboardInterrupt:
        return INTERRUPTED
    except BrokenPipeError:
        # The reader, such as `head`, closed the pipe. Python flushes standard output once more
        # when it exits; without a valid file descriptor there, it would report the error again.
        os.dup2(os.open(os.devnull, os.O_WRONLY), sys.stdout.fileno())
        return ExitCode.OK
    finally:
        console.stop_waiting()
