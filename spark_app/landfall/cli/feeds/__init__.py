"""The arguments of ``landfall files``, and the help texts that explain them.

Like ``landfall.cli.parser``, this module imports nothing heavy. A command below ``files`` is a
function here and a module with a function of the name that ``set_defaults(command=…)`` gives.
"""

import argparse
from collections.abc import Callable
from typing import Any

from landfall.cli.decide import WAYS, add_decision, add_driver
from landfall.cli.feeds.lease_arguments import add_leases
from landfall.cli.values import natural

NewCommand = Callable[[str, str, str], argparse.ArgumentParser]
"""Adds a command, given its name, its summary and its description."""

STATES = ("Pending", "InProgress", "Success", "Error", "Ignored")
"""What has become of a file: ``landfall.discovery.inventory.LandingState``."""


def add_files(new: NewCommand, nested: Callable[[Any], NewCommand]) -> None:
    """Add the command.

    Args:
        new: adds a command.
        nested: what adds commands below one, given its subparsers.
    """
    command = new(
        "files",
        "show, retry, give up or take the files of a feed",
        """\
Show what has become of the files that spec.source.files names, try those again that could not
be read, or give them up. Take files of a feed with process: External, and say what became of them.

examples:
  landfall files ls group.yaml hits --state Error
  landfall files retry group.yaml hits 2026/11/21/a.json.gz
  landfall files ignore group.yaml hits 2026/11/21/a.json.gz --why 'truncated, see INC-12'
  landfall files take group.yaml hits --limit 10 --lease 30m --json
  landfall files done group.yaml 41
""",
    )
    below = command.add_subparsers(title="commands", metavar="COMMAND", required=True)
    for add in (_ls, _retry, _ignore, add_leases):
        add(nested(below))


def add_feed(command: argparse.ArgumentParser, words: str) -> None:
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
        "list files and what has become of them",
        """\
List the files that have numbers, with what has become of them:

  Pending      no row is landed yet
  InProgress   some rows are landed, and the rest is still to come
  Success      all rows are landed, or dead letters
  Error        it could not be read, and is parked; the others go on
  Ignored      somebody has given it up, or has left out what was written anew

Rows are those that landed, dead letters those that are left after replays. Both are counted when
they land, for the version of the file that has numbers: merging objects changes neither. They are
unknown for files that a release before this column landed, and for files that workers take.

With --look, the bucket is listed, too: files that have no number yet are Pending, and files that
were written anew are shown. The last line counts all files, also those that are not shown.

examples:
  landfall files ls group.yaml
  landfall files ls group.yaml hits --state Error
  landfall files ls group.yaml hits 2026/11/21/a.json.gz --json
  landfall files ls group.yaml hits --look --limit 20
""",
    )
    add_feed(command, "[FEED] [FILE …]")
    command.add_argument("--state", choices=STATES, help="only files in this state")
    command.add_argument(
        "--limit",
        type=natural,
        metavar="N",
        help="show at most N files (default: 1000; with --json, all)",
    )
    command.add_argument("--look", action="store_true", help="list the bucket, too")
    command.add_argument("--json", action="store_true", help="print one JSON object per file")


def _retry(new: NewCommand) -> None:
    command = new(
        "retry",
        "try files again that could not be read",
        f"""\
Try files again that could not be read, or all parked files of the feed: at once, and however
often they were tried. A file that was written anew after it was landed is landed as a whole, with
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
retry` names them, or they are written anew. Of a file that was written anew after it was landed,
what it holds now is left out for good; the next time that it is written counts again.
{WAYS}
examples:
  landfall files ignore group.yaml hits 2026/11/21/a.json.gz --why 'truncated, see INC-12'
""",
    )
    _add_request(command, "files-ignore", "FEED FILE …")


def _add_request(command: argparse.ArgumentParser, verb: str, words: str) -> None:
    command.set_defaults(verb=verb)
    add_feed(command, words)
    add_decision(command, needs_why=verb == "files-ignore")
    add_driver(command)
