"""Reading ``GROUP.yaml``: the same document a cluster gets, with variables of the environment in it.

``${NAME}`` stands for an environment variable, ``${NAME:-default}`` for a default where it is not
set or empty; ``$${`` is a plain ``${``. They are replaced in values after the YAML is parsed, so
what they hold is never read as YAML.
"""

import json
import re
from collections.abc import Mapping
from pathlib import Path

import yaml

from landfall.api.spec import ConsumerGroup, parse_group
from landfall.errors import Reason, Stalled

_VARIABLE = re.compile(r"\$(?P<plain>\$)?\{(?P<name>[A-Za-z_][A-Za-z0-9_]*)(?P<default>:-[^}]*)?\}")


def load(path: Path, environment: Mapping[str, str]) -> ConsumerGroup:
    """The group a file describes.

    Raises:
        Stalled: SPEC_INVALID, with a line per fault: file, then field or line, then what is wrong.
    """
    try:
        text = path.read_text("utf-8")
        # nearly every JSON text is YAML, but YAML knows fewer characters and other numbers
        document = json.loads(text) if path.suffix == ".json" else yaml.safe_load(text)
    except OSError as error:
        raise Stalled(Reason.SPEC_INVALID, f"{path}: {error.strerror}") from error
    except json.JSONDecodeError as error:
        raise Stalled(
            Reason.SPEC_INVALID, f"{path}:{error.lineno}:{error.colno}: not JSON: {error.msg}"
        ) from error
    except (yaml.YAMLError, UnicodeDecodeError) as error:
        raise Stalled(
            Reason.SPEC_INVALID, f"{path}{_position(error)}: not YAML: {_problem(error)}"
        ) from error
    try:
        return parse_group(expand(document, environment))
    except Stalled as fault:
        raise Stalled(
            fault.reason, "\n".join(f"{path}: {line}" for line in str(fault).splitlines())
        ) from None


def expand(value: object, environment: Mapping[str, str], field: str = "") -> object:
    """The same document with variables replaced in its texts.

    Raises:
        Stalled: SPEC_INVALID, a variable is not set and has no default.
    """
    if isinstance(value, dict):
        return {
            key: expand(inner, environment, f"{field}.{key}".lstrip("."))
            for key, inner in value.items()
        }
    if isinstance(value, list):
        return [
            expand(inner, environment, f"{field}.{i}".lstrip(".")) for i, inner in enumerate(value)
        ]
    if isinstance(value, str):
        return _VARIABLE.sub(lambda match: _replaced(match, environment, field), value)
    return value


def _replaced(match: re.Match[str], environment: Mapping[str, str], field: str) -> str:
    if match["plain"]:
        return match[0][1:]
    if found := environment.get(match["name"]):
        return found
    if match["default"] is None:
        raise Stalled(
            Reason.SPEC_INVALID, f"{field}: environment variable {match['name']} is not set"
        )
    return match["default"].removeprefix(":-")


def _position(error: Exception) -> str:
    mark = getattr(error, "problem_mark", None)
    return f":{mark.line + 1}:{mark.column + 1}" if mark else ""


def _problem(error: Exception) -> str:
    return str(getattr(error, "problem", None) or error)
