"""The parser of the command line: it lists commands by what they are for, and suggests words.

Imports nothing heavy, like ``landfall.cli.arguments``.
"""

import argparse
import sys
from collections.abc import Mapping, Sequence
from typing import Any, NoReturn

from landfall.api.words import did_you_mean

_GROUPS: Mapping[str, tuple[str, ...]] = {
    "before landing": ("init", "check", "explain", "try", "migrate", "import-offsets"),
    "land": ("run", "backfill", "publish", "files"),
    "look": ("status", "top", "log", "ls", "locate", "cat", "manifest"),
    "check what landed": ("fsck", "verify", "audit", "scan"),
    "decide what happens to records": (
        *("skip", "unblock", "drop", "reset", "replay-dead-letters"),
        *("promote-backfill", "undo", "retry"),
    ),
    "this program": ("completion",),
}
"""Every command, by what it is for."""
_WIDTH = 22
RENAMED: Mapping[str, str] = {"promote": "promote-backfill"}
"""Former names of commands, which still work. `kubectl landfall promote` is about a rollout."""


def commands_text(commands: Any) -> str:
    """The commands with their summaries, in groups."""
    summaries = {action.dest: action.help for action in commands._choices_actions}  # noqa: SLF001  # argparse lists them nowhere else
    blocks = []
    for title, names in _GROUPS.items():
        lines = [f"  {name:<{_WIDTH}}{summaries[name]}" for name in names if name in summaries]
        blocks.append("\n".join([f"{title}:", *lines]))
    return "\n\n".join(blocks)


def grouped() -> frozenset[str]:
    """The names of all commands that are in a group."""
    return frozenset(name for names in _GROUPS.values() for name in names)


class Parser(argparse.ArgumentParser):
    """A parser that names the command or option that is meant, and the command's own usage."""

    def parse_args(self, args: Any = None, namespace: Any = None) -> Any:
        """Return the arguments; end the process with a usage error if they are wrong."""
        typed = list(sys.argv[1:] if args is None else args)
        typed[:1] = [RENAMED.get(word, word) for word in typed[:1]]
        parsed, unknown = self.parse_known_args(typed, namespace)
        if unknown and not getattr(parsed, "any_option", False):
            command: Parser = getattr(parsed, "parser", self)
            command._refuse(unknown)
        return parsed

    def _refuse(self, unknown: Sequence[str]) -> NoReturn:
        known = [option for action in self._actions for option in action.option_strings]
        hints = (did_you_mean(word.partition("=")[0], known) for word in unknown)
        self.error(f"unrecognized arguments: {' '.join(unknown)}{next(filter(None, hints), '')}")

    def _check_value(self, action: argparse.Action, value: Any) -> None:
        if not isinstance(action, argparse._SubParsersAction) or value in action.choices:  # noqa: SLF001  # as above
            super()._check_value(action, value)
            return
        hint = did_you_mean(value, action.choices)
        raise argparse.ArgumentError(
            None, f"no command {value!r}{hint}; `{self.prog} --help` lists the commands"
        )
