"""The arguments of ``landfall files``, also for leases.

They import nothing heavy: help texts wait neither for NumPy nor for the models of a spec.
"""

import argparse
from datetime import timedelta

from landfall.cli.options import (
    WAYS,
    Nested,
    NewCommand,
    add_decision,
    add_driver,
    add_json,
)
from landfall.cli.values import duration, natural

STATES = ("Pending", "InProgress", "Success", "Error", "Ignored")
"""The states of a file: ``landfall.discovery.inventory.LandingState``."""


def add_files(new: NewCommand, nested: Nested) -> None:
    """Add the command.

    Args:
        new: adds a command.
        nested: what adds commands below one, given its subparsers.
    """
    command = new(
        "files",
        "show, retry, give up or take the files of a feed",
        """\
Show the state of the files that spec.source.files names, try those again that could not be read,
or give them up. Take files of a feed with process: External, and report their outcome.

examples:
  landfall files ls group.yaml hits --state Error
  landfall files retry group.yaml hits 2026/11/21/a.json.gz
  landfall files ignore group.yaml hits 2026/11/21/a.json.gz --why 'truncated, see INC-12'
  landfall files take group.yaml hits --limit 10 --lease 30m --json
  landfall files done group.yaml 41
""",
    )
    below = command.add_subparsers(title="commands", metavar="COMMAND", required=True)
    for add in (_ls, _retry, _ignore, _take, _done, _failed, _return, _extend):
        add(nested(below))


def _add_feed(command: argparse.ArgumentParser, words: str) -> None:
    """Add the group's file, which may be left out in a driver's pod, and what comes after it."""
    command.add_argument(
        "target",
        nargs="*",
        metavar=f"[GROUP.yaml] {words}",
        help="the group's file, which ends with .yaml, .yml or .json (default: $LANDFALL_GROUP), "
        "the feed's topic, and names of files without the feed's url",
    )


def _ls(new: NewCommand) -> None:
    command = new(
        "ls",
        "list files, and which of them are landed",
        """\
List the files that have numbers, with the status of each:

  Pending      no row is landed yet
  InProgress   some rows are landed, and the rest is still to come
  Success      all rows are landed, or dead letters
  Error        it could not be read, and is parked; the other files are landed
  Ignored      it was given up, or what was written to it later was left out

Rows are those that landed, dead letters those that are left after replays. Both are counted when
they land, for the version of the file that has numbers: merging objects changes neither. They are
unknown for files that a release before this column landed, and for files that workers take.

With --look, the bucket is listed, too: files that have no number yet are Pending, and files that
were written again are shown. The last line counts all files, also those that are not shown.

examples:
  landfall files ls group.yaml
  landfall files ls group.yaml hits --state Error
  landfall files ls group.yaml hits 2026/11/21/a.json.gz --json
  landfall files ls group.yaml hits --look --limit 20
""",
    )
    _add_feed(command, "[FEED] [FILE …]")
    command.add_argument("--state", choices=STATES, help="only files in this state")
    command.add_argument(
        "--limit",
        type=natural,
        metavar="N",
        help="show at most N files (default: 1000; with --json, all)",
    )
    command.add_argument("--look", action="store_true", help="list the bucket, too")
    add_json(command, "print one JSON object per file")


def _retry(new: NewCommand) -> None:
    command = new(
        "retry",
        "try files again that could not be read",
        f"""\
Try files again that could not be read, or all parked files of the feed: at once, and however
often they were tried. A file that was written again after it was landed is landed as a whole, with
the contents it has now. Files that were given up are landed after all, if they are named.
{WAYS}
examples:
  landfall files retry group.yaml hits
  landfall files retry group.yaml hits 2026/11/21/a.json.gz --dry-run
  kubectl exec deploy/hits-g1-1a2b3c4d -- landfall files retry hits
""",
    )
    _add_request(command, "files-retry", "FEED [FILE …]")


def _ignore(new: NewCommand) -> None:
    command = new(
        "ignore",
        "give files up that could not be read",
        f"""\
Give files up that could not be read: what is not landed of them stays so, until `landfall files
retry` names them, or they are written again. Of a file that was written again after it was
landed, the present contents are left out for good; the next time that it is written counts again.
{WAYS}
examples:
  landfall files ignore group.yaml hits 2026/11/21/a.json.gz --why 'truncated, see INC-12'
""",
    )
    _add_request(command, "files-ignore", "FEED FILE …")


def _add_request(command: argparse.ArgumentParser, verb: str, words: str) -> None:
    command.set_defaults(verb=verb)
    _add_feed(command, words)
    add_decision(command, needs_why=verb == "files-ignore")
    add_driver(command)


def _take(new: NewCommand) -> None:
    command = _about_lease(
        new=new,
        name="take",
        summary="take files to process them",
        about=f"""\
Take files of a feed with process: External. They are the holder's until it reports their
outcome, or until the lease expires: then another worker gets them. No other worker gets them
meanwhile, and each lease has a larger number, so that it fences what is written elsewhere.

With --json the answer is one object, with the lease and of each file number, url, name, etag,
size, modified and attempt. If there is nothing to take, lease is null, and the exit code is 0.
Read the version with this ETag; if it is not there any more, report the file as failed.

Asked again with the same --id, the same lease is printed: use one for each time that you take.
{WAYS}
examples:
  landfall files take group.yaml hits --limit 10 --lease 30m --json
  landfall files take hits --driver http://localhost:8081 --token-file token --id run-17 --json
""",
        words="FEED",
    )
    command.add_argument(
        "--limit",
        type=natural,
        default=100,
        metavar="N",
        help="how many files at most, up to 1000 (default: %(default)s)",
    )
    _add_duration(command, "for how long they are taken")


def _done(new: NewCommand) -> None:
    _of_files(
        new,
        "done",
        "report files of a lease as processed",
        f"""\
Report files of a lease as processed, all that are left of it unless some are named. What you
made of them counts once this succeeds. If the lease is over, it is refused with exit code 10: then
another worker may have the files, and what you made of them must not count.
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
        "report files of a lease as failed",
        f"""\
Report files of a lease as failed, all that are left of it unless some are named.
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
Another worker may get them at once, and it does not count as an attempt.
{WAYS}
examples:
  landfall files return group.yaml 41
""",
    )


def _extend(new: NewCommand) -> None:
    command = _about_lease(
        new=new,
        name="extend",
        summary="keep the files of a lease for longer",
        about=f"""\
Keep the files of a lease for so long from now on. A lease never gets shorter.
{WAYS}
examples:
  landfall files extend group.yaml 41 --lease 1h
""",
        words="LEASE",
    )
    _add_duration(command, "for how long from now on")


def _of_files(new: NewCommand, name: str, summary: str, about: str) -> argparse.ArgumentParser:
    command = _about_lease(new=new, name=name, summary=summary, about=about, words="LEASE [FILE …]")
    command.add_argument(
        "--number",
        type=natural,
        action="append",
        default=[],
        metavar="N",
        help="a file by its number; can be repeated",
    )
    return command


def _about_lease(
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


def _add_duration(command: argparse.ArgumentParser, text: str) -> None:
    command.add_argument(
        "--lease",
        type=duration,
        default=timedelta(hours=1),
        metavar="TIME",
        help=f"{text}, such as 90s, 15m or 1h (default: 1h)",
    )
