"""The arguments of ``landfall files take`` and what follows it, and the texts that explain them.

Like ``landfall.cli.parser``, this module imports nothing heavy.
"""

import argparse
import re
from datetime import timedelta

from landfall.cli.decide import WAYS, NewCommand, add_driver
from landfall.cli.values import natural

_SECONDS = {"s": 1, "m": 60, "h": 3600, "d": 86400}


def add_leases(new: NewCommand) -> None:
    """Add the commands below ``files`` that are about files which others process."""
    for add in (_take, _done, _failed, _return, _extend):
        add(new)


def duration(text: str) -> timedelta:
    """A time such as ``90s``, ``15m``, ``1h`` or ``2d``.

    Raises:
        ArgumentTypeError: it is none.
    """
    match = re.fullmatch(r"([1-9][0-9]{0,6})([smhd])", text)
    if not match:
        raise argparse.ArgumentTypeError(f"must be a time such as 15m or 1h, got {text!r}")
    return timedelta(seconds=int(match[1]) * _SECONDS[match[2]])


def _take(new: NewCommand) -> None:
    command = _command(
        new,
        "take",
        "take files to process them",
        f"""\
Take files of a feed with process: External. They are the holder's until it says what became of
them, or until the lease is too late: then others get them. Nobody else gets them meanwhile, and
the number of the lease grows with each, so that it fences whatever is written elsewhere.

With --json the answer is one object, with the lease and of each file number, url, name, etag,
size, modified and attempt. If there is nothing to take, lease is null, and the exit code is 0.
Read the version with this ETag; if it is not there any more, say that the file failed.

Asked again with the same --id, the same lease is printed: use one for each time that you take.
{WAYS}
examples:
  landfall files take group.yaml hits --limit 10 --lease 30m --json
  landfall files take hits --driver http://localhost:8081 --token-file token --id run-17 --json
""",
        "FEED",
    )
    command.add_argument(
        "--limit",
        type=natural,
        default=100,
        metavar="N",
        help="how many files at most, up to 1000 (default: %(default)s)",
    )
    _add_lease(command, "for how long they are taken")


def _done(new: NewCommand) -> None:
    _of_files(
        new,
        "done",
        "say that files of a lease are processed",
        f"""\
Say that files of a lease are processed, all that are left of it unless some are named. What you
made of them counts once this succeeds. If the lease is over, it is refused with exit code 10: then
the files may be somebody else's, and what you made of them must not count.
{WAYS}
examples:
  landfall files done group.yaml 41
  landfall files done group.yaml 41 2026/11/21/a.json.gz 2026/11/21/b.json.gz
""",
    )


def _failed(new: NewCommand) -> None:
    command = _of_files(
        new,
        "failed",
        "say that files of a lease could not be processed",
        f"""\
Say that files of a lease could not be processed, all that are left of it unless some are named.
They are offered again after retryInterval, until they were taken maxAttempts times.
{WAYS}
examples:
  landfall files failed group.yaml 41 2026/11/21/a.json.gz --why 'not JSON in line 7'
""",
    )
    command.add_argument(
        "--why", required=True, metavar="TEXT", help="the reason, which is kept with the files"
    )


def _return(new: NewCommand) -> None:
    _of_files(
        new,
        "return",
        "give files of a lease back",
        f"""\
Give files of a lease back that you have not begun, all that are left of it unless some are named.
Others get them at once, and it does not count as an attempt.
{WAYS}
examples:
  landfall files return group.yaml 41
""",
    )


def _extend(new: NewCommand) -> None:
    command = _command(
        new,
        "extend",
        "keep the files of a lease for longer",
        f"""\
Keep the files of a lease for so long from now on. A lease never gets shorter.
{WAYS}
examples:
  landfall files extend group.yaml 41 --lease 1h
""",
        "LEASE",
    )
    _add_lease(command, "for how long from now on")


def _of_files(new: NewCommand, name: str, summary: str, about: str) -> argparse.ArgumentParser:
    command = _command(new, name, summary, about, "LEASE [FILE …]")
    command.add_argument(
        "--number",
        type=natural,
        action="append",
        default=[],
        metavar="N",
        help="a file by its number; can be repeated",
    )
    return command


def _command(
    new: NewCommand, name: str, summary: str, about: str, words: str
) -> argparse.ArgumentParser:
    command = new(name, summary, about)
    command.set_defaults(verb=f"files-{name}")
    command.add_argument(
        "target",
        nargs="+",
        metavar=f"[GROUP.yaml] {words}",
        help="the group's file, which ends with .yaml, .yml or .json (default: $LANDFALL_GROUP), "
        "and what this is about",
    )
    command.add_argument(
        "--holder", metavar="NAME", help="who takes and processes files (default: user@host)"
    )
    command.add_argument(
        "--id",
        default="",
        metavar="ID",
        help="names this request: asked again under the same id, it has the effect of asking once "
        "(default: a new one)",
    )
    add_driver(command)
    return command


def _add_lease(command: argparse.ArgumentParser, text: str) -> None:
    command.add_argument(
        "--lease",
        type=duration,
        default=timedelta(hours=1),
        metavar="TIME",
        help=f"{text}, such as 90s, 15m or 1h (default: 1h)",
    )
