"""The grammar of ``spec.route.pattern``, and patterns that are surely mistakes. Pure.

``landfall.pipeline.route`` defines what each placeholder renders. The check lies with the models,
so that the operator refuses a pattern before a driver starts. A pattern in the notation of Java's
``SimpleDateFormat`` (``'dt='YYYY-MM-dd``) is refused although it is valid text: every record would
land in one directory of that name.
"""

import re
from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from difflib import get_close_matches
from enum import Enum

DIRECTIVES = ("%Y", "%y", "%m", "%b", "%d", "%j", "%F", "%G", "%V", "%u", "%H", "%M", "%S")
"""The directives of ``strftime`` that a pattern may contain."""
MINUTE_STEPS = (2, 3, 4, 5, 6, 10, 12, 15, 20, 30)
"""The widths in minutes that ``{minute:N}`` takes: they divide an hour."""

_TOKEN = re.compile(r"\{([^{}]*)\}|(%.?)|([^{}%]+)|([{}])", re.DOTALL)
_SHORT = {"date": "%Y-%m-%d", "hour": "%H", "minute": "%M"}
_KNOWN = (
    "{topic} {kafka_partition} {date} {hour} {minute} {minute:15} {time:%Y/%m/%d} {field:path} "
    "{header:name} {key} {key:path} {schema:id} {schema:name} and bare %Y-%m-%d"
)
_MEANT = {
    "dt": "{date}",
    "day": "{time:%d}",
    "dd": "{time:%d}",
    "month": "{time:%m}",
    "mm": "{minute}",
    "year": "{time:%Y}",
    "yyyy": "{time:%Y}",
    "hr": "{hour}",
    "hh": "{hour}",
    "min": "{minute}",
    "partition": "{kafka_partition}",
    "kafkapartition": "{kafka_partition}",
}
"""Meanings of unknown placeholders elsewhere, in lower case."""
_MEANT_DIRECTIVES = {"%B": "%b", "%h": "%b", "%D": "%F", "%e": "%d", "%I": "%H", "%k": "%H"}
_JAVA: Mapping[str, str] = {
    "yyyy": "%Y",
    "YYYY": "%Y",
    "uuuu": "%Y",
    "yy": "%y",
    "YY": "%y",
    "MMMM": "%b",
    "MMM": "%b",
    "MM": "%m",
    "dd": "%d",
    "DDD": "%j",
    "DD": "%d",
    "HH": "%H",
    "hh": "%H",
    "mm": "%M",
    "ss": "%S",
}
"""Words that are dates in Java's notation, with our directives."""
_JAVA_LETTERS = (
    "(?:yy)+(?!y)|(?:YY)+(?!Y)|(?:uuuu)+(?!u)|MM+(?!M)|(?:dd)+(?!d)|DD+(?!D)"
    "|(?:HH)+(?!H)|(?:hh)+(?!h)|(?:mm)+(?!m)|(?:ss)+(?!s)"
)
"""A run of one letter that consists of such words. Each run can be parsed in one way only, so the
search takes linear time for any text.
"""
_JAVA_WORD = re.compile(rf"(?<![A-Za-z])(?:{_JAVA_LETTERS})+(?![A-Za-z=])")
TOPIC_END = "/{topic}"
"""The end of ``spec.route.topicPath``."""
_QUOTED = re.compile(r"'([^']*)'|\"([^\"]*)\"")


class TokenKind(Enum):
    """The kind of value that a token renders."""

    TEXT = "text"
    TOPIC = "topic"
    KAFKA_PARTITION = "kafka_partition"
    FIELD = "field"
    SCHEMA = "schema"
    HEADER = "header"
    KEY = "key"
    DIRECTIVE = "directive"
    MINUTES = "minutes"


_OF_A_RECORD = frozenset({TokenKind.FIELD, TokenKind.KEY, TokenKind.SCHEMA, TokenKind.HEADER})
"""Placeholders that a destination may have."""


@dataclass(frozen=True, slots=True)
class Token:
    """One piece of a pattern.

    Attributes:
        kind: what it renders.
        text: the text itself, the path of a field, the name of a header, what of a schema (``id``
            or ``name``), a directive, or the width in minutes.
    """

    kind: TokenKind
    text: str = ""


_PLAIN: Mapping[str, Token] = {
    "topic": Token(TokenKind.TOPIC),
    "kafka_partition": Token(TokenKind.KAFKA_PARTITION),
    "key": Token(TokenKind.KEY),
    "schema:id": Token(TokenKind.SCHEMA, "id"),
    "schema:name": Token(TokenKind.SCHEMA, "name"),
}
"""The placeholders without a parameter."""


def tokens(pattern: str) -> tuple[Token, ...]:
    """The pieces of a pattern, in order.

    Raises:
        ValueError: a placeholder or directive is unknown; the message suggests the likely intended
            one, if there is one.
    """
    found: list[Token] = []
    for inner, directive, literal, stray in _TOKEN.findall(pattern):
        if literal:
            found.append(Token(TokenKind.TEXT, literal))
        elif directive:
            found.append(_directive(directive))
        else:
            found += _placeholder(inner, stray)
    return tuple(found)


def checked_pattern(pattern: str) -> str:
    """Return the pattern, if it is valid and not surely a mistake.

    Raises:
        ValueError: as ``tokens``; or the pattern is in another notation; the message has it in
            this one.
    """
    if _QUOTED.search(pattern) or _java_words(pattern):
        raise ValueError(_in_java(pattern))
    if "${" in pattern:
        meant = pattern.replace("${", "{")
        raise ValueError(f"placeholders have no $, write {meant!r} instead of {pattern!r}")
    if re.search(r"%[Yy][^%A-Za-z]?%M", pattern):
        meant = re.sub(r"(%[Yy][^%A-Za-z]?)%M", r"\1%m", pattern)
        raise ValueError(f"%M is the minute, write {meant!r} instead of {pattern!r}")
    tokens(pattern)
    return pattern


