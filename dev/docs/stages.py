"""The stages of a change, as picture and table, from the operator's rollout table.

Where each arrow runs is decided here, by hand; which arrows exist, and their labels, comes from the
table. A transition without an arrow is an error, so that the picture cannot become outdated.
"""

import inspect
import re
from collections.abc import Iterator, Mapping
from dataclasses import dataclass

from dev.docs.drawing import AMBER, BLUE, GREEN, GREY, MUTED, NOTE, Box, Drawing, Style, Tone
from landfall_operator.api.status import Stage
from landfall_operator.core import rollout
from landfall_operator.core.rollout import TABLE, RolloutEvent

SIZE = (104, 34)
AT: Mapping[Stage, tuple[float, float]] = {
    Stage.SETTLED: (30, 240),
    Stage.TRYING: (30, 40),
    Stage.WARMING: (208, 148),
    Stage.YIELDING: (386, 148),
    Stage.DRAINING: (297, 332),
    Stage.OPENING: (548, 240),
    Stage.WATCHING: (726, 240),
    Stage.SUSPENDING: (120, 458),
    Stage.SUSPENDED: (344, 458),
    Stage.DELETING: (502, 458),
    Stage.DELETED: (726, 458),
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
    """The path of an arrow from one of ``sources`` to ``target``, and the place of its label."""

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
    _way("Settled", Stage.TRYING, "M60 240V76", (66, 112), "start"),
    _way("Settled", Stage.WARMING, "M96 240V165H206", (150, 158)),
    _way("Settled", Stage.DRAINING, "M82 274V349H295", (180, 342)),
    _way("Settled", Stage.OPENING, "M134 257H546", (450, 251)),
    _way("Trying", Stage.WARMING, "M134 68H222V146", (140, 62), "start"),
    _way("Trying", Stage.DRAINING, "M28 57H10V358H295", (180, 373)),
    _way("Trying", Stage.WATCHING, "M82 40V24H822V238", (520, 17)),
    _way("Warming", Stage.TRYING, "M206 176H128V76", (116, 188), "start"),
    _way("Opening Watching", Stage.TRYING, "M720 228V48H136", (700, 42), "end"),
    _way("Warming", Stage.YIELDING, "M312 165H384", (348, 158)),
    _way("Warming", Stage.WATCHING, "M245 148V96H796V238", (520, 89)),
    _way("Warming", Stage.DRAINING, "M270 182C270 270 310 260 322 330", (300, 310), "end"),
    _way("Draining", Stage.WARMING, "M355 332C362 270 312 240 302 184", (362, 310), "start"),
    _way("Yielding", Stage.WATCHING, "M490 154H770V238", (640, 168), "start"),
    _way("Yielding", Stage.OPENING, "M490 165H600V238", (608, 210), "start"),
    _way("Draining", Stage.OPENING, "M401 349H600V276", (482, 342)),
    _way("Opening", Stage.WATCHING, "M652 257H724", (688, 250)),
    _way("Opening Watching", Stage.WARMING, "M745 228V126H275V146", (712, 119), "end"),
    _way("Opening Watching", Stage.DRAINING, "M745 286V382H349V368", (690, 396), "middle"),
    _way("Watching", Stage.SETTLED, "M800 274V420H20V257H28", (796, 414), "end"),
    _way("Suspending", Stage.SUSPENDED, "M224 475H342", (283, 469)),
    _way("Suspending Suspended", Stage.OPENING, "M284 448V434H574V276", (516, 449)),
    _way("Deleting", Stage.DELETED, "M606 475H724", (665, 469)),
)


def page() -> str:
    """``docs/reference/stages.md``."""
    return "\n".join([HEAD, *_stages(), EVENTS, *_events()]) + "\n"


HEAD = """# Stages of a change

<!-- Made by `make crds` from the operator's rollout table. -->

`status.rollout.stage` shows how far a group is in a change of its driver. An upgrade by `HandOver`
goes through Warming, Yielding, Opening and Watching; by `Shadow` or `Canary` it begins with Trying;
an upgrade by `Recreate` goes through Draining, Opening and Watching; a rollback takes the same way
with the previous revision as the target. What a user sees of it is in
[Change a group](../guides/change-a-group.md).

![The stages of a change and what leads from one to the next](../images/stages.svg)

From every stage of a running group, `Suspend` leads to Suspending. From every stage, `Delete`
leads to Deleting. The picture leaves these arrows out, and changes that begin a stage again; the
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
    """Yield the docstring after each member of the enumeration."""
    texts = re.findall(
        r'    \w+ = "(\w+)"\n    """(.*?)"""', inspect.getsource(rollout.RolloutEvent), re.DOTALL
    )
    if [name for name, _ in texts] != [str(event) for event in RolloutEvent]:
        raise ValueError("an event has no docstring below it")
    for name, text in texts:
        yield f"| {name} | {' '.join(text.replace('``', '`').split())} |"


def picture() -> str:
    """``docs/images/stages.svg``."""
    drawing = Drawing(
        870,
        540,
        "Stages of a change: boxes are stages, arrows are events that lead from one to the next",
    )
    drawing.box(Box(538, 228, 302, 58), GREY, dashed=True)
    drawing.box(Box(110, 448, 348, 54), GREY, dashed=True)
    ways = list(_drawn())
    for way, _ in ways:
        back = (
            way.target in {Stage.SETTLED, Stage.TRYING, Stage.WARMING, Stage.DRAINING}
            and not way.sources & {Stage.SETTLED, Stage.TRYING}
        ) or (way.target is Stage.WATCHING and Stage.OPENING not in way.sources)
        drawing.path(way.path, GREY if back else BLUE, dashed=back)
    for way, events in ways:
        style = Style(size=11, anchor=way.anchor, color=MUTED, halo=True)
        drawing.words(*way.label, " · ".join(events), style)
    for stage in TABLE:
        drawing.labelled(Box(*AT[stage], *SIZE), [stage], TONES.get(stage, BLUE))
    drawing.words(30, 526, "solid: the way forward  ·  dashed: back to an earlier stage", NOTE)
    drawing.words(
        840, 526, "from every stage: Suspend → Suspending, Delete → Deleting", RIGHT_MUTED
    )
    return drawing.svg()


RIGHT_MUTED = Style(size=11.5, anchor="end", color=MUTED)


def _drawn() -> Iterator[tuple[Way, list[RolloutEvent]]]:
    """Every transition with its events, in the order of the table.

    Raises:
        ValueError: the arrows drawn are not exactly the transitions of the table.
    """
    wanted = {
        (stage, after)
        for stage, row in TABLE.items()
        for event, after in row.items()
        if stage is not after and event not in {RolloutEvent.DELETE, RolloutEvent.SUSPEND}
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
