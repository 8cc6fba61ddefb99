"""``landfall cat``: print the rows of an object in any format."""

import argparse
import re
import sys
from collections.abc import Iterator, Mapping
from contextlib import contextmanager, suppress
from itertools import islice
from pathlib import Path
from typing import BinaryIO

import msgspec
from pydantic import ValidationError

from landfall.api.contract import LANE, ExitCode
from landfall.api.spec import Output
from landfall.api.spec_errors import spec_errors
from landfall.cli.group_store import GroupStore
from landfall.cli.objects import read_back
from landfall.cli.objects.replaced_objects import find_retired
from landfall.cli.text import console
from landfall.cli.text.console import printable
from landfall.errors import Reason, Stalled
from landfall.formats import Row
from landfall.ledger.names import folders, object_names
from landfall.logs import visible
from landfall.registry import output_format
from landfall.store import Store
from landfall.store.urls import open_store

_COPY = re.compile(rf"^{object_names.SYSTEM}/[^/]+/[^/]+-retired/[0-9]{{20}}/")
"""The prefix of an object's key in the key of its copy."""


def cat(arguments: argparse.Namespace) -> ExitCode:
    """Print an object to standard output; for a replaced one, its copy.

    Raises:
        Stalled: SPEC_INVALID, the target is incomplete or there is no such object.
    """
    output, store, key = _target(arguments)
    try:
        _print(arguments, output, store, key)
    except FileNotFoundError:
        copy = _copy(arguments, output, key)
        try:
            _print(arguments, output, store, copy)
        except FileNotFoundError:
            message = f"{output.url}: no object {key}, nor its copy {copy}, which has expired"
            raise Stalled(Reason.SPEC_INVALID, message) from None
    sys.stdout.buffer.flush()
    return ExitCode.OK


def _print(arguments: argparse.Namespace, output: Output, store: Store, key: str) -> None:
    shows_controls = sys.stdout.isatty() and not arguments.raw
    for line in islice(_lines(output, store, key, as_json=arguments.json), arguments.limit):
        shown = _without_controls(line) if shows_controls else line
        sys.stdout.buffer.write(shown + b"\n")


def _without_controls(line: bytes) -> bytes:
    """Return a row whose control characters, and bytes that are no UTF-8, are escapes."""
    return visible(line.decode(errors="backslashreplace"), lines=True).encode()


def _copy(arguments: argparse.Namespace, output: Output, key: str) -> str:
    """Return the key of a replaced object's copy, and print a note.

    Raises:
        Stalled: SPEC_INVALID, the object never existed, or no record names it.
    """
    missing = Stalled(Reason.SPEC_INVALID, f"{output.url}: no object {key}")
    if len(arguments.target) == 1:
        raise missing from None
    opened = GroupStore.of(Path(arguments.target[0]))
    try:
        slot = find_retired(opened, key)
    except Stalled as broken:  # with any error of the ledger, the object is missing
        raise missing from broken
    if slot is None:
        raise missing from None
    copy = object_names.retired_key(opened.name, LANE, slot, key)
    console.err().print(
        f"{key}: the REPLACE in slot {slot} replaced it; this is its copy {copy}",
        markup=False,
    )
    return copy


def _target(arguments: argparse.Namespace) -> tuple[Output, Store, str]:
    """The object's output, store and key, from a group and a key, or from a URL and a format."""
    match arguments.target:
        case [group, name]:
            opened = GroupStore.of(Path(group))
            urls = (root.url.rstrip("/") + "/" for root in opened.group.spec.roots)
            root = next(filter(name.startswith, urls), "")
            key = name.removeprefix(root)
            original = _COPY.sub("", key)
            topic = folders.split_destination(original)[1].partition("/")[0]
            output = opened.specs.for_topic(topic).output
            is_letters = object_names.is_system_key(original)
            if not is_letters and not key.endswith(output_format(output).extension):
                with suppress(ValueError):  # its name is none of Landfall's
                    output = opened.output_of(original)  # landed before the format was changed
            return output, opened.store, key
        case [url] if arguments.format:
            root, _, key = url.rpartition("/")
            codec = {"codec": arguments.codec} if arguments.codec else {}
            output = _output({"url": root, "format": arguments.format, **codec})
            return output, open_store(output), key
        case _:
            raise Stalled(
                Reason.SPEC_INVALID,
                "cat: give a group file and one of its objects, or a URL and --format",
            )


def _output(fields: Mapping[str, str]) -> Output:
    """The output that these arguments describe."""
    try:
        return Output.model_validate(fields)
    except ValidationError as error:
        raise Stalled(Reason.SPEC_INVALID, "\n".join(spec_errors(error, {}))) from None


def _lines(output: Output, store: Store, key: str, *, as_json: bool) -> Iterator[bytes]:
    original = _COPY.sub("", key)
    is_system = original.startswith(f"{object_names.SYSTEM}/")
    with store.open(key) as stream:
        if is_system and key.endswith(".json"):
            yield stream.read()  # a record of the ledger, or a snapshot
        elif is_system and ("/dead-letters/" in original or object_names.letters_place(original)):
            # Parquet, with any format of the group's data objects.
            with _damage(f"{output.url}/{key}", "dead letters"):
                for letter in read_back.dead_letters(stream):
                    fields = {name: printable(value) for name, value in letter.items()}
                    yield msgspec.json.encode(fields)
        else:
            yield from _rows(output, key, stream, as_json=as_json)


def _rows(output: Output, key: str, stream: BinaryIO, *, as_json: bool) -> Iterator[bytes]:
    """The rows of a data object.

    Raises:
        Stalled: SPEC_INVALID, the object is not in this format, or it is damaged.
    """
    with _damage(f"{output.url}/{key}", output.format):
        for row in output_format(output).rows(stream):
            yield _as_json(row) if as_json else _as_text(row)


@contextmanager
def _damage(url: str, form: str) -> Iterator[None]:
    try:
        yield
    except ValueError as error:
        message = f"{url}: cannot be read as {form}: {error}"
        raise Stalled(Reason.SPEC_INVALID, message) from error


def _as_text(row: Row) -> bytes:
    value = b"(tombstone)" if row.value is None else row.value
    return value if row.offset is None else b"%d\t%b" % (row.offset, value)


def _as_json(row: Row) -> bytes:
    stored = {"offset": row.offset, "timestamp": row.timestamp, "key": printable(row.key)}
    known = {name: value for name, value in stored.items() if value is not None}
    return msgspec.json.encode({**known, "value": printable(row.value)})
