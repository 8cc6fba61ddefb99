"""Struct types made for wanted paths, so that msgspec turns only the wanted parts of a JSON object into Python values.

Wanted ``("meta", "ts")`` and ``("id",)`` make ``Struct(f0: Struct(f0: T), f1: T)`` with the fields
renamed to what the JSON calls them. Paths that cannot stand in one type (``("meta",)`` beside
``("meta", "ts")``) go to a second layer, which decodes the payload once more.
"""

import re
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from operator import attrgetter
from typing import Any, TypeAlias

import msgspec
import numpy as np

from landfall.pipeline.decoders import Path
from landfall.pipeline.records import Int64s

Tree: TypeAlias = dict[str, "Tree | Leaf"]

_NAMEABLE = re.compile(r'[^"\\\x00-\x1f]*')


@dataclass(frozen=True, eq=False)
class Leaf:
    """One wanted value: where it stands, and what msgspec must find there; every type allows null."""

    path: Path
    type: Any = object

    @property
    def nameable(self) -> bool:
        """Whether a Struct's field can be called so in JSON."""
        return all(_NAMEABLE.fullmatch(part) for part in self.path)


@dataclass(frozen=True)
class Layer:
    """Leaves that one Struct type holds.

    Attributes:
        leaves: per leaf, the Struct's attributes that lead there.
        ints: decodes payloads whose every leaf is an integer; None when a leaf asks for another
            type.
        any: decodes every payload whose leaves are of their types, null or absent.
        nothing: what ``any`` makes of ``{}``.
    """

    leaves: Mapping[Leaf, tuple[str, ...]]
    ints: msgspec.json.Decoder[Any] | None
    any: msgspec.json.Decoder[Any]
    nothing: object

    def columns(self, objects: Sequence[object]) -> dict[Leaf, list[object]]:
        """The values of every leaf, a row per object; None where absent, or below what is."""
        return {leaf: _column(objects, names) for leaf, names in self.leaves.items()}

    def int_columns(self, objects: Sequence[object]) -> dict[Leaf, Int64s]:
        """The same for objects of ``ints``. Raises OverflowError if int64 cannot hold one."""
        return {
            leaf: np.fromiter(map(attrgetter(".".join(names)), objects), np.int64, len(objects))
            for leaf, names in self.leaves.items()
        }


def layers(leaves: Sequence[Leaf]) -> tuple[Layer, ...]:
    """As few layers as hold all leaves; one for no leaves, since payloads are to be checked anyway."""
    groups: list[list[Leaf]] = [[]]
    for leaf in leaves:
        for group in groups:
            if not any(_in_the_way(leaf.path, other.path) for other in group):
                group.append(leaf)
                break
        else:
            groups.append([leaf])
    return tuple(_layer(_tree(group), group) for group in groups)


def _in_the_way(path: Path, other: Path) -> bool:
    shorter = min(len(path), len(other))
    return path[:shorter] == other[:shorter]


def _tree(leaves: Sequence[Leaf]) -> Tree:
    tree: Tree = {}
    for leaf in leaves:
        branch = tree
        for part in leaf.path[:-1]:
            inner = branch.setdefault(part, {})
            assert not isinstance(inner, Leaf), "no leaf is in the way of another"
            branch = inner
        branch[leaf.path[-1]] = leaf
    return tree


def _layer(tree: Tree, leaves: Sequence[Leaf]) -> Layer:
    all_any = all(leaf.type is object for leaf in leaves)
    of_any = _struct(tree, ints=False)
    return Layer(
        {leaf: tuple(_names(tree, leaf.path)) for leaf in leaves},
        msgspec.json.Decoder(_struct(tree, ints=True)) if all_any else None,
        msgspec.json.Decoder(of_any),
        of_any(),
    )


def _names(tree: Tree, path: Path) -> list[str]:
    names = []
    for part in path:
        names.append(f"f{list(tree).index(part)}")
        branch = tree[part]
        tree = {} if isinstance(branch, Leaf) else branch
    return names


def _struct(tree: Tree, *, ints: bool) -> type[msgspec.Struct]:
    fields: list[Any] = []
    for i, node in enumerate(tree.values()):
        kind: Any = (
            (int if ints else node.type) if isinstance(node, Leaf) else _struct(node, ints=ints)
        )
        inner = kind if ints or isinstance(node, Leaf) else kind | None
        fields.append((f"f{i}", inner) if ints else (f"f{i}", inner, None))
    rename: Mapping[str, str] = {f"f{i}": name for i, name in enumerate(tree)}
    return msgspec.defstruct("Wanted", fields, rename=rename, gc=False)


def _column(objects: Sequence[object], names: Sequence[str]) -> list[object]:
    column = list(map(attrgetter(names[0]), objects))
    for name in names[1:]:
        step = attrgetter(name)
        column = [None if value is None else step(value) for value in column]
    return column
