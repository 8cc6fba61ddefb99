"""Parsing a ``ConsumerGroup`` document, with errors that name the field."""

from collections.abc import Iterator
from itertools import chain
from typing import get_args

from pydantic import ValidationError
from pydantic.alias_generators import to_camel

from landfall.api.pod_spec import Model
from landfall.api.spec.effective import effective
from landfall.api.spec.group import ConsumerGroup, GroupSpec
from landfall.api.spec_errors import spec_errors
from landfall.errors import Reason, Stalled


def parse_group(document: object) -> ConsumerGroup:
    """The resource in a parsed YAML or JSON document.

    Raises:
        Stalled: SPEC_INVALID, with one line per error: the path of the field, then what is wrong.
    """
    try:
        # By alias only: a Python name such as max_bytes is a misspelt field to a user of the YAML.
        group = ConsumerGroup.model_validate(document, by_alias=True, by_name=False)
    except ValidationError as error:
        raise Stalled(Reason.SPEC_INVALID, "\n".join(spec_errors(error, _SECTIONS))) from None
    if errors := list(_topic_errors(group.spec)):
        raise Stalled(Reason.SPEC_INVALID, "\n".join(errors))
    return group


def _topic_errors(spec: GroupSpec) -> Iterator[str]:
    """The faults of entries of ``spec.topics`` together with the group's own fields."""
    for i, entry in enumerate(spec.topics):
        try:
            effective(spec, entry)
        except ValidationError as error:
            yield from spec_errors(error, _SECTIONS, ("spec", "topics", i))


def _sections(name: str, model: type[Model], found: dict[str, set[str]]) -> dict[str, set[str]]:
    """The fields of this section and all below it, by the names of the sections."""
    fields = {to_camel(field): info.annotation for field, info in model.model_fields.items()}
    if fields.keys() <= found.setdefault(name, set()):
        return found
    found[name] |= fields.keys()
    for field, annotation in fields.items():
        for below in _models(annotation):
            _sections(field, below, found)
    return found


def _models(annotation: object) -> Iterator[type[Model]]:
    """The models in a type such as ``tuple[Column, ...] | None``."""
    if isinstance(annotation, type) and issubclass(annotation, Model):
        yield annotation
    yield from chain.from_iterable(map(_models, get_args(annotation)))


_SECTIONS = _sections("spec", GroupSpec, {})
"""The fields of each section, to suggest one for a misspelt field."""
