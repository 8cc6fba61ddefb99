"""Reads ``GROUP.yaml``: the document that a cluster accepts, with environment variables in it.

``${NAME}`` is replaced with an environment variable, ``${NAME:-default}`` with the default if the
variable is unset or empty; ``$${`` is a literal ``${``. Variables are replaced after the YAML is
parsed, so the content of a variable is never read as YAML.
"""

import json
import re
from collections import Counter
from collections.abc import Callable, Mapping, Sequence
from pathlib import Path
from typing import Any

import yaml

from landfall.api.spec import ConsumerGroup, parse_group
from landfall.errors import Reason, Stalled

_VARIABLE = re.compile(
    r"\$(?P<escape>\$)?\{(?P<name>[A-Za-z_][A-Za-z0-9_]*)(?P<default>:-[^}]*)?\}"
)
_SECTION = re.compile(r"spec\.(?P<name>\w+)")
_SERVERLESS = {
    "source": {"files": [{"topic": "none", "url": "file:///dev/null/none"}]},
    "output": {"url": "file:///dev/null/none"},
}
"""Sections that no group can be without; nothing is read there, or written."""
MAX_VALUES = 100_000
"""The most values of a group file: aliases of aliases would make billions of a kilobyte."""


def load(path: Path, environment: Mapping[str, str]) -> ConsumerGroup:
    """The group that a file describes.

    Raises:
        Stalled: SPEC_INVALID, with one line per fault: file, then field or line, then the fault.
    """
    document, unset = read(path), list[str]()
    expanded = expand(document, environment, on_unset=unset.append)
    try:
        group = parse_group(expanded)
    except Stalled as fault:
        # A field with a variable that is unset holds no value that could be wrong.
        fields = tuple(line.partition(":")[0] for line in unset)
        others = (line for line in str(fault).splitlines() if not line.startswith(fields))
        lines = [*unset, *(others if fields else str(fault).splitlines())]
    else:
        lines = unset
    if not lines:
        return group
    raise Stalled(Reason.SPEC_INVALID, "\n".join(f"{path}: {line}" for line in lines))


def sound_sections(
    path: Path, environment: Mapping[str, str]
) -> tuple[ConsumerGroup, frozenset[str]] | None:
    """The group of a file that ``load`` refuses, without the sections of its spec that are wrong.

    It is for asking the servers that the other sections name. A section that no group can be
    without is then one that names no server.

    Returns:
        The group and the names of the sections that are left out; None if a fault is outside of
        sections.
    """
    try:
        written, unset = read(path), list[str]()
        document = expand(written, environment, on_unset=unset.append)
    except Stalled:
        return None
    lines = unset
    try:
        parse_group(document)
    except Stalled as fault:
        lines = [*unset, *str(fault).splitlines()]
    found = [_SECTION.match(line) for line in lines]
    if not isinstance(document, dict) or not all(found):
        return None
    wrong = frozenset(match["name"] for match in found if match)
    sound = {name: value for name, value in document["spec"].items() if name not in wrong}
    try:
        return parse_group({**document, "spec": {**_SERVERLESS, **sound}}), wrong
    except Stalled:
        return None


def read(path: Path) -> object:
    """The document in a file as it is written, with its variables.

    Raises:
        Stalled: SPEC_INVALID, the file cannot be read or is neither YAML nor JSON.
    """
    try:
        text = path.read_text("utf-8")
        # JSON is nearly a subset of YAML, but YAML rejects some characters and reads some numbers
        # differently: a file that claims to be JSON is parsed as JSON.
        if path.suffix == ".json":
            return json.loads(text, object_pairs_hook=_each_once)
        return _from_yaml(text)
    except _TwiceError as error:
        raise Stalled(Reason.SPEC_INVALID, f"{path}: {error}") from None
    except OSError as error:
        raise Stalled(Reason.SPEC_INVALID, f"{path}: {error.strerror}") from error
    except json.JSONDecodeError as error:
        raise Stalled(
            Reason.SPEC_INVALID,
            f"{path}:{error.lineno}:{error.colno}: invalid JSON: {error.msg}",
        ) from error
    except RecursionError:
        raise Stalled(Reason.SPEC_INVALID, f"{path}: nested too deeply") from None
    # A ValueError is a number or a date that Python cannot represent.
    except (yaml.YAMLError, ValueError) as error:
        kind = "JSON" if path.suffix == ".json" else "YAML"
        raise Stalled(
            Reason.SPEC_INVALID, f"{path}{_position(error)}: invalid {kind}: {_problem(error)}"
        ) from error


def _raise(message: str) -> None:
    raise Stalled(Reason.SPEC_INVALID, message)


