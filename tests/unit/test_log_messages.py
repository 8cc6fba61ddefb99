"""Log messages name a thing and what happened to it, as in ``batch committed``.

So they are searched for and counted by what happened. Details are fields of the line.
"""

import ast
import re
from collections.abc import Iterator
from pathlib import Path

ROOT = Path(__file__).parents[2]
SOURCES = ("spark_app", "operator", "audit", "migrate")
LEVELS = {"debug", "info", "warning", "error", "exception"}
SENTENCE = re.compile(r"^(the|an?|no) |\b(is|are|has|have|was|were|cannot|may) ")
"""What makes a message a sentence, or the lack of something."""


def messages(text: str) -> Iterator[tuple[int, str]]:
    """The lines and constant messages of calls such as ``log.info("batch committed")``."""
    for node in ast.walk(ast.parse(text)):
        if (
            isinstance(node, ast.Call)
            and isinstance(node.func, ast.Attribute)
            and node.func.attr in LEVELS
            and isinstance(node.func.value, ast.Name)
            and node.func.value.id == "log"
            and node.args
            and isinstance(node.args[0], ast.Constant)
            and isinstance(node.args[0].value, str)
        ):
            yield node.lineno, node.args[0].value


def subject(message: str) -> str:
    """What comes before a colon: the rest explains it."""
    return message.partition(":")[0]


def test_a_message_names_a_thing_and_what_happened_to_it() -> None:
    sentences = [
        f"{file.relative_to(ROOT)}:{line}: {message}"
        for folder in SOURCES
        for file in sorted((ROOT / folder).rglob("*.py"))
        for line, message in messages(file.read_text())
        if SENTENCE.search(subject(message)) or message[:1].isupper()
    ]

    assert sentences == []


def test_messages_are_found() -> None:
    source = (
        'log.info("batch committed")\nlog.error("the lane cannot be read: %s", why)\nf.info("a")'
    )

    assert list(messages(source)) == [(1, "batch committed"), (2, "the lane cannot be read: %s")]
    assert SENTENCE.search(subject("the lane cannot be read: %s"))
