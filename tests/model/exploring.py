"""Every state of a small model, the nearest first, and the shortest story of what must never be."""

import time
from collections import deque
from collections.abc import Callable, Hashable, Iterable, Mapping, Sequence
from dataclasses import dataclass, fields
from enum import StrEnum
from typing import Any, Protocol, TypeVar

World = TypeVar("World", bound=Hashable)


@dataclass(frozen=True)
class Result:
    """How many states a search found, and the shortest story of a harm."""

    states: int
    harm: StrEnum | None = None
    story: Sequence[str] = ()


class Variant(Protocol):
    """Something without one rule, and what comes of it."""

    @property
    def instead(self) -> str:
        """What is done instead of following the rule."""
        ...

    @property
    def rules(self) -> Any:
        """A dataclass with a flag for each rule."""
        ...

    @property
    def harm(self) -> StrEnum:
        """What comes of it."""
        ...


def explore(
    begin: World,
    steps: Callable[[World], Iterable[tuple[str, World | StrEnum]]],
    harm: Callable[[World], StrEnum | None],
) -> Result:
    """Search every state that may follow, the nearest first.

    Args:
        steps: what each step that may come next is, in words, and the state or the harm after it.
        harm: what is wrong with a state.
    """
    came_from: dict[World, tuple[World, str] | None] = {begin: None}
    ahead = deque([begin])
    while ahead:
        world = ahead.popleft()
        if found := harm(world):
            return Result(len(came_from), found, _story(came_from, world))
        for text, after in steps(world):
            if isinstance(after, StrEnum):
                return Result(len(came_from), after, (*_story(came_from, world), text))
            if after not in came_from:
                came_from[after] = (world, text)
                ahead.append(after)
    return Result(len(came_from))


def _story(came_from: Mapping[World, tuple[World, str] | None], to: World) -> tuple[str, ...]:
    way: list[str] = []
    while (step := came_from[to]) is not None:
        to, text = step
        way.append(text)
    return tuple(reversed(way))


V = TypeVar("V", bound=Variant)


def show(
    title: str,
    worlds: Mapping[str, Callable[[], Result]],
    variants: Mapping[str, V],
    without: Callable[[V], Result],
) -> int:
    """Print what is found with all rules, and what comes of each variant; the exit code.

    Args:
        worlds: searches with all rules, by name.
        without: the search of a variant.
    """
    print(f"\n{title}:\n")
    is_sound = True
    for name, search in worlds.items():
        is_sound &= _holds(name, search)
    for name, variant in variants.items():
        is_sound &= _is_necessary(name, variant, without(variant))
    return 0 if is_sound else 1


def unshown(rules: type[Any], variants: Iterable[Variant]) -> set[str]:
    """The names of rules without a variant that leaves out only this one."""
    right = rules()
    left_out = [
        {f.name for f in fields(rules) if getattr(v.rules, f.name) != getattr(right, f.name)}
        for v in variants
    ]
    alone = {name for names in left_out if len(names) == 1 for name in names}
    return {field.name for field in fields(rules)} - alone


def _holds(name: str, search: Callable[[], Result]) -> bool:
    began = time.monotonic()
    result = search()
    seconds = time.monotonic() - began
    found = f"{result.harm or 'holds':12}{result.states:>9,} states {seconds:6.1f} s"
    print(f"  {name:36}{found}", *result.story, sep="\n     ", flush=True)
    return result.harm is None


def _is_necessary(name: str, variant: Variant, result: Result) -> bool:
    print(f"\n{name}\n  instead: {variant.instead}\n  {result.harm or 'NOTHING HAPPENS'}")
    print(*(f"     {number}. {text}" for number, text in enumerate(result.story, 1)), sep="\n")
    return result.harm is variant.harm
