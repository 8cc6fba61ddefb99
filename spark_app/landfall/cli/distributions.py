"""Commands of separate distributions: ``landfall audit`` and ``landfall migrate``.

Pods need neither. Where such a distribution is installed, it adds its command, with its arguments
and help; elsewhere the command names the distribution to install. Nothing of it is imported here by
name, so the wheel of ``landfall`` is complete without it.
"""

import argparse
import os
from collections.abc import Mapping
from importlib import import_module
from importlib.util import find_spec
from pathlib import Path

from landfall.api.contract import ExitCode
from landfall.cli.options import Nested, NewCommand
from landfall.cli.text import console

SUMMARIES: Mapping[str, str] = {
    "audit": "compare everything landed with Kafka, independently",
    "migrate": "make a group of another program's settings, and check the join",
}
"""The commands; the package of ``landfall COMMAND`` is ``landfall_COMMAND``."""
_ABOUT = """\
{summary}.

This command is in a distribution of its own, landfall-{name}, which is not installed here. Install
it into the same environment, as by

  pip install ./{name}        # in a checkout

examples:
  landfall {name} --help      # once it is installed: its arguments
"""


def add_commands(new: NewCommand, nested: Nested) -> None:
    """Add the commands of installed distributions; a missing one's names its package.

    Args:
        new: adds a command.
        nested: adds commands below one, given its subparsers.
    """
    for name, summary in SUMMARIES.items():
        if find_spec(f"landfall_{name}"):
            import_module(f"landfall_{name}.cli.arguments").add(new, nested)
        else:
            _add_absent(new, name, summary)


def _add_absent(new: NewCommand, name: str, summary: str) -> None:
    sentence = summary[0].upper() + summary[1:]
    command = new(
        name,
        f"{summary} (not installed: landfall-{name})",
        _ABOUT.format(name=name, summary=sentence),
    )
    command.add_argument("words", nargs="*", help=argparse.SUPPRESS)
    command.set_defaults(distribution=f"landfall-{name}", any_option=True)


def check_group(path: Path) -> None:
    """Return if the group's file is valid and its Secrets exist, as for any other command.

    The auditor reads the file again by itself, and only what it needs. After this, the reason why a
    server does not answer is printed.

    Raises:
        Stalled: SPEC_INVALID, with one line per fault.
    """
    # Help texts must not wait for these.
    from landfall.api import group_file  # noqa: PLC0415
    from landfall.cli.group_store import explain_waits  # noqa: PLC0415
    from landfall.driver.process.startup import check_secrets  # noqa: PLC0415

    group = group_file.load(path, os.environ)
    check_secrets(group.spec.roots)
    explain_waits(group, kafka=True)


def not_installed(arguments: argparse.Namespace) -> ExitCode:
    """Print what to install."""
    distribution: str = arguments.distribution
    name = distribution.removeprefix("landfall-")
    console.print_error(
        "NotInstalled",
        f"landfall {name} is in the distribution {distribution}, which is not installed here: "
        f"install it into this environment, as by `pip install ./{name}` in a checkout",
    )
    return ExitCode.USAGE
