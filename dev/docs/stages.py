"""The stages of a change, as picture and table, from the operator's rollout table.

Where each arrow runs is decided here, by hand; which arrows there are and what is written on them
comes from the table. A transition that no arrow draws is an error, so that the picture cannot fall
behind the table.
"""

import inspect
import re
from collections.abc import Iterator, Mapping
from dataclasses import dataclass

from dev.docs.drawing import AMBER, BLUE, GREEN, GREY, MUTED, NOTE, Box, Drawing, Style, Tone
from landfall_operator.api.status import Stage
from landfall_operator.core import rollout
from landfall_operator.core.rollout import TABLE, Event

SIZE = (104, 34)
AT: Mapping[Stage, tuple[float, float]] = {
    Stage.SETTLED: (30, 170),
    Stage.WARMING: (208, 78),
    Stage.YIELDING: (386, 78),
    Stage.DRAINING: (297, 262),
    Stage.OPENING: (548, 170),
    Stage.WATCHING: (726, 170),
    Stage.SUSPENDING: (120, 388),
    Stage.SUSPENDED: (344, 388),
    Stage.DELETING: (502, 388),
    Stage.DELETED: (726, 388),
}
"""Top left corner of each stage's box."""
TONES: Mapping[Stage, Tone] = {
    Stage.SETTLED: GREEN,
    Stage.WATCHING: GREEN,
    Stage.SUSPENDED: GREY,
    Stage.DELETED: GREY,
    Stage.SUSPENDING: AMBER,
    Stage.DELETING: AMBER,
}


@dataclass(frozen=True, slots=True)
class Way:
    """How an arrow runs from one of ``sources`` to ``target``, and where its words are."""

    sources: frozenset[Stage]
    target: Stage
    path: str
    label: tuple[float, float]
    anchor: str = "middle"
    below: bool = False


def _way(
    sources: str, target: Stage, path: str, label: tuple[float, float], anchor: str = "middle"
) -> Way:
    return Way(frozenset(map(Stage, sources.split())), target, path, label, anchor)


WAYS = (
    _way("Settled", Stage.WARMING, "M82 170V95H206", (134, 88)),
    _way("Settled", Stage.DRAINING, "M82 204V279H295", (180, 272)),
    _way("Settled", Stage.OPENING, "M134 187H546", (450, 181)),
    _way("Warming", Stage.YIELDING, "M312 95H384", (348, 88)),
    _way("Warming", Stage.WATCHING, "M230 78V26H816V168", (520, 19)),
    _way("Warming", Stage.DRAINING, "M270 112C270 200 310 190 322 260", (300, 240), "end"),
    _way("Draining", Stage.WARMING, "M355 262C362 200 312 170 302 114", (362, 240), "start"),
    _way("Yielding", Stage.WATCHING, "M490 84H785V168", (640, 98), "start"),
    _way("Yielding", Stage.OPENING, "M490 95H600V168", (608, 140), "start"),
    _way("Draining", Stage.OPENING, "M401 279H600V206", (482, 272)),
    _way("Opening", Stage.WATCHING, "M652 187H724", (688, 180)),
    _way("Opening Watching", Stage.WARMING, "M745 158V56H260V76", (745, 49), "end"),
    _way("Opening Watching", Stage.DRAINING, "M745 216V312H349V298", (690, 326), "middle"),
    _way("Watching", Stage.SETTLED, "M800 204V350H20V187H28", (796, 344), "end"),
    _way("Suspending", Stage.SUSPENDED, "M224 405H342", (283, 399)),
    _way("Suspending Suspended", Stage.OPENING, "M284 378V364H574V206", (516, 379)),
    _way("Deleting", Stage.DELETED, "M606 405H724", (665, 399)),
)


def page() -> str:
    """``docs/reference/stages.md``."""
    return "\n".join([HEAD, *_stages(), EVENTS, *_events()]) + "\n"