def expand(
    value: object,
    environment: Mapping[str, str],
    field: str = "",
    on_unset: Callable[[str], None] = _raise,
) -> object:
    """The same document with the variables in its strings replaced.

    Args:
        value: the document.
        environment: the variables.
        field: the path of the document in its file.
        on_unset: gets a message for each variable that is unset and has no default, which stays as
            it is.

    Raises:
        Stalled: SPEC_INVALID, there is such a variable, unless ``on_unset`` is given.
    """
    if isinstance(value, dict):
        return {
            key: expand(inner, environment, f"{field}.{key}".lstrip("."), on_unset)
            for key, inner in value.items()
        }
    if isinstance(value, list):
        return [
            expand(inner, environment, f"{field}[{i}]", on_unset) for i, inner in enumerate(value)
        ]
    if isinstance(value, str):
        return _VARIABLE.sub(lambda match: _replacement(match, environment, field, on_unset), value)
    return value


def _replacement(
    match: re.Match[str],
    environment: Mapping[str, str],
    field: str,
    on_unset: Callable[[str], None],
) -> str:
    if match["escape"]:
        return match[0][1:]
    if found := environment.get(match["name"]):
        return found
    if match["default"] is None:
        on_unset(f"{field}: environment variable {match['name']} is not set")
        return match[0]
    return match["default"].removeprefix(":-")


def _position(error: Exception) -> str:
    """``:line:column`` of a YAML error, if the parser reports it."""
    mark = getattr(error, "problem_mark", None)
    return f":{mark.line + 1}:{mark.column + 1}" if mark else ""


def _problem(error: Exception) -> str:
    """Return the problem and its context, with the line where YAML's parser saw that begin."""
    problem, context = getattr(error, "problem", None), getattr(error, "context", None)
    if not problem:
        return str(error)
    begin = getattr(error, "context_mark", None)
    where = f" {context} that begins in line {begin.line + 1}" if context and begin else ""
    hint = "; is the indentation right?" if "<block" in problem else ""
    if "'{'" in problem and "flow" in str(context):
        hint = '; a variable inside of { } or [ ] needs quotes: "${NAME}"'
    return f"{problem}{where}{hint}"


class _TwiceError(Exception):
    """An object of JSON has a name twice."""


def _each_once(pairs: Sequence[tuple[str, Any]]) -> dict[str, Any]:
    names = Counter(name for name, _ in pairs)
    if twice := [name for name, count in names.items() if count > 1]:
        raise _TwiceError(f"{twice[0]} is given twice in one object")
    return dict(pairs)


class _Loader(yaml.SafeLoader):
    """Refuses duplicate keys of a mapping, as ``kubectl`` does: one of them would win."""

    def construct_mapping(self, node: yaml.MappingNode, deep: bool = False) -> dict[Any, Any]:  # noqa: FBT001, FBT002  # PyYAML's signature
        seen: dict[str, yaml.Mark] = {}
        for key, _ in node.value:
            if key.tag == "tag:yaml.org,2002:merge" or not isinstance(key, yaml.ScalarNode):
                continue
            if first := seen.get(key.value):
                raise yaml.constructor.ConstructorError(
                    None,
                    None,
                    f"{key.value} is in line {first.line + 1} already; a key can be given once",
                    key.start_mark,
                )
            seen[key.value] = key.start_mark
        return super().construct_mapping(node, deep=deep)


def check_size(root: yaml.Node) -> None:
    """Return if a document with its aliases filled in has a size that a person may have written.

    Raises:
        ConstructorError: an alias is inside of the node that it names, or there are too many
            values.
    """
    sizes: dict[int, int] = {}

    def size(node: yaml.Node) -> int:
        if sizes.setdefault(id(node), 0):
            return sizes[id(node)]
        sizes[id(node)] = MAX_VALUES + 1  # until it is known: for an alias inside of its own node
        children = node.value if isinstance(node, yaml.CollectionNode) else ()
        pairs = (child if isinstance(child, tuple) else (child,) for child in children)
        sizes[id(node)] = 1 + sum(size(child) for pair in pairs for child in pair)
        return sizes[id(node)]

    if size(root) > MAX_VALUES:
        raise yaml.constructor.ConstructorError(
            None, None, f"with its aliases it has more than {MAX_VALUES} values", root.start_mark
        )


def _from_yaml(text: str) -> object:
    """The one document in a text."""
    loader = _Loader(text)
    try:
        written = []
        while loader.check_node():
            node = loader.get_node()
            if node and node.tag != "tag:yaml.org,2002:null":
                written.append(node)
        if len(written) > 1:
            lines = " and ".join(str(node.start_mark.line + 1) for node in written)
            raise yaml.constructor.ConstructorError(
                None,
                None,
                f"there are {len(written)} documents, in lines {lines}: "
                "give each group a file of its own",
                written[1].start_mark,
            )
        if not written:
            return None
        check_size(written[0])
        return loader.construct_document(written[0])
    finally:
        loader.dispose()
