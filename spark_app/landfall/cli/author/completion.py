"""``landfall completion``: a script that completes commands and options in a shell.

The script is generated from the parser, so it matches this version; words that are neither commands
nor options complete to files.
"""

import argparse
import sys
from collections.abc import Iterator

from landfall.api.contract import ExitCode
from landfall.cli.parser import parser

Words = dict[tuple[str, ...], list[str]]


def completion(arguments: argparse.Namespace) -> ExitCode:
    """Print the script for a shell."""
    words = known_words(parser())
    lines = _fish(words) if arguments.shell == "fish" else _bash(words, arguments.shell)
    sys.stdout.write("\n".join(lines) + "\n")
    return ExitCode.OK


def known_words(parser: argparse.ArgumentParser, path: tuple[str, ...] = ()) -> Words:
    """Return the words that may follow each command: its subcommands and options."""
    words: list[str] = []
    found: Words = {path: words}
    for action in parser._actions:  # noqa: SLF001  # argparse lists them nowhere else
        words += action.option_strings
        if isinstance(action, argparse._SubParsersAction):  # noqa: SLF001  # as above
            words += action.choices
            for name, command in action.choices.items():
                found |= known_words(command, (*path, name))
    return found


def _bash(words: Words, shell: str) -> Iterator[str]:
    if shell == "zsh":
        yield "autoload -U +X bashcompinit && bashcompinit"
    yield "_landfall() {"
    yield '  local word="${COMP_WORDS[COMP_CWORD]}" path="" next="" i'
    yield "  for ((i = 1; i < COMP_CWORD; i++)); do"
    yield '    next="${path:+$path }${COMP_WORDS[i]}"'
    commands = "|".join(f'"{" ".join(path)}"' for path in words if path)
    yield f'    case "$next" in {commands}) path="$next" ;; esac'
    yield "  done"
    yield '  case "$path" in'
    for path, following in words.items():
        yield f'    "{" ".join(path)}") next="{" ".join(following)}" ;;'
    yield "  esac"
    yield '  COMPREPLY=($(compgen -W "$next" -- "$word"))'
    yield '  [[ -n "$path" && "$word" != -* ]] && COMPREPLY+=($(compgen -f -- "$word"))'
    yield "}"
    yield "complete -o filenames -F _landfall landfall"


def _fish(words: Words) -> Iterator[str]:
    for path, following in words.items():
        commands = " ".join(word for word in following if not word.startswith("-"))
        seen = "; and ".join(f"__fish_seen_subcommand_from {name}" for name in path)
        if commands:
            below = f"not __fish_seen_subcommand_from {commands}"
            when = f"{seen}; and {below}" if seen else below
            yield f"complete -c landfall -f -n '{when}' -a '{commands}'"
        for option in (word for word in following if word.startswith("--")):
            when = seen or "__fish_use_subcommand"
            yield f"complete -c landfall -n '{when}' -l {option.removeprefix('--')}"
