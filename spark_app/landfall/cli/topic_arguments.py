"""The arguments of the commands about one topic of a group: ``explain``."""

import argparse
from collections.abc import Callable
from pathlib import Path

NewCommand = Callable[[str, str, str], argparse.ArgumentParser]
"""Adds a command, given its name, a summary and a description."""


def add_topic_commands(new_command: NewCommand) -> None:
    """Add the commands."""
    _explain(new_command)


def _explain(new_command: NewCommand) -> None:
    command = new_command(
        "explain",
        "print what holds for a topic, and which field says so",
        """\
Print the part of the spec that holds for a topic: the group's own fields, with the first entry
of spec.topics that matches. Behind each value stands where it comes from: an entry, the group,
or the default. Nothing but the file is read.

examples:
  landfall explain group.yaml orders
  landfall explain group.yaml orders | yq .output.format
""",
    )
    add_group_and_topic(command)


def add_group_and_topic(command: argparse.ArgumentParser) -> None:
    """Add the group file and the topic."""
    command.add_argument(
        "group", type=Path, metavar="GROUP.yaml", help="the file that describes the consumer group"
    )
    command.add_argument("topic", metavar="TOPIC", help="the topic")
