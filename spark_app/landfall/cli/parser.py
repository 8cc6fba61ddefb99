"""The parser of the command line: every command with its code, and help texts.

It lists commands by purpose, and suggests corrections of misspelled words. It imports nothing
heavy: ``landfall --help`` must not wait for NumPy or Spark.
"""

import argparse
import sys
from collections.abc import Callable, Mapping, Sequence
from functools import partial
from importlib import import_module
from typing import Any, NoReturn

from landfall import __version__
from landfall.api.contract import ExitCode
from landfall.api.words import did_you_mean
from landfall.cli.author import (
    add_check,
    add_completion,
    add_explain,
    add_init,
    add_schema,
    add_try,
)
from landfall.cli.contract import add_contract
from landfall.cli.decide import add_verbs
from landfall.cli.distributions import add_commands
from landfall.cli.feeds import add_files
from landfall.cli.land import add_backfill, add_publish, add_run
from landfall.cli.look import add_log, add_ls, add_status, add_table, add_top
from landfall.cli.objects import (
    add_cat,
    add_fsck,
    add_locate,
    add_manifest,
    add_scan,
    add_sql,
    add_verify,
)

ABOUT = """\
Land Kafka topics in S3 exactly once.

GROUP.yaml describes a consumer group: the topics to read, how to decode and route their
records, and where to write them. It is the document that `kubectl apply` takes. ${NAME} and
${NAME:-default} in it are replaced with environment variables; $${ is a literal ${.

A group file is a program: it names Python modules, and functions that are called with options of
its choice, and may send environment variables to a server that it names. Read a file that you did
not write before you give it to run, check, try, verify, scan or a backfill. explain only shows its
content: it imports nothing and connects to nothing.
"""

EXIT_CODES = """\
exit codes:
  0  success: done, caught up, or drained without an end to reach
  1  an unexpected error: please report it
  2  the command line or the group file is invalid; the message names the field
  3  fenced: another driver took over, and this one wrote nothing after that
  4  stalled: nothing can continue until someone acts; the message names it
  5  the store, Kafka or Spark is unavailable; trying again may succeed
  6  a check found a fault
  7  a check had nothing to check: no ledger, no such topic, or nothing landed
  8  audit found no fault, and could not check everything
  9  stopped before the end that was given; run it again to land the rest
 10  a request, such as undo or skip, was refused; nothing was recorded
"""

