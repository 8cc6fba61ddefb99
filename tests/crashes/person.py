"""Whoever is on call in a schedule: decides what no driver may, as the command line does."""

from collections.abc import Callable
from datetime import timedelta
from functools import partial
from typing import TYPE_CHECKING

from landfall import ledger
from landfall.api.verbs import ReplayRequest
from landfall.driver.process.loop import Driver
from landfall.errors import Reason
from landfall.lane import LaneWriter, OpenRequest
from landfall.ledger import Decision, Header, Permission, Record, State
from landfall.ledger.decisions import topic_partition
from landfall.ledger.offsets import OffsetRange, Slice

if TYPE_CHECKING:
    from tests.crashes.machine import Schedule

Make = Callable[[Header], Record]

ASKS_FOR_REPLAY = 0.7
"""How often a driver that has opened the lane is asked to land dead letters again."""


def decide(schedule: "Schedule", *, finally_: bool) -> list[str]:
    """Open the lane, record decisions, and give it up; returns what was decided.

    Nothing is recorded that nothing asks for. In the end every block is cleared for good; before
    that, a person may as well let a driver try once more, or do nothing yet.
    """
    state = schedule.lane.read()
    records = _records(schedule, state, finally_=finally_)
    if not records:
        return []
    name = f"person-{next(schedule.names)}"
    request = OpenRequest(name, state.generation, "test")
    writer = LaneWriter.open(schedule.lane, request, schedule.clock)
    for _, make in records:
        writer.append(make)
    writer.append(lambda h: ledger.Yield(header=h, reason="decided"))
    return [what for what, _ in records]


def asked(schedule: "Schedule", driver: Driver) -> Driver:
    """The driver, perhaps after a request to land dead letters again, whose answer nobody reads."""
    if schedule.luck.letters and not schedule.calm and schedule.dice.random() < ASKS_FOR_REPLAY:
        for topic in ("a", "b"):
            schedule.say(f"{driver.writer.state.writer} is asked to replay {topic}")
            request = ReplayRequest(who="on call", why="mended", topic=topic)
            driver._requests.pending.submit(request, timedelta(0))
    return driver


def ask_for_replay(schedule: "Schedule") -> None:
    """Ask each driver that runs, perhaps, to land dead letters again."""
    for process in schedule.processes:
        if not (process.dead or process.ended) and (driver := process.contender._driver):
            asked(schedule, driver)


def _records(schedule: "Schedule", state: State, *, finally_: bool) -> list[tuple[str, Make]]:
    decided = Decision("skip", "on call", "a test", "2126-11-21T12:00:00Z")
    found: list[tuple[str, Make]] = []
    for tp, entry in sorted(state.blocked.items()):
        choice = "lose" if finally_ else schedule.dice.choice(("lose", "unblock", "wait"))
        if entry.reason is Reason.OBJECT_LOST and choice == "lose":
            for slot, objects in sorted(state.missing.items()):
                own = tuple(o for o in objects if topic_partition(o.upload.key) == tp)
                lost = partial(ledger.Lost, commit=slot, objects=own, decision=decided)
                found += [(f"LOST {tp} of slot {slot}", _of(lost))] * bool(own)
        elif choice == "unblock":
            unblock = partial(ledger.Unblock, entries=(Permission(tp),), decision=decided)
            found.append((f"UNBLOCK {tp}", _of(unblock)))
    for tp in sorted(state.checkpoint):
        at, start = state.checkpoint[tp], schedule.log_start(tp)
        if start > at and (finally_ or schedule.dice.random() < 0.5):
            piece = Slice(tp, OffsetRange(at, start))
            hole = partial(ledger.Hole, piece=piece, reason="expired", decision=decided)
            found.append((f"HOLE {piece}", _of(hole)))
    return found


def _of(record: Callable[..., Record]) -> Make:
    return lambda header: record(header=header)
