"""Builds msgspec Struct types that extract only the wanted paths of a JSON or MessagePack object.

The paths ``("meta", "ts")`` and ``("id",)`` give ``Struct(f0: Struct(f0: T), f1: T)``, where each
field is renamed to its name in the payload. Two paths where one contains the other
(``("meta",)`` and ``("meta", "ts")``) cannot be in one type; the second goes to another layer,
which decodes the payload once more.
"""

import re
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from operator import attrgetter
from typing import Any, TypeAlias

import msgspec
import numpy as np

from landfall.pipeline.decoders import Path
from landfall.pipeline.records import Int64s

Tree: TypeAlias = dict[str, "Tree | StructLeaf"]

_NAMEABLE = re.compile(r'[^"\\\x00-\x1f]*')
"""Names that JSON writes without escapes; msgspec refuses all other names of Struct fields."""


@dataclass(frozen=True, eq=False)
class StructLeaf:
    """One wanted value: its path, and the type msgspec must find there, which always allows null.

    Compared by identity: two columns of one path and type are still two leaves.
    """

    path: Path
    type: Any = object

    @property
    def nameable(self) -> bool:
        """Return whether Struct fields can have the names in this path."""
        return all(_NAMEABLE.fullmatch(part) for part in self.path)


@dataclass(frozen=True)
class Layer:
    """Leaves that one Struct type holds.

    Attributes:
        leaves: for each leaf the chain of Struct attributes that leads to it.
        ints: decodes payloads in which every leaf is an integer; None if a leaf has another type.
        any: decodes payloads in which every leaf has its type, is null or is absent.
        nothing: what ``any`` makes of an object without fields.
    """

    leaves: Mapping[StructLeaf, tuple[str, ...]]
    ints: Any
    any: Any
    nothing: object

    def columns(self, objects: Sequence[object]) -> dict[StructLeaf, list[object]]:
        """Return the values of every leaf, one per object; None if it is absent."""
        return {leaf: _column(objects, names) for leaf, names in self.leaves.items()}

    def int_columns(self, objects: Sequence[object]) -> dict[StructLeaf, Int64s]:
        """Return the values of every leaf of objects that ``ints`` decoded.

        Raises:
            OverflowError: an integer does not fit in int64.
        """
        return {
            leaf: np.fromiter(map(attrgetter(".".join(names)), objects), np.int64, len(objects))
            for leaf, names in self.leaves.items()
        }


def layers(leaves: Sequence[StructLeaf], decoder: Callable[[Any], Any]) -> tuple[Layer, ...]:
    """Return as few layers as hold all leaves; ``decoder`` makes a msgspec decoder of a type.

    Without leaves there is still one layer, because decoding with it validates the payloads.
    """
    groups: list[_LeafGroup] = [_LeafGroup()]
    for leaf in leaves:
        group = next((group for group in groups if not group.overlaps(leaf.path)), None)
        if group is None:
            groups.append(group := _LeafGroup())
        group.add(leaf)
    return tuple(_layer(_tree(group.leaves), group.leaves, decoder) for group in groups)


@dataclass
class _LeafGroup:
    """Leaves whose paths do not contain each other, and their paths with all that contain them."""

    leaves: list[StructLeaf] = field(default_factory=list)
    _paths: set[Path] = field(default_factory=set)
    _above: set[Path] = field(default_factory=set)

    def overlaps(self, path: Path) -> bool:
        """Return whether a path contains one of these, is inside of one, or is one."""
        return path in self._above or any(above in self._paths for above in _above(path))

    def add(self, leaf: StructLeaf) -> None:
        """Take a leaf that overlaps none."""
        self.leaves.append(leaf)
        self._paths.add(leaf.path)
        self._above.update(_above(leaf.path))


def _above(path: Path) -> list[Path]:
    """A path, and those that contain it but for the empty one."""
    return [path[:length] for length in range(1, len(path) + 1)]


def _tree(leaves: Sequence[StructLeaf]) -> Tree:
    tree: Tree = {}
    for leaf in leaves:
        branch = tree
        for part in leaf.path[:-1]:
            inner = branch.setdefault(part, {})
            assert not isinstance(inner, StructLeaf), "paths in one layer do not overlap"
            branch = inner
        branch[leaf.path[-1]] = leaf
    return tree


def _layer(tree: Tree, leaves: Sequence[StructLeaf], decoder: Callable[[Any], Any]) -> Layer:
    all_any = all(leaf.type is object for leaf in leaves)
    of_any = _struct(tree, ints=False)
    chains = dict(_chains(tree))
    return Layer(
        {leaf: chains[leaf] for leaf in leaves},
        decoder(_struct(tree, ints=True)) if all_any else None,
        decoder(of_any),
        of_any(),
    )


def _chains(
    tree: Tree, above: tuple[str, ...] = ()
) -> Iterator[tuple[StructLeaf, tuple[str, ...]]]:
    """Each leaf with the chain of Struct attributes that leads to it."""
    for i, node in enumerate(tree.values()):
        chain = (*above, f"f{i}")
        if isinstance(node, StructLeaf):
            yield node, chain
        else:
            yield from _chains(node, chain)


def _struct(tree: Tree, *, ints: bool) -> type[msgspec.Struct]:
    # With ``ints`` every field is required and an integer, so the fast way fails at the first row
    # that is different; otherwise every field is optional.
    fields: list[Any] = []
    for i, node in enumerate(tree.values()):
        kind: Any = (
            (int if ints else node.type)
            if isinstance(node, StructLeaf)
            else _struct(node, ints=ints)
        )
        inner = kind if ints or isinstance(node, StructLeaf) else kind | None
        fields.append((f"f{i}", inner) if ints else (f"f{i}", inner, None))
    rename: Mapping[str, str] = {f"f{i}": name for i, name in enumerate(tree)}
    # No garbage collection: a Struct made from a payload cannot contain a cycle.
    return msgspec.defstruct("Wanted", fields, rename=rename, gc=False)


def _column(objects: Sequence[object], names: Sequence[str]) -> list[object]:
    column = list(map(attrgetter(names[0]), objects))
    for name in names[1:]:
        step = attrgetter(name)
        column = [None if value is None else step(value) for value in column]
    return column