COMMANDS: Mapping[str, Mapping[str, str]] = {
    "before landing": {
        "init": "author.init:init",
        "check": "author.check:check",
        "explain": "author.explain:explain",
        "try": "author.try_out:try_out",
        "contract": "contract.command:check",
        "schema": "author.schema:schema",
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
        "table": "look.table:table",
        "log": "look.log:log",
        "ls": "look.ls:ls",
        "locate": "objects.locate:locate",
        "cat": "objects.cat:cat",
        "manifest": "objects.manifest:manifest",
        "sql": "objects.sql:sql",
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
"""Every command by purpose, with the module below ``landfall.cli`` and the function in it.

A subcommand has its parent's function, unless it is listed itself; an installed distribution names
its own. Modules are imported only when they run: help texts must wait neither for NumPy nor for the
models of a spec.
"""

_ALWAYS = frozenset({ExitCode.OK, ExitCode.ERROR, ExitCode.USAGE})
_OF_SERVERS = _ALWAYS | {ExitCode.STALLED, ExitCode.UNAVAILABLE}
_OF_READERS = _OF_SERVERS | {ExitCode.FAULT, ExitCode.NOTHING}
_OF_WRITERS = _OF_SERVERS | {ExitCode.FENCED, ExitCode.REFUSED}
_ENDS: Mapping[str, frozenset[ExitCode]] = {
    "before landing": _OF_SERVERS,
    "land": _OF_WRITERS,
    "look": _OF_READERS,
    "check what landed": _OF_READERS,
    "decide what happens to records": _OF_WRITERS,
    "this program": _ALWAYS,
    "check": _ALWAYS | {ExitCode.UNAVAILABLE},
    "explain": _ALWAYS,
    "schema": _ALWAYS,
    "try": _OF_SERVERS | {ExitCode.NOTHING},
    "contract": _OF_READERS,
    "migrate": _OF_READERS,
    "import-offsets": _OF_WRITERS | {ExitCode.FAULT},
    "run": _OF_SERVERS | {ExitCode.FENCED, ExitCode.UNFINISHED},
    "backfill plan": _OF_SERVERS | {ExitCode.NOTHING},
    "backfill run": _OF_SERVERS | {ExitCode.FENCED, ExitCode.UNFINISHED},
    "backfill status": _OF_SERVERS,
    "backfill compare": _OF_SERVERS | {ExitCode.FAULT},
    "backfill land": _OF_SERVERS | {ExitCode.FENCED, ExitCode.NOTHING, ExitCode.UNFINISHED},
    "backfill discard": _OF_SERVERS | {ExitCode.FENCED},
    "publish": _OF_SERVERS | {ExitCode.FENCED, ExitCode.NOTHING},
    "files": _OF_WRITERS,
    "files ls": _OF_SERVERS | {ExitCode.NOTHING},
    "status": _OF_SERVERS,
    "top": _OF_SERVERS | {ExitCode.NOTHING},
    "log": _OF_SERVERS | {ExitCode.NOTHING},
    "locate": _OF_SERVERS | {ExitCode.FAULT},
    "cat": _OF_SERVERS,
    "manifest": _OF_SERVERS | {ExitCode.NOTHING},
    "sql": _OF_SERVERS | {ExitCode.NOTHING},
    "audit": _OF_READERS | {ExitCode.UNCHECKED},
}
"""How a command can end, by its words, or else by its first word, or else by its purpose."""

RENAMED: Mapping[str, str] = {"promote": "promote-backfill"}
"""Former names of commands, which still work. `kubectl landfall promote` is about a rollout."""

_WIDTH = 22


def parser() -> argparse.ArgumentParser:
    """Everything ``landfall`` accepts; ``command`` of the parsed arguments names the command."""
    root = CommandParser(
        prog="landfall",
        description=ABOUT,
        formatter_class=argparse.RawDescriptionHelpFormatter,
    )
    root.add_argument("--version", action="version", version=f"landfall {__version__}")
    commands = root.add_subparsers(
        title="commands", metavar="COMMAND", required=True, help="see below"
    )
    new = partial(_command, commands)
    nested = partial(partial, _command)
    for add in (add_run, add_check, add_status, add_verify, add_fsck, add_locate, add_cat):
        add(new)
    for add in (add_init, add_explain, add_try, add_schema, add_publish, add_manifest, add_scan):
        add(new)
    for add in (add_table, add_log, add_ls, add_top, add_sql, add_verbs):
        add(new)
    add_contract(new, nested)
    add_files(new, nested)
    add_backfill(new, nested)
    add_commands(new, nested)
    add_completion(new)
    _add_output(commands)
    root.epilog = (
        f"{commands_text(commands)}\n\n"
        f"Run `landfall COMMAND --help` for the options of a command.\n\n{EXIT_CODES}"
    )
    commands._choices_actions.clear()  # noqa: SLF001  # they are listed by what they are for
    return root


def _command(commands: Any, name: str, summary: str, about: str) -> argparse.ArgumentParser:
    command: argparse.ArgumentParser = commands.add_parser(
        name,
        help=summary,
        description=about,
        formatter_class=argparse.RawDescriptionHelpFormatter,
    )
    words = command.prog.partition(" ")[2]
    command.epilog = _exit_codes(words)
    command.set_defaults(code=code_of(words), parser=command)
    return command


class _Json(argparse.Action):
    """``-o json`` of kubectl and helm: the same as ``--json``."""

    def __call__(self, parser: Any, namespace: Any, values: Any, option_string: Any = None) -> None:
        del parser, values, option_string
        namespace.json = True


def _add_output(commands: Any) -> None:
    """Let every command that takes ``--json`` take ``-o json``, too."""
    for command in commands.choices.values():
        actions = list(command._actions)  # noqa: SLF001  # argparse lists them nowhere else
        for action in actions:
            if isinstance(action, argparse._SubParsersAction):  # noqa: SLF001  # as above
                _add_output(action)
        taken = {option for action in actions for option in action.option_strings}
        if "--json" in taken and not {"-o", "--output"} & taken:  # where those name a file
            command.add_argument(
                *("-o", "--output"),
                action=_Json,
                choices=["json"],
                default=argparse.SUPPRESS,
                help="the same as --json",
            )


def code_of(words: str) -> str:
    """Module and function of a command that is named by these words, such as ``files ls``."""
    code = {name: place for names in COMMANDS.values() for name, place in names.items()}
    return f"landfall.cli.{code.get(words) or code[words.partition(' ')[0]]}"


def ends(words: str) -> frozenset[ExitCode]:
    """The exit codes of a command that is named by these words, such as ``files ls``."""
    first = words.partition(" ")[0]
    purpose = next(title for title, names in COMMANDS.items() if first in names)
    below = [_ENDS[name] for name in _ENDS.keys() - COMMANDS if name.startswith(f"{words} ")]
    if words in _ENDS or below:
        return _ENDS.get(words, frozenset()).union(*below)
    return _ENDS.get(first, _ENDS[purpose])


def _exit_codes(words: str) -> str:
    """The lines of ``EXIT_CODES`` about a command."""
    title, *lines = EXIT_CODES.splitlines()
    codes = ends(words)
    return "\n".join([title, *(line for line in lines if int(line.split()[0]) in codes)])


def imported(code: str) -> Callable[[argparse.Namespace], ExitCode]:
    """The function of a command, by ``module:name``."""
    module, _, name = code.partition(":")
    function: Callable[[argparse.Namespace], ExitCode] = getattr(import_module(module), name)
    return function


def grouped() -> frozenset[str]:
    """The names of all commands that are in a group."""
    return frozenset(name for names in COMMANDS.values() for name in names)


def commands_text(commands: Any) -> str:
    """The commands with their summaries, in groups."""
    summaries = {action.dest: action.help for action in commands._choices_actions}  # noqa: SLF001  # argparse lists them nowhere else
    blocks = []
    for title, names in COMMANDS.items():
        lines = [f"  {name:<{_WIDTH}}{summaries[name]}" for name in names if name in summaries]
        blocks.append("\n".join([f"{title}:", *lines]))
    return "\n\n".join(blocks)


class CommandParser(argparse.ArgumentParser):
    """A parser that names the command or option that is meant, and the command's own usage."""

    def parse_args(self, args: Any = None, namespace: Any = None) -> Any:
        """Return the arguments; end the process with a usage error if they are wrong."""
        typed = list(sys.argv[1:] if args is None else args)
        typed[:1] = [RENAMED.get(word, word) for word in typed[:1]]
        parsed, unknown = self.parse_known_args(typed, namespace)
        if unknown and not getattr(parsed, "any_option", False):
            command: CommandParser = getattr(parsed, "parser", self)
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
