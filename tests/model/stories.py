"""Prints counterexamples as stories: one line per step, in plain sentences."""

from collections.abc import Iterator

from tests.model.chain import BLOCK, COMMIT, LOST, REPAIR, bits
from tests.model.rules import Harm
from tests.model.search import Counterexample, HarmFinder, Result
from tests.model.steps import Steps
from tests.model.verbs import VERBS
from tests.model.world import Event, World


def story(result: Result) -> Iterator[str]:
    """The lines of a counterexample's story; none if there is no counterexample."""
    found, model = result.counterexample, result.model
    if found is None:
        return
    yield from _numbered(model, found.steps, 1)
    if found.harm is Harm.LOST:
        driver = len(found.after.drivers)
        steps, end = HarmFinder(model).way_alone(found.after, driver)
        yield f"     from here on nothing fails; only D{driver + 1} is still running:"
        yield from _numbered(model, steps, len(found.steps) + 1)
        yield f"  => {found.harm}: {_missing(model, end)}"
    else:
        yield f"  => {found.harm}: {_evidence(model, found)}"


def _numbered(model: Steps, steps: tuple[Event, ...], first: int) -> Iterator[str]:
    for number, event in enumerate(steps, first):
        who = f"D{event.who + 1}" if event.who >= 0 else "--"
        yield f"  {number:>2}  {who}  {' '.join(filter(None, (event.what, _about(model, event))))}"


def _about(model: Steps, event: Event) -> str:
    if event.slot >= 0:
        return _record(model, event.slot)
    uploads = (event.upload,) if event.upload >= 0 else bits(event.uploads)
    return ", ".join(_upload(model, u) for u in uploads)


def _record(model: Steps, number: int) -> str:
    slot = model.chains.slots[number]
    what = f"{slot.entry.kind}, slot {slot.seq}"
    if slot.entry.kind in VERBS:
        what = f"what a person decides with {slot.entry.kind!r}, slot {slot.seq}"
    if slot.entry.kind in {COMMIT, REPAIR, LOST, BLOCK}:
        what += f", of {_upload(model, slot.entry.about)}"
    through = slot.entry.applied_through
    return f"{what}, applied through {through}" if through >= 0 else what


def _upload(model: Steps, number: int) -> str:
    made = model.chains.uploads[number]
    incarnation = f" of the topic's incarnation {made.incarnation + 1}" if made.incarnation else ""
    return f"upload {number} ({_name(model, number)} with [{made.start}, {made.end}){incarnation})"


def _name(model: Steps, number: int) -> str:
    """The object's name, with fewer zeros."""
    made = model.chains.uploads[number]
    return f"{made.generation}_0_{made.start}"


def _missing(model: Steps, end: World) -> str:
    given_up = model.chains.views[end.tip].given_up & ~end.killed
    if given_up:
        uploads = ", ".join(_upload(model, u) for u in bits(given_up))
        return f"{uploads} is given up, which nothing outside had taken"
    lost = HarmFinder(model).unlanded(end)
    return (
        f"offset {', '.join(map(str, lost))} in no visible object, and no driver will complete one"
    )


def _evidence(model: Steps, found: Counterexample) -> str:
    gone = found.before.visible & ~found.after.visible
    if gone:
        (was,) = bits(gone)
        (now,) = bits(found.after.visible & model.chains.keys[was])
        return f"{_upload(model, was)} was visible, and was replaced by {_upload(model, now)}"
    visible = " and ".join(_upload(model, u) for u in bits(found.after.visible))
    return f"visible are {visible}" if visible else "nothing is visible yet"
