"""Parsing a ``ConsumerGroup`` document, with errors that name the field."""

from collections.abc import Iterator
from itertools import chain

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
        raise Stalled(Reason.SPEC_INVALID, "\n".join(spec_errors(error, _FIELDS))) from None
    if errors := list(_topic_errors(group.spec)):
        raise Stalled(Reason.SPEC_INVALID, "\n".join(errors))
    return group


def _topic_errors(spec: GroupSpec) -> Iterator[str]:
    """What is wrong with entries of ``spec.topics`` together with the group's own fields."""
    for i, entry in enumerate(spec.topics):
        try:
            effective(spec, entry)
        except ValidationError as error:
            yield from spec_errors(error, _FIELDS, ("spec", "topics", i))


def _models(model: type[Model]) -> Iterator[type[Model]]:
    yield model
    for kind in model.__subclasses__():
        yield from _models(kind)


# Every field of every section, to suggest one for a misspelt field. All sections are imported
# above, so all models exist by now.
_FIELDS = sorted(
    set(chain.from_iterable(map(to_camel, model.model_fields) for model in _models(Model)))
)
