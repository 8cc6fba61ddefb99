"""``landfall explain``: the effective spec of a topic, and the field that sets each value."""

import argparse
import os
import re
import sys
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from typing import Any

import yaml

from landfall.api import group_file
from landfall.api.contract import ExitCode
from landfall.api.hidden_columns import hidden_columns
from landfall.api.plain_http import plain_http
from landfall.api.spec import ConsumerGroup, TopicSpecs
from landfall.api.spec.publish import PublisherEntry
from landfall.api.spec.stores import SCHEMES
from landfall.api.values import format_quantity
from landfall.cli.author.changed_values import changed_values
from landfall.cli.text import console

_SECTIONS = ("decode", "transforms", "route", "output")
_LIMITS = ("uploadPolicy", "badRecords")
"""Sections that ``overrides`` may set for a topic."""


def explain(arguments: argparse.Namespace) -> ExitCode:
    """Print the effective spec of a topic as YAML.

    Raises:
        Stalled: SPEC_INVALID, the file is no valid group.
    """
    group = group_file.load(arguments.group, os.environ)
    document = group_file.expand(group_file.read(arguments.group), os.environ)
    assert isinstance(document, Mapping), "it is the document of a group"
    text = "\n".join(lines(group, document["spec"], arguments.topic))
    if arguments.json:
        note = not_landed(group, arguments.topic)
        console.print_json({"topic": arguments.topic, "note": note, "spec": yaml.safe_load(text)})
    else:
        sys.stdout.write(f"{text}\n")
    return ExitCode.OK


def lines(group: ConsumerGroup, written: Mapping[str, Any], topic: str) -> Iterator[str]:
    """Yield the effective spec of a topic: YAML, with a comment after each value.

    Args:
        group: the group.
        written: its spec, as the user has written it.
        topic: the topic.
    """
    specs = TopicSpecs.of(group.spec)
    entry = specs.entry_of(topic)
    which = "no entry of spec.topics" if entry is None else f"spec.topics[{entry}]"
    yield f"# {topic}: {which} applies"
    if note := not_landed(group, topic):
        yield f"# {note}"
    yield from (f"# warning: {warning}" for warning in hidden_columns(specs.for_topic(topic)))
    yield from (f"# warning: {field}: {warning}" for field, warning in plain_http(group.spec))
    changed = changed_values(specs.for_topic(topic), which if entry is not None else "spec")
    yield from (f"# note: {field}: {text}" for field, text in changed)
    spec = specs.for_topic(topic).model_dump(mode="json", by_alias=True)
    output = group.spec.output
    accessed = set() if output.kind == "file" else {output.access_field}
    for section in {*SCHEMES.values()} - accessed:
        del spec["output"][section]  # of another store
    letters = group.spec.bad_records.present_place
    for section in {*SCHEMES.values()} - ({letters.access_field} if letters else set()):
        del spec["badRecords"][section]
    entries = [] if entry is None else [(f"topics[{entry}]", written["topics"][entry])]
    places = [*entries, ("group", written)]
    for name in _SECTIONS:
        yield from _block(name, spec[name], _Places(places).within(name), "")
    for name in _LIMITS:
        section = spec[name]
        found = _override(section.pop("overrides"), topic)
        over = written.get(name, {})
        limits = [("group", over)]
        if found is not None:
            at = over["overrides"][found]
            own = getattr(group.spec, _snake(name)).overrides[found]
            section |= own.model_dump(
                mode="json", by_alias=True, exclude={"topics"}, exclude_none=True
            )
            limits.insert(0, (f"{name}.overrides[{found}]", at))
        yield from _block(name, section, _Places(limits), "")
    if publishers := [
        _publisher(publisher) for publisher in group.spec.publish if publisher.selects(topic)
    ]:
        yield from _block("publish", publishers, _Places([("group", written)]), "")


def _publisher(entry: PublisherEntry) -> Mapping[str, Any]:
    return entry.model_dump(mode="json", by_alias=True, exclude={"topics"}, exclude_none=True)


@dataclass(frozen=True)
class _Places:
    """The documents that may set a value, by name, in order of precedence."""

    documents: Sequence[tuple[str, object]]

    def within(self, name: str) -> "_Places":
        inner = [(place, d.get(name)) for place, d in self.documents if isinstance(d, Mapping)]
        return _Places([(place, value) for place, value in inner if value is not None])

    @property
    def source(self) -> str:
        return self.documents[0][0] if self.documents else "default"

    @property
    def source_of_nothing(self) -> str:
        """The source of an empty mapping: filled ones have not been inherited."""
        return next((place for place, document in self.documents if document == {}), "default")


def _block(name: str, value: object, places: _Places, indent: str) -> Iterator[str]:
    """The lines of one field."""
    key = yaml.safe_dump(name, default_flow_style=True).removesuffix("\n...\n").strip()
    comment = f"  # {places.source}"
    match value:
        case {}:
            yield f"{indent}{key}:" + ("" if value else f" {{}}  # {places.source_of_nothing}")
            for inner, of_inner in value.items():
                yield from _block(inner, of_inner, places.within(inner), f"{indent}  ")
        case [{}, *_]:
            yield f"{indent}{key}:{comment}"
            yield from (f"{indent}  {line}".rstrip() for line in _dumped(value).splitlines())
        case str() if "\n" in value:
            first, *more = _dumped(value).splitlines()
            yield f"{indent}{key}: {first}{comment}"
            yield from (f"{indent}{line}".rstrip() for line in more)
        case _:
            yield f"{indent}{key}: {_scalar(name, value)}{comment}"


def _scalar(name: str, value: object) -> str:
    if name.endswith("Bytes") and isinstance(value, int):
        value = format_quantity(value)
    return _dumped(value, flow=True).strip()


class _BlockTextDumper(yaml.SafeDumper):
    """Writes text of several lines as such, if YAML allows it."""


def _text(dumper: yaml.SafeDumper, text: str) -> yaml.ScalarNode:
    style = "|" if "\n" in text else None
    return dumper.represent_scalar("tag:yaml.org,2002:str", text, style=style)


_BlockTextDumper.add_representer(str, _text)


def _dumped(value: object, *, flow: bool = False) -> str:
    text: str = yaml.dump(
        value,
        Dumper=_BlockTextDumper,
        default_flow_style=flow,
        sort_keys=False,
        allow_unicode=True,
        width=10**6,
    )
    return text.removesuffix("...\n")


def _override(overrides: Sequence[Mapping[str, Any]], topic: str) -> int | None:
    found = (i for i, o in enumerate(overrides) if re.fullmatch(o["topics"], topic))
    return next(found, None)


def not_landed(group: ConsumerGroup, topic: str) -> str:
    """Return a note about a topic that the group does not land; empty if it does."""
    if group.spec.source.selects(topic):
        return ""
    return f"spec.source leaves the topic out: {group.metadata.name} does not land it"


def _snake(name: str) -> str:
    return re.sub("[A-Z]", lambda letter: f"_{letter[0].lower()}", name)
