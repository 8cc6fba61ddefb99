"""Checks that the records before each FINALIZE and RUN prove it, from plain JSON.

A topic is complete up to a time only if every topic partition of it that was in the ledger then had
landed an event time that is later by the delay, or was drained at its checkpoint; and never up to
an earlier time than before. A RUN has ended only if each topic is left, or landed up to where its
range ends. See the guides "When an hour is complete" and "Landing by a schedule".
"""

from collections.abc import Iterator
from typing import Any

from landfall_audit import Fault, FaultKind

_TopicPartition = tuple[str, int]


class Horizons:
    """The topic partitions of a ledger, how far each has landed, and the horizons of topics."""

    def __init__(self) -> None:
        """Begin before the first slot."""
        self._latest: dict[_TopicPartition, int] = {}
        self._next: dict[_TopicPartition, int] = {}
        self._until: dict[str, int] = {}

    def add(self, record: Any) -> Iterator[Fault]:
        """Take the next record into account; yields a fault for each horizon that is not proven."""
        self._follow(record)
        for entry in record["entries"] if record["type"] == "FINALIZE" else ():
            if problem := self._problem(record, entry):
                slot = f"slot {record['header']['seq']}"
                yield Fault(FaultKind.HORIZON, slot, f"{entry['topic']}: {problem}")
            self._until[entry["topic"]] = entry["until"]
        if record["type"] == "RUN":
            slot = f"slot {record['header']['seq']}"
            for problem in self._problems_of_run(record):
                yield Fault(FaultKind.HORIZON, slot, problem)
            complete = {e["topic"]: e.get("complete", -1) for e in record["topics"]}
            self._until |= {topic: until for topic, until in complete.items() if until >= 0}

    def _follow(self, record: Any) -> None:
        for entry in record["entries"] if record["type"] == "ADD" else ():
            tp = _of(entry["topic_partition"])
            self._next[tp], self._latest[tp] = entry["start"], -1
        for dropped in record["topic_partitions"] if record["type"] == "DROP" else ():
            self._next.pop(_of(dropped), None)
        slices = record.get("slices", ()) if record["type"] == "COMMIT" else ()
        for landed in (*slices, *([record] if record["type"] == "HOLE" else ())):
            tp = _of(landed["piece"]["topic_partition"])
            self._next[tp] = landed["piece"]["offsets"]["end"]
            self._latest[tp] = max(self._latest.get(tp, -1), landed.get("latest_ms", -1))

    def _problem(self, record: Any, entry: Any) -> str:
        """Return what is wrong with a horizon; empty if nothing is."""
        topic, until = entry["topic"], entry["until"]
        if until <= self._until.get(topic, -1):
            return f"complete until {until}, after {self._until[topic]}"
        needed, drained = until + record["delay"], dict(entry.get("drained", ()))
        if needed > record["looked"]:
            return f"complete until {until}, though the log was looked at in {record['looked']}"
        for tp, end in sorted(self._next.items()):
            is_drained = drained.get(tp[1]) == end
            if tp[0] == topic and not is_drained and self._latest[tp] < needed:
                return (
                    f"complete until {until}, but {topic}/{tp[1]} had landed only until "
                    f"{self._latest[tp]} and had more"
                )
        return ""

    def _problems_of_run(self, record: Any) -> Iterator[str]:
        """Yield what is wrong with a run."""
        until, left = record["until"], {*record.get("left", ())}
        ends = {(e["topic"], number): end for e in record["topics"] for number, end in e["ends"]}
        for tp, next_offset in sorted(self._next.items()):
            if tp[0] not in left and ends.get(tp, next_offset + 1) > next_offset:
                end = ends.get(tp, "no offset")
                yield (
                    f"{tp[0]}/{tp[1]} landed until {next_offset}, but a run until {until} "
                    f"ends at {end}"
                )
        for entry in record["topics"]:
            topic, complete = entry["topic"], entry.get("complete", -1)
            before = self._until.get(topic, -1)
            if complete >= 0 and (complete <= before or complete + record.get("delay", 0) > until):
                yield f"{topic}: complete until {complete} by a run until {until}, after {before}"


def _of(tp: Any) -> _TopicPartition:
    return tp["topic"], tp["partition"]
