"""The parser of the command line: it lists commands by what they are for, and suggests words.

Imports nothing heavy, like ``landfall.cli.parser``.
"""

import argparse
import sys
from collections.abc import Callable, Mapping, Sequence
from importlib import import_module
from typing import Any, NoReturn

from landfall.api.contract import ExitCode
from landfall.api.words import did_you_mean

COMMANDS: Mapping[str, Mapping[str, str]] = {
    "before landing": {
        "init": "author.init:init",
        "check": "author.check:check",
        "explain": "author.explain:explain",
        "try": "author.try_out:try_out",
        "migrate": "distributions:not_installed",
        "import-offsets": "decide.import_offsets:import_offsets",
    },
    "land": {
        "run": "land.run:run",
        "backfill": "land.backfill:backfill",
        "backfill compare": "land.backfill_compare:backfill_compare",
        "backfill land": "land.backfill_land:backfill_land",
        "publish": "land.publish:publish",
        "files": "feeds.leases:leases",
        "files ls": "feeds.file_list:file_list",
        "files retry": "feeds.file_requests:file_requests",
        "files ignore": "feeds.file_requests:file_requests",
    },
    "look": {
        "status": "look.status:status",
        "top": "look.top:top",
        "log": "look.log:log",
        "ls": "look.ls:ls",
        "locate": "objects.locate:locate",
        "cat": "objects.cat:cat",
        "manifest": "objects.manifest:manifest",
    },
    "check what landed": {
        "fsck": "objects.fsck:fsck",
        "verify": "objects.verify:verify",
        "audit": "distributions:not_installed",
        "scan": "objects.scan:scan",
    },
    "decide what happens to records": {
        "skip": "decide.verb:verb",
        "unblock": "decide.verb:verb",
        "drop": "decide.verb:verb",
        "reset": "decide.verb:verb",
        "replay-dead-letters": "decide.verb:verb",
        "promote-backfill": "decide.verb:verb",
        "undo": "decide.verb:verb",
        "retry": "decide.verb:verb",
    },
    "this program": {"completion": "author.completion:completion"},
}
"""Every command by what it is for, with the module below ``landfall.cli`` and the function in it.

A command below another one has that one's function, unless it is named itself; a distribution that
is installed names its own. Modules are imported only when they run: help texts must wait neither
for NumPy nor for the models of a spec.
"""
_WIDTH = 22
RENAMED: Mapping[str, str] = {"promote": "promote-backfill"}
"""Former names of commands, which still work. `kubectl landfall promote` is about a rollout."""


def commands_text(commands: Any) -> str:
    """The commands with their summaries, in groups."""
    summaries = {action.dest: action.help for action in commands._choices_actions}  # noqa: SLF001  # argparse lists them nowhere else
    blocks = []
    for title, names in COMMANDS.items():
        lines = [f"  {name:<{_WIDTH}}{summaries[name]}" for name in names if name in summaries]
        blocks.append("\n".join([f"{title}:", *lines]))
    return "\n\n".join(blocks)


def code_of(words: str) -> str:
    """Module and function of a command that is named by these words, such as ``files ls``."""
    code = {name: place for names in COMMANDS.values() for name, place in names.items()}
    return f"landfall.cli.{code.get(words) or code[words.partition(' ')[0]]}"


def imported(code: str) -> Callable[[argparse.Namespace], ExitCode]:
    """The function of a command, by ``module:name``."""
    module, _, name = code.partition(":")
    function: Callable[[argparse.Namespace], ExitCode] = getattr(import_module(module), name)
    return function


def grouped() -> frozenset[str]:
    """The names of all commands that are in a group."""
    return frozenset(name for names in COMMANDS.values() for name in names)


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
