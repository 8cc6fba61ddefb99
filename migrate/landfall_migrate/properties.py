r"""Properties files, as Secor and Kafka Connect read them. Pure: ``read`` gives the texts.

Secor reads by Apache commons-configuration 1.x, Connect by ``java.util.Properties``. These differ
from each other: commons-configuration has includes, lists by commas, and keys that repeat make
lists; Secor reads the first value. Libraries on PyPI (``javaproperties``, ``jproperties``) know the
syntax of ``java.util.Properties`` only, where ``\,`` is a comma, an ``include`` is a key and the
last of repeated keys wins: they would give other values than Secor saw.

Source: the user guide of commons-configuration 1.10, "Properties files", and its classes
PropertiesConfiguration.PropertiesReader and PropertyConverter; java.util.Properties#load.
"""

import re
from collections.abc import Callable, Iterator
from dataclasses import dataclass

Read = Callable[[str], str | None]
"""The text of a file by its path; None if there is no such file."""

_SEPARATED = re.compile(r"((?:[^\\=: \t\f]|\\.)*)[ \t\f]*[=:]?[ \t\f]*(.*)", re.DOTALL)
_ESCAPE = re.compile(r"\\(?:u([0-9A-Fa-f]{4})|(.)|$)", re.DOTALL)
_ESCAPED = {"n": "\n", "t": "\t", "r": "\r", "f": "\f", "b": "\b"}


class UnreadableError(Exception):
    """The input cannot be read; the message begins with file and line."""


@dataclass(frozen=True, slots=True)
class PropertyLine:
    """One ``key = value``, the values of a list by themselves.

    Attributes:
        key: without escapes.
        values: at least one; only commons-configuration has more.
        place: file and line, as ``secor.properties:12``.
    """

    key: str
    values: tuple[str, ...]
    place: str


def with_includes(path: str, read: Read) -> tuple[PropertyLine, ...]:
    """Every line of a file of commons-configuration and of its includes, in order.

    Raises:
        UnreadableError: a file is missing, includes itself, or has a wrong escape.
    """
    return tuple(_lines(path, read, path, ()))


def without_includes(name: str, text: str) -> tuple[PropertyLine, ...]:
    """Every line of a file of ``java.util.Properties``, in order.

    Raises:
        UnreadableError: an escape is wrong.
    """
    found = []
    for number, line in _logical_lines(text, comments_within=False):
        key, value = _split(line)
        place = f"{name}:{number}"
        found.append(PropertyLine(_unescaped(key, place), (_unescaped(value, place),), place))
    return tuple(found)


def _lines(path: str, read: Read, asked_by: str, above: tuple[str, ...]) -> Iterator[PropertyLine]:
    text = read(path)
    if text is None:
        what = "such file" if asked_by == path else f"file {path}"
        raise UnreadableError(f"{asked_by}: there is no {what}")
    if path in above:
        raise UnreadableError(f"{asked_by}: {path} includes itself")
    for number, line in _logical_lines(text, comments_within=True):
        raw_key, raw_value = _split(line)
        place = f"{path}:{number}"
        key = _unescaped(raw_key, place)
        value = _unescaped(raw_value.strip(), place, keep=",")
        if key.lower() != "include":
            yield PropertyLine(key, tuple(listed(value)), place)
            continue
        for name in filter(None, (part.strip() for part in value.split(","))):
            yield from _lines(_beside(path, name), read, place, (*above, path))


def _beside(path: str, name: str) -> str:
    """The path of a file that is named in another one."""
    folder = path.rpartition("/")[0]
    return name if name.startswith("/") or not folder else f"{folder}/{name}"


def _logical_lines(text: str, *, comments_within: bool) -> Iterator[tuple[int, str]]:
    """Lines joined where a backslash continues them, with the number of the first.

    Args:
        text: of a file.
        comments_within: whether a comment may stand between a line and what continues it.
    """
    joined, start = "", 0
    for number, raw in enumerate(re.split(r"\r\n|\r|\n", text), 1):
        line = raw.strip() if comments_within else raw.lstrip(" \t\f")
        is_comment = not line or line[0] in "#!"
        if is_comment and (comments_within or not joined):
            continue
        start = start or number
        backslashes = len(line) - len(line.rstrip("\\"))
        joined += line[: len(line) - backslashes % 2]
        if backslashes % 2 == 0:
            yield start, joined
            joined, start = "", 0
    if joined:
        yield start, joined


def _split(line: str) -> tuple[str, str]:
    match = _SEPARATED.fullmatch(line)
    return (match[1], match[2]) if match else (line, "")


def _unescaped(text: str, place: str, keep: str = "") -> str:
    """Return the text without escapes, except of the character ``keep``."""
    if re.search(r"\\u(?![0-9A-Fa-f]{4})", re.sub(r"\\\\", "", text)):
        raise UnreadableError(f"{place}: \\u is not followed by four hexadecimal digits")

    def plain(match: re.Match[str]) -> str:
        if match[1]:
            return chr(int(match[1], 16))
        letter = match[2] or ""
        return f"\\{keep}" if keep and letter == keep else _ESCAPED.get(letter, letter)

    return _ESCAPE.sub(plain, text)


def listed(value: str) -> Iterator[str]:
    r"""The values between commas, each trimmed; ``\,`` is a comma inside of one.

    A value without a comma after its first character is taken as it is: a line break that an escape
    made is not trimmed away.
    """
    if value.find(",") <= 0:
        yield value
        return
    token, escaped = "", False
    for letter in value:
        if escaped:
            token += letter if letter in ",\\" else f"\\{letter}"
            escaped = False
        elif letter == "\\":
            escaped = True
        elif letter == ",":
            yield token.strip()
            token = ""
        else:
            token += letter
    yield (token + ("\\" if escaped else "")).strip()
