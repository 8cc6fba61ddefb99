"""The section ``spec.topics``: what holds for some topics instead of the group's own fields.

An entry has the fields of the group's sections, but none needs to be set and none has a default:
what an entry does not set comes from the group's field. ``landfall.api.spec.effective`` puts both
together. The models are made of the sections' models, so that a field which a section gets can be
set for a topic, too.
"""

from types import NoneType
from typing import TYPE_CHECKING, Annotated, Any, TypeAlias, get_args, get_type_hints

from pydantic import Field, create_model

from landfall.api.pod_spec import Model
from landfall.api.spec.compact import Compact
from landfall.api.spec.decode import Decode, TransformStep
from landfall.api.spec.output import Output, Route
from landfall.api.spec.stores import PLACE
from landfall.api.values import Pattern

MAX_TOPICS = 100
"""How many entries ``spec.topics`` takes: each is a decoder, steps and a format in every worker."""
_OF_THE_GROUP = PLACE | {"existing_objects"}
"""Fields of the output that cannot differ between topics: there is one ledger."""


def _partial(kind: type[Model], leave_out: frozenset[str] = frozenset()) -> type[Model]:
    """A model with the same fields, in which each may be left out and is then None."""
    name, hints = f"Topic{kind.__name__}", get_type_hints(kind, include_extras=True)
    fields: dict[str, Any] = {
        field: (_optional(hints[field]), None)
        for field in kind.model_fields
        if field not in leave_out
    }
    made = create_model(name, __base__=Model, __module__=__name__, __doc__=kind.__doc__, **fields)
    made.documented_by = kind
    globals()[name] = made  # where pickle looks for it
    return made


def _optional(annotation: Any) -> Any:
    """The type of a field that may be left out; the fields of a section may be, one by one."""
    kinds = [kind for kind in get_args(annotation) or (annotation,) if kind is not NoneType]
    if len(kinds) == 1 and isinstance(kinds[0], type) and issubclass(kinds[0], Model):
        return _partial(kinds[0]) | None
    return annotation | None


if TYPE_CHECKING:
    TopicDecode: TypeAlias = Model
    TopicRoute: TypeAlias = Model
    TopicOutput: TypeAlias = Model
    TopicCompact: TypeAlias = Model
else:
    TopicDecode, TopicRoute = _partial(Decode), _partial(Route)
    TopicCompact = _partial(Compact, frozenset({"readers"}))
    TopicOutput = _partial(Output, _OF_THE_GROUP)


class TopicOverride(Model):
    """Fields for some topics of a group instead of the group's own fields."""

    pattern: Pattern
    """Regular expression for the topics; it must match the whole name."""
    decode: TopicDecode | None = None
    """Replaces those fields of the group's ``decode`` that are set here. With another ``format``,
    ``options`` are only those that are set here.
    """
    transforms: Annotated[tuple[TransformStep, ...] | None, Field(max_length=30)] = None
    """The steps for these topics, instead of all of the group's; ``[]`` for none."""
    route: TopicRoute | None = None
    """Replaces those fields of the group's ``route`` that are set here."""
    output: TopicOutput | None = None
    """Replaces those fields of the group's ``output`` that are set here, which define what objects
    hold. With another ``format``, ``options`` are only those that are set here.
    """
    compact: TopicCompact | None = None
    """Replaces those fields of the group's ``compact`` that are set here. If the group has none,
    only the objects of these topics are merged.
    """
