"""``landfall migrate``: a group of another program's settings, and the check of the join."""

import argparse
import copy
import json
import os
import sys
from collections.abc import Callable, Mapping
from pathlib import Path
from typing import Any

import yaml

from landfall.api.contract import ExitCode
from landfall.api.group_file import check_size
from landfall.api.group_text import as_yaml
from landfall.api.spec import parse_group
from landfall.errors import Reason, Stalled
from landfall_migrate import connect, document, offsets, secor
from landfall_migrate.cli.check import check
from landfall_migrate.draft import Draft
from landfall_migrate.properties import PropertyLine, UnreadableError, without_includes
from landfall_migrate.secor import GroupChoices, SecorInput
from landfall_migrate.settings import ProgramSettings

_NEED_FILES = ("file", "schemaFile")
"""Options of decoders that name files of the image, which are not here."""


def migrate(arguments: argparse.Namespace) -> ExitCode:
    """Run one of the commands below ``migrate``.

    Raises:
        Stalled: SPEC_INVALID, the input cannot be read; the message has file and line.
    """
    try:
        return COMMANDS[arguments.program](arguments)
    except UnreadableError as error:
        raise Stalled(Reason.SPEC_INVALID, str(error)) from None


def _from_secor(arguments: argparse.Namespace) -> ExitCode:
    given = SecorInput(arguments.file, arguments.options, dict(os.environ) if arguments.env else {})
    settings = secor.settings_of(given, read)
    return _print(arguments, settings, secor.GROUP, secor.convert)


def _from_connect(arguments: argparse.Namespace) -> ExitCode:
    worker = _lines(arguments.worker, connect.worker_config_of) if arguments.worker else []
    environment = dict(os.environ) if arguments.env else {}
    lines = _lines(arguments.file, connect.config_of)
    given = connect.ConnectInput(lines, worker, arguments.options, environment)
    return _print(arguments, connect.settings_of(given), "name", connect.convert)


def _lines(
    path: str, of_document: Callable[[object, str], list[PropertyLine]]
) -> list[PropertyLine]:
    """The lines of a properties file, or of a JSON or YAML document."""
    text = read(path)
    if text is None:
        raise UnreadableError(f"{path}: there is no such file")
    if path.endswith(".properties"):
        return list(without_includes(path, text))
    return of_document(_yaml(path) if path.endswith((".yaml", ".yml")) else _json(path), path)


COMMANDS: Mapping[str, Callable[[argparse.Namespace], ExitCode]] = {
    "secor": _from_secor,
    "connect": _from_connect,
    "check": check,
}


def read(path: str) -> str | None:
    """The text of a properties file, which is in ISO 8859-1; None if there is no such file.

    Raises:
        UnreadableError: there is something that cannot be read.
    """
    try:
        return Path(path).read_bytes().decode("latin-1")
    except FileNotFoundError:
        return None
    except OSError as error:
        raise UnreadableError(f"{path}: {error.strerror}") from error


def _json(path: str) -> object:
    try:
        return json.loads(Path(path).read_bytes())
    except RecursionError:
        raise UnreadableError(f"{path}: nested too deeply") from None
    except json.JSONDecodeError as error:
        message = f"{path}:{error.lineno}:{error.colno}: invalid JSON: {error.msg}"
        raise UnreadableError(message) from error
    except (OSError, ValueError) as error:
        raise UnreadableError(f"{path}: {error}") from error


def _sound_yaml(body: bytes) -> object:
    loader = yaml.SafeLoader(body)
    node = loader.get_single_node()
    if node is None:
        return None
    check_size(node)
    found: object = loader.construct_document(node)
    return found


def _yaml(path: str) -> object:
    try:
        return _sound_yaml(Path(path).read_bytes())
    except RecursionError:
        raise UnreadableError(f"{path}: nested too deeply") from None
    except yaml.MarkedYAMLError as error:
        line = error.problem_mark.line + 1 if error.problem_mark else 0
        raise UnreadableError(f"{path}:{line}: invalid YAML: {error.problem}") from error
    except (OSError, ValueError, yaml.YAMLError) as error:
        raise UnreadableError(f"{path}: {error}") from error


def _print(
    arguments: argparse.Namespace,
    settings: ProgramSettings,
    group_key: str,
    convert: Callable[[ProgramSettings, GroupChoices], Draft],
) -> ExitCode:
    """Print the group and the report."""
    stopped = _stopped(arguments.offsets, settings.text(group_key))
    wanted = GroupChoices(
        name=arguments.name,
        namespace=arguments.namespace,
        generation=arguments.generation,
        bootstrap_servers=arguments.bootstrap_servers,
        finalizer=getattr(arguments, "finalizer", False),
        offsets=stopped.starts if stopped else None,
    )
    draft = convert(settings, wanted)
    made = document.accepted(draft)
    if refused := driver_refusal(made):
        draft.missing.append(f"a driver refuses the group as it is: {refused}")
    if stopped and stopped.missing:
        names = ", ".join(stopped.missing)
        draft.next_steps.append(f"no offset is committed, so these begin at their start: {names}")
    _add_steps(draft, made, arguments.output)
    head = f"# Made by `landfall migrate {arguments.program}` of {Path(arguments.file).name}.\n"
    text = head + as_yaml(made, draft.comments)
    _write(arguments.output, text)
    report = draft.report()
    if arguments.json:
        print(json.dumps(report.as_json(), ensure_ascii=False), file=sys.stderr)
    else:
        print(*report.lines(), sep="\n", file=sys.stderr)
    return ExitCode.OK if report.is_complete else ExitCode.FAULT


def _write(path: Path | None, text: str) -> None:
    if path is None:
        sys.stdout.write(text)
        return
    try:
        path.write_text(text, "utf-8")
    except OSError as error:
        raise UnreadableError(f"{path}: {error.strerror}") from error


def _stopped(path: Path | None, group: str) -> offsets.StoppedAt | None:
    if path is None:
        return None
    try:
        text = path.read_text("utf-8")
    except (OSError, UnicodeDecodeError) as error:
        raise UnreadableError(f"{path}: {error}") from error
    return offsets.parsed(str(path), text, group)


def _add_steps(draft: Draft, made: Mapping[str, Any], output: Path | None) -> None:
    """Complete the next steps: offsets can be taken only once nothing moves them."""
    url = made["spec"]["output"]["url"]
    draft.next_steps.insert(0, "stop the old program: never run both at once")
    proof = f"landfall migrate check GROUP.yaml --from {url} proves the join"
    draft.next_steps.append(f"{proof}, before the first start and after it")
    if output:
        steps = [step.replace("GROUP.yaml", str(output)) for step in draft.next_steps]
        draft.next_steps = steps


def driver_refusal(made: Mapping[str, Any]) -> str:
    """Return why a driver would refuse a group that the parser accepts; empty if it would not.

    Secrets are not here, and neither are files of the image: what needs one is not checked.
    """
    from landfall import registry  # noqa: PLC0415  # takes a second to import

    checked = copy.deepcopy(dict(made))
    for section in (checked["spec"], *checked["spec"].get("topics", ())):
        decode = section.get("decode", {})
        if any(name in decode.get("options", {}) for name in _NEED_FILES):
            return ""
        decode.get("registry", {}).pop("secretRef", None)
    try:
        registry.check_spec(parse_group(checked))
    except Stalled as refused:
        return str(refused)
    return ""
