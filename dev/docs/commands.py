"""The command lines of data plane and operator, from their parsers."""

import argparse
import re
from collections.abc import Iterator
from functools import partial
from typing import Any, TypeGuard

from landfall.cli.parser import parser
from landfall_operator import settings

LANDFALL = """# Command line

<!-- Made by `make crds` from the parser of `landfall`. -->

What each command prints about itself. Results go to standard output, progress and events to
standard error. Which of the checks answers which question, and what their answers mean, is in
[Check what landed](../guides/check-what-landed.md).
"""

OPERATOR = """# Operator flags

<!-- Made by `make crds` from the parser of `landfall-operator`. -->

`landfall-operator` (or `python -m landfall_operator`) runs ConsumerGroups on Kubernetes. Usually
the [Helm chart](helm-values.md) starts it and sets these. A flag wins over its environment
variable, and an empty variable counts as unset. What the operator does is in
[Operate](../guides/operate.md), how it ends in [Exit codes](exit-codes.md).

| flag | variable | default | meaning |
|---|---|---|---|"""

OPERATOR_REST = """
`POD_NAME` is this operator's name in the lease. Outside of a cluster the operator uses the
cluster that `KUBECONFIG` names. `python -m landfall_operator.objects.rbac` prints the least that
an operator must be allowed; its tests run with exactly that. An operator of the whole cluster that
lacks a right ends at its start and names the right. One with `--namespace` drops the namespaces in
which it lacks a right, reports them in its log and in `landfall_operator_namespace_watched`, is not
ready while none is left, and takes them back when it may."""


def landfall() -> str:
    """``docs/reference/cli.md``."""
    root = parser()
    # argparse has no public way to the parsers of subcommands
    (commands,) = filter(_is_commands, root._actions)  # noqa: SLF001
    parts = [LANDFALL, *_help("landfall", root)]
    for name, command in commands.choices.items():
        parts += _help(f"landfall {name}", command)
        for inner in filter(_is_commands, command._actions):  # noqa: SLF001
            for below, nested in inner.choices.items():
                parts += _help(f"landfall {name} {below}", nested)
    return "\n".join(parts)


def _is_commands(action: argparse.Action) -> TypeGuard["argparse._SubParsersAction[Any]"]:
    return isinstance(action, argparse._SubParsersAction)  # noqa: SLF001


def _help(name: str, command: argparse.ArgumentParser) -> Iterator[str]:
    """At a fixed width: else argparse uses the terminal's."""
    command.formatter_class = partial(argparse.RawDescriptionHelpFormatter, width=100)
    yield f"## `{name}`\n"
    yield f"```console\n$ {name} --help\n{command.format_help().rstrip()}\n```\n"


def operator() -> str:
    """``docs/reference/operator.md``."""
    made = settings._parser({"POD_NAMESPACE": "its own"})  # noqa: SLF001  # the one there is
    return "\n".join([OPERATOR, *_flags(made), OPERATOR_REST]) + "\n"


def _flags(made: argparse.ArgumentParser) -> Iterator[str]:
    for action in made._actions:  # noqa: SLF001  # argparse offers nothing else
        flag = action.option_strings[-1]
        found = re.fullmatch(r"(.*) \[([^;,\]]+)(?:[;,] *(.*))?\]", action.help or "", re.DOTALL)
        if flag in {"--help", "--version"}:
            continue
        if not found:
            raise ValueError(
                f"the help of {flag} does not end with [VARIABLE; default]: {action.help}"
            )
        text, variable, default = found.groups(default="")
        yield f"| `{flag}` | `{variable}` | {_default(default)} | {text.replace('%%', '%')} |"


def _default(text: str) -> str:
    return f"`{text}`" if text and " " not in text else text
