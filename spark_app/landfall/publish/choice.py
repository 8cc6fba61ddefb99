"""The objects that the options ``startAt`` and ``skip`` leave out of tables.

The options name what was landed. An object that replaces landed objects is left out if all its rows
come from objects that are left out; if only some do, a table without any of these rows stops.
"""

from collections.abc import Iterable, Mapping
from dataclasses import dataclass, replace
from typing import Annotated, Literal

import msgspec

from landfall.api.spec.publish import PublisherEntry
from landfall.publish import Sources, Stretch, VisibleObject
from landfall.publish.replaced_files import PartlyLeftOut


@dataclass(frozen=True)
class TableChoice:
    """The choice of objects that are published to tables.

    Attributes:
        start: what was landed in earlier slots is not published.
        skip: keys of objects that are not published.
    """

    start: int = 0
    skip: frozenset[str] = frozenset()

    @classmethod
    def of_entry(cls, entry: PublisherEntry, root: str) -> "TableChoice":
        """Return the choice of a publisher whose options were not read by its type.

        Args:
            entry: of ``spec.publish``. A plug-in may have such options with other values.
            root: the URL of the output root.
        """
        start, skip = entry.options.get("startAt"), entry.options.get("skip")
        names = skip if isinstance(skip, list | tuple) else ()
        return cls(start if isinstance(start, int) else 0, skipped(map(str, names), root))

    def leaves_out(self, key: str, slot: int) -> bool:
        """Return whether an object that this slot landed is left out."""
        return slot < self.start or key in self.skip

    @property
    def has_all(self) -> bool:
        """Return whether no object is left out."""
        return not (self.start or self.skip)

    def chosen(self, objects: Iterable[VisibleObject]) -> tuple[VisibleObject, ...]:
        """Return the objects that are published to a table that has nothing yet.

        Raises:
            PartlyLeftOut: one of them.
        """
        found = tuple(objects)
        if self.has_all:
            return found
        unwanted, mixed = self._parted({o.key: o.sources for o in found if o.sources})
        if mixed:
            raise PartlyLeftOut(min(mixed))
        return tuple(o for o in found if o.key not in unwanted)

    def marked(self, stretch: Stretch) -> Stretch:
        """Return a stretch with what is left out of it; see ``Stretch.unwanted``."""
        if self.has_all:
            return stretch
        sources = {o.key: o.sources for o in stretch.objects if o.sources}
        for replaced in stretch.replaced:
            sources |= {o.key: replaced.sources[o.key] for o in replaced.retired}
        unwanted, mixed = self._parted(sources)
        return replace(stretch, unwanted=unwanted, mixed=mixed)

    def _parted(self, objects: Mapping[str, Sources]) -> tuple[frozenset[str], frozenset[str]]:
        """The keys of objects whose rows are all left out, and of objects with both kinds."""
        out = {
            key: [self.leaves_out(source, slot) for source, slot in of().items()]
            for key, of in objects.items()
        }
        unwanted = frozenset(key for key, flags in out.items() if all(flags))
        return unwanted, frozenset(key for key, flags in out.items() if any(flags)) - unwanted


class ChoiceOptions(msgspec.Struct, forbid_unknown_fields=True, rename="camel", kw_only=True):
    """Options of types that fill tables, by which objects are left out of all of them."""

    start_at: Literal["Beginning"] | Annotated[int, msgspec.Meta(ge=0)] = "Beginning"
    skip: Annotated[tuple[str, ...], msgspec.Meta(max_length=1000)] = ()

    def choice(self, root: str) -> TableChoice:
        """Return the choice by the options; ``root`` is the URL of the output root."""
        start = 0 if self.start_at == "Beginning" else self.start_at
        return TableChoice(start, skipped(self.skip, root))


def skipped(objects: Iterable[str], root: str) -> frozenset[str]:
    """The keys of objects that are named by key or by URL."""
    return frozenset(name.removeprefix(f"{root.rstrip('/')}/") for name in objects)
