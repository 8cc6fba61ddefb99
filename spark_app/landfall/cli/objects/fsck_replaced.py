"""The part of ``landfall fsck`` about objects that take the place of others."""

from collections.abc import Iterator
from dataclasses import dataclass

from landfall.checks import Finding, Invariant
from landfall.checks.replacements import check_replace, read_list
from landfall.checks.stored import listed_schemas, listed_specs
from landfall.cli.objects.named_objects import NamedObjects
from landfall.ledger import Replace, Replacement, State
from landfall.ledger.replacement_lists import Replaced
from landfall.store import Slots


@dataclass(frozen=True)
class Named:
    """What a ledger names: objects, and by their SHA-256 schemas and specs with the first slot."""

    objects: NamedObjects
    schemas: dict[str, int]
    specs: dict[str, int]


def check_replaced(
    slots: Slots, group: str, named: Named, before: State, record: Replace
) -> Iterator[Finding]:
    """Read the list that a REPLACE names, and take it over into what is named.

    Raises:
        Retry: the store does not answer.
    """
    slot, names = record.header.seq, named.objects
    listed = read_list(record.listed, slot, slots.read(record.listed.key))
    if isinstance(listed, Finding):
        yield listed
        return
    if record.again:  # the former slot has named the rest
        yield from _decide_again(names, record, listed)
        return
    if record.instead in before.replacing:
        yield from _give_up(slots, names, before.replacing[record.instead].listed, slot)
    for schema in listed_schemas(listed):
        named.schemas.setdefault(schema, slot)
    for spec in listed_specs(listed):
        named.specs.setdefault(spec, slot)
    yield from check_replace(group, before, record, listed, names.find)
    yield from _replace(names, listed, slot)


def _replace(names: NamedObjects, listed: Replaced, slot: int) -> Iterator[Finding]:
    """Expect the new objects, and the old ones no more once the REPLACE is applied."""
    for retiring in listed.retire:
        names.retire(retiring.landed.upload.key, slot)
    for new in listed.objects:
        earlier = names.add(slot, new.landed)
        if earlier is not None:
            key = new.landed.upload.key
            got = f"slot {earlier} names it already"
            yield Finding(Invariant.I4, "a key that no other record names", got, slot, key=key)


def _decide_again(names: NamedObjects, record: Replace, listed: Replaced) -> Iterator[Finding]:
    """Take note that a REPLACE is decided in a later slot; the fold has compared the lists."""
    slot = record.header.seq
    if listed.folders != {*record.folders}:
        other = min(listed.folders ^ {*record.folders})
        got = f"others, such as {other}"
        yield Finding(Invariant.I13, "the folders of the objects", got, slot)
    for retiring in listed.retire:
        names.retire(retiring.landed.upload.key, slot)
    for new in listed.objects:
        names.decide_again(new.landed.upload.key, slot)


def _give_up(
    slots: Slots, names: NamedObjects, given_up: Replacement, slot: int
) -> Iterator[Finding]:
    """Expect the new objects of a REPLACE no more; those that were to retire have not."""
    listed = read_list(given_up, slot, slots.read(given_up.key))
    if isinstance(listed, Finding):
        yield listed
        return
    for retiring in listed.retire:
        names.retire(retiring.landed.upload.key, -1)
    for new in listed.objects:
        names.retire(new.landed.upload.key, slot)