def checked_route(pattern: str) -> str:
    """Return ``spec.route.pattern``, as ``checked_pattern``, and without empty folders.

    Raises:
        ValueError: as ``checked_pattern``; or a folder is empty.
    """
    checked_pattern(pattern)
    if meant := _without_empty_folders(pattern):
        raise ValueError(
            f"names folders below the topic's, none of them empty, write {meant!r} "
            f"instead of {pattern!r}"
        )
    return pattern


def _without_empty_folders(pattern: str) -> str:
    """The pattern without slashes that have no folder on one side; empty if it has none."""
    meant = re.sub("/+", "/", pattern).strip("/")
    return meant if meant != pattern else ""


def checked_topic_path(text: str) -> str:
    """Return ``spec.route.topicPath``, if by it objects of two topics can never get one name.

    Each directory before the topic's has text with ``=``, which no topic has in its name: so the
    topic is the first directory without one, for all values of a record.

    Raises:
        ValueError: it does not end with the topic, a directory has no ``=``, or it has another
            placeholder than values of the record.
    """
    checked_pattern(text)
    before = text.removesuffix(TOPIC_END)
    if before in {text, ""}:
        raise ValueError(f"must end with {TOPIC_END}, such as db={{field:app}}/{{topic}}: {text!r}")
    directories = [""]
    for token in tokens(before):
        if token.kind is TokenKind.TEXT:
            first, *others = token.text.split("/")
            directories[-1] += first
            directories += others
        elif token.kind not in _OF_A_RECORD:
            raise ValueError(
                f"takes values of the record, such as {{field:path}} and {{header:name}}; times "
                f"belong into route.pattern, and the topic to the end: {text!r}"
            )
    if without := [name for name in directories if "=" not in name]:
        raise ValueError(
            f"each directory before the topic needs text with =, as in db={{field:app}}; "
            f"{without[0]!r} has none: {text!r}"
        )
    return text


def _placeholder(inner: str, stray: str) -> Iterator[Token]:
    name, _, argument = inner.partition(":")
    if inner in _PLAIN:
        yield _PLAIN[inner]
    elif name in {"field", "key", "header"} and ":" in inner:
        yield _of_record(TokenKind(name), argument)
    elif inner in _SHORT:
        yield from _time(_SHORT[inner])
    elif name == "time" and ":" in inner:
        yield from _time(argument)
    elif name == "minute" and ":" in inner:
        if argument not in map(str, MINUTE_STEPS):
            steps = ", ".join(map(str, MINUTE_STEPS))
            raise ValueError(f"{{minute:N}} takes one of {steps}, got {{{inner}}}")
        yield Token(TokenKind.MINUTES, argument)
    else:
        raise ValueError(_unknown(inner, stray))


def _of_record(kind: TokenKind, argument: str) -> Token:
    if kind is not TokenKind.HEADER and not all(argument.split(".")):
        raise ValueError(f"invalid field path: {{{kind.value}:{argument}}}")
    if not argument:
        raise ValueError("a header needs its name: {header:name}")
    return Token(kind, argument)


def _time(layout: str) -> Iterator[Token]:
    for part, literal in re.findall(r"(%.?)|([^%]+)", layout, re.DOTALL):
        yield _directive(part) if part else Token(TokenKind.TEXT, literal)


def _directive(text: str) -> Token:
    if text in DIRECTIVES:
        return Token(TokenKind.DIRECTIVE, text)
    meant = _MEANT_DIRECTIVES.get(text) or next((d for d in DIRECTIVES if d == text.swapcase()), "")
    hint = f", did you mean {meant}?" if meant else ""
    raise ValueError(f"unknown directive {text!r}{hint}; expected one of {' '.join(DIRECTIVES)}")


def _unknown(inner: str, stray: str) -> str:
    shown = stray or f"{{{inner}}}"
    words = {"topic", "kafka_partition", *_SHORT}
    close = get_close_matches(inner, words, n=1, cutoff=0.7)
    meant = _MEANT.get(inner.lower()) or (f"{{{close[0]}}}" if close else "")
    hint = f", did you mean {meant}?" if meant and not stray else ""
    return f"unknown placeholder {shown!r}{hint}; expected one of {_KNOWN}"


# ---------------------------------------------------------------------------------- Java's notation


def _java_words(pattern: str) -> list[str]:
    """The words outside of placeholders that are dates in Java's notation.

    Before ``=`` they may be intended, as in ``yyyy=%Y/mm=%m``.
    """
    literals = (literal for _, _, literal, _ in _TOKEN.findall(pattern) if literal)
    return [word for literal in literals for word in _JAVA_WORD.findall(literal)]


def _in_java(pattern: str) -> str:
    meant = "".join(
        (match[1] or match[2] or "") if match else _JAVA_WORD.sub(_ours, plain)
        for match, plain in _split_quotes(pattern)
    )
    try:
        tokens(meant)
    except ValueError:
        meant = "dt={date}/hr={hour}"
    return (
        f"looks like a date pattern of Java, and would be taken as text: {pattern!r}; "
        f"dates are written as in {meant!r}"
    )


def _split_quotes(pattern: str) -> Iterator[tuple[re.Match[str] | None, str]]:
    """The quoted parts as matches, and the text between them."""
    at = 0
    for match in _QUOTED.finditer(pattern):
        yield None, pattern[at : match.start()]
        yield match, ""
        at = match.end()
    yield None, pattern[at:]


def _ours(match: re.Match[str]) -> str:
    return re.sub("|".join(_JAVA), lambda word: _JAVA[word[0]], match[0])