HEAD = """# Stages of a change

<!-- Made by `make crds` from the operator's rollout table. -->

`status.rollout.stage` says how far a group is in a change of its driver. An upgrade by `HandOver`
goes through Warming, Yielding, Opening and Watching; an upgrade by `Recreate` goes through
Draining, Opening and Watching; a rollback takes the same way with the previous revision as the
target. What a user sees of it is in [Change a group](../guides/change-a-group.md).

![The stages of a change and what leads from one to the next](../images/stages.svg)

From every stage of a running group, `Suspend` leads to Suspending. From every stage, `Delete`
leads to Deleting. The picture leaves these arrows out, and changes that begin a stage anew; the
table has all of them.

The order of the rows of one stage is their priority: if two events hold at once, the upper one
counts.

| stage | event | next stage |
|---|---|---|"""

EVENTS = """
## Events

| event | what holds |
|---|---|"""


def _stages() -> Iterator[str]:
    for stage, row in TABLE.items():
        if not row:
            yield f"| {stage} | | (the end) |"
        for event, after in row.items():
            yield f"| {stage} | {event} | {after} |"


def _events() -> Iterator[str]:
    """What follows each member of the enumeration as its docstring."""
    texts = re.findall(
        r'    \w+ = "(\w+)"\n    """(.*?)"""', inspect.getsource(rollout.Event), re.DOTALL
    )
    if [name for name, _ in texts] != [str(event) for event in Event]:
        raise ValueError("an event has no docstring below it")
    for name, text in texts:
        yield f"| {name} | {' '.join(text.replace('``', '`').split())} |"


def picture() -> str:
    """``docs/images/stages.svg``."""
    drawing = Drawing(
        870,
        470,
        "Stages of a change: boxes are stages, arrows are events that lead from one to the next",
    )
    drawing.box(Box(538, 158, 302, 58), GREY, dashed=True)
    drawing.box(Box(110, 378, 348, 54), GREY, dashed=True)
    ways = list(_drawn())
    for way, _ in ways:
        back = (
            way.target in {Stage.SETTLED, Stage.WARMING, Stage.DRAINING}
            and Stage.SETTLED not in way.sources
        ) or (way.target is Stage.WATCHING and Stage.OPENING not in way.sources)
        drawing.path(way.path, GREY if back else BLUE, dashed=back)
    for way, events in ways:
        style = Style(size=11, anchor=way.anchor, color=MUTED, halo=True)
        drawing.words(*way.label, " · ".join(events), style)
    for stage in TABLE:
        drawing.labelled(Box(*AT[stage], *SIZE), [stage], TONES.get(stage, BLUE))
    drawing.words(30, 456, "solid: the way forward  ·  dashed: back to an earlier stage", NOTE)
    drawing.words(
        840, 456, "from every stage: Suspend → Suspending, Delete → Deleting", RIGHT_MUTED
    )
    return drawing.svg()


RIGHT_MUTED = Style(size=11.5, anchor="end", color=MUTED)


def _drawn() -> Iterator[tuple[Way, list[Event]]]:
    """Every way with the events of it, in the order of the table.

    Raises:
        ValueError: the arrows drawn are not exactly the transitions of the table.
    """
    wanted = {
        (stage, after)
        for stage, row in TABLE.items()
        for event, after in row.items()
        if stage is not after and event not in {Event.DELETE, Event.SUSPEND}
    }
    drawn = {(source, way.target) for way in WAYS for source in way.sources}
    if wanted != drawn:
        raise ValueError(
            f"the picture of the stages does not draw exactly the table: {sorted(wanted ^ drawn)}"
        )
    for way in WAYS:
        labels = {
            tuple(e for e, after in TABLE[source].items() if after is way.target)
            for source in way.sources
        }
        if len(labels) > 1:
            raise ValueError(
                f"stages share an arrow to {way.target}, but not its events: {sorted(labels)}"
            )
        yield way, list(labels.pop())
