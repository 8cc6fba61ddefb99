"""A ledger in which objects are merged, landed again, undone and replayed, by the real planner.

What is recorded is carried out at once, as a driver does it: what is new is completed, of what
retires a copy is kept, and it is deleted. An upload may be lost before that.
"""

import json
import re
from collections import Counter
from collections.abc import Callable, Iterable, Sequence
from concurrent.futures import Executor, Future
from dataclasses import dataclass, field, replace
from itertools import compress, count
from typing import Any

from landfall import ledger
from landfall.api.verbs import Answer, Outcome, UndoRequest
from landfall.driver.backfill.landed_ledger import read_landed
from landfall.driver.core.planned_replacement import PlannedReplacement
from landfall.driver.core.steps import run
from landfall.driver.decide.backfill import Backfill, covering
from landfall.driver.decide.counting import CountingObject
from landfall.driver.replacing.cleaning_up import ObjectRetirement
from landfall.driver.replacing.restoring import Restoring
from landfall.driver.replacing.undo import ReplacingEffects, undo
from landfall.lane import Lane
from landfall.ledger import Decision, Purpose, Replace, State
from landfall.ledger.names import object_names
from landfall.ledger.offsets import OffsetRange, Slice, TopicPartition
from landfall.ledger.replace import rewriting
from landfall.ledger.replace.merged_objects import Mergeable, halves, offsets_of
from landfall.ledger.replace.replacement_lists import (
    LandedAgain,
    MadeBy,
    NewObject,
    ReplacementList,
    Section,
)
from landfall.ledger.task_results import (
    DecidedObject,
    LandedObject,
    LandedSlice,
    ObjectKind,
    ReplayedSlice,
)
from landfall.objects import Upload
from tests.support.ledger.sample_ledger import GROUP, LANE, SampleLedger

TPS = (TopicPartition("clicks", 0), TopicPartition("clicks", 1))
REMEDY = re.compile(r"`landfall undo ([0-9]+)(?: --output-partition '([^']*)')?`")
BAD, REPLAYED = "-", "were replayed since"
"""The folder of dead letters, and what is said if they stand in the way of an undoing."""
LETTERS = object_names.dead_letters_prefix(GROUP, "clicks").rstrip("/")
Rows = Counter[tuple[str, int, int, int]]
"""Folder, Kafka partition, offset and version of each visible row."""


class AtOnce(Executor):
    """Does everything in the thread that asks."""

    def submit(self, fn: Callable[..., Any], /, *args: Any, **kwargs: Any) -> "Future[Any]":
        """See ``Executor``."""
        done = Future[Any]()
        try:
            done.set_result(fn(*args, **kwargs))
        except Exception as error:  # noqa: BLE001  # as an executor does
            done.set_exception(error)
        return done


@dataclass
class Undoable:
    """The ledger, and what its objects hold.

    Attributes:
        changes: by the slot of each REPLACE, the rows that it took away, and those that it put
            there.
    """

    sample: SampleLedger = field(default_factory=SampleLedger)
    changes: dict[int, tuple[Rows, Rows]] = field(default_factory=dict)
    at: dict[TopicPartition, int] = field(default_factory=lambda: dict.fromkeys(TPS, 0))
    loses: bool = False
    """Whether the store loses an upload of the next REPLACE."""
    generation: int = 1
    """The highest that has named objects."""

    def __post_init__(self) -> None:
        self.sample.open().add(*TPS)
        self.store, self.lane = self.sample.store, Lane(self.sample.store, GROUP, LANE)
        self._names, self._versions = count(), count(1)

    # ------------------------------------------------------------------------------ what is there

    @property
    def rows(self) -> Rows:
        """The visible rows."""
        return sum((self._rows(stat.key) for stat in self.store.list_after("")), Rows())

    def _rows(self, key: str) -> Rows:
        is_letters = key.startswith(f"{LETTERS}/") and key not in self.sample.state.replayed
        if object_names.is_system_key(key) and not is_letters:
            return Rows()
        lines = (json.loads(line) for line in (self.store.read(key) or b"").splitlines())
        folder = key.rpartition("/")[0]
        return Rows((folder, line["p"], line["o"], line["v"]) for line in lines)

    @property
    def replaces(self) -> list[int]:
        """The slots of all REPLACEs."""
        records = (ledger.decode(seq, body) for seq, body in self.lane.bodies())
        return [each.header.seq for each in records if isinstance(each, Replace)]

    def objects(self, folder: str) -> list[CountingObject]:
        """Those that count in a folder, by key."""
        found = read_landed(self.lane).objects
        return [found[key] for key in sorted(found) if found[key].folder == folder]

    # ------------------------------------------------------------------------------ what is done

    def commit(self, tp: TopicPartition, folders: Sequence[str]) -> None:
        """Land a row per folder; those of ``BAD`` are dead letters."""
        start, token = self.at[tp], f"token-{self.sample.state.seq + 1}"
        self.at[tp] += len(folders)
        made = []
        for folder in sorted({*folders}):
            offsets = [start + i for i, each in enumerate(folders) if each == folder]
            key = key_of(folder, self.sample.state.generation, tp.partition, start)
            lines = [(tp.partition, offset, 0) for offset in offsets]
            made.append(self._uploaded(token, key, lines, offsets[0], offsets[-1]))
        piece = Slice(tp, OffsetRange(start, start + len(folders)))
        by_key, bad = tuple(sorted(made, key=lambda each: each.upload.key)), folders.count(BAD)
        self.sample.commit(LandedSlice(piece, by_key, len(folders) - bad, 0, bad, 0, 9)).shown()

    def letters(self) -> list[str]:
        """The keys of dead letters that may be replayed by the next generation."""
        state, keys = self.sample.state, (stat.key for stat in self.store.list_after(LETTERS))
        return [
            key
            for key in keys
            if key.startswith(f"{LETTERS}/")
            and key not in state.replayed
            and not rewriting.why_not_replayed(
                state.rewritten, object_names.origin(GROUP, key), state.applied_through
            )
        ]

    def replay(self, key: str, folder: str) -> None:
        """Land the dead letters of an object again, all into one folder, by a new generation."""
        lines, origin = self._lines(key), object_names.origin(GROUP, key)
        self.generation += 1
        self.sample.open(self.generation)
        token = self._name()
        new = key_of(folder, self.generation, origin.partition, origin.start)
        made = self._uploaded(token, new, lines, lines[0][1], lines[-1][1])
        tp = TopicPartition("clicks", origin.partition)
        piece = Slice(tp, OffsetRange(origin.start, lines[-1][1] + 1))
        slice_ = ReplayedSlice(key, piece, len(lines), (made,), len(lines), 0, 0)
        decision = Decision("replay", "kim", "a test", "t")
        self.sample.append(
            lambda h: ledger.Replay(header=h, token=token, slices=(slice_,), decision=decision)
        )
        self.store.complete(made.upload)
        self.sample.shown()

    def merge(self, *chosen: Sequence[CountingObject], leaves_out: int = 0) -> int:
        """Put an object in the place of each of these groups, without some rows of the first."""
        by, token, left = self.sample.state.applied_through, self._name(), leaves_out
        retire, new = list[DecidedObject](), list[NewObject]()
        for objects in chosen:
            lines = [line for each in objects for line in self._lines(each.key)]
            out, left = (lines[: max(0, min(left, len(lines) - 1))]), 0
            kept = lines[len(out) :]
            sections = [s for each in objects for s in each.sections]
            if out:
                sections = _recounted(sections, kept)
            key = object_names.renamed(objects[0].key, by)
            ends = objects[0].landed.first_offset, objects[-1].landed.last_offset
            landed = self._uploaded(token, key, kept, *ends)
            new.append(NewObject(landed, tuple(sections), bool(out)))
            retire += [each.decided for each in objects]
        listed = _sorted(retire, new)
        gone = sum(each.landed.rows for each in retire) - sum(each.landed.rows for each in new)
        return self._record(PlannedReplacement.of(GROUP, token, Purpose.COMPACT, listed, by, gone))

    def backfill(self, ranges: dict[TopicPartition, OffsetRange], folders: Sequence[str]) -> int:
        """Land ranges again, grown as a plan grows them: row by row into one of these folders."""
        landed, by = read_landed(self.lane), self.sample.state.applied_through
        found = covering(landed, ranges)
        if found.cut:
            self._cut(found)
            landed, by = read_landed(self.lane), self.sample.state.applied_through
            found = covering(landed, ranges)
            assert not found.cut
        version, token = next(self._versions), self._name()
        self.generation += 1
        new, again = list[NewObject](), list[LandedAgain]()
        for slice_ in found.slices:
            number, offsets = slice_.topic_partition.partition, slice_.offsets
            key = key_of(folders[number], self.generation, number, offsets.start)
            lines = [(number, each, version) for each in range(offsets.start, offsets.end)]
            made = self._uploaded(
                token, object_names.renamed(key, by), lines, offsets.start, offsets.end - 1
            )
            section = Section(number, len(lines), offsets.start, offsets.end - 1)
            new.append(NewObject(made, (section,)))
            bad = len(lines) if folders[number] == BAD else 0
            again.append(LandedAgain(slice_, len(lines) - bad, 0, bad, 0, 9))
        listed = replace(
            _sorted(found.retiring, new), landed_again=tuple(again), made_by=MadeBy(1, "")
        )
        new_folders = tuple(sorted(listed.folders))
        return self._record(
            PlannedReplacement(token, Purpose.BACKFILL, listed, by, new_folders, found.slices)
        )

    def _cut(self, found: Backfill) -> int:
        """Cut the objects at the edges of ranges in two."""
        by, token, new = self.sample.state.applied_through, self._name(), list[NewObject]()
        for each in found.cut:
            lines = self._lines(each.key)
            source = Mergeable(each.decided.slot, each.landed, "", each.sections)
            for half in halves(source, found.slices):
                some, ends = [*compress(lines, half.mask)], offsets_of(half.sections)
                new.append(
                    NewObject(self._uploaded(token, half.key_by(by), some, *ends), half.sections)
                )
        listed = _sorted((each.decided for each in found.cut), new)
        return self._record(PlannedReplacement.of(GROUP, token, Purpose.COMPACT, listed, by))

    def undo(self, slot: int, *output_partitions: str, dry_run: bool = False) -> Answer:
        """Ask to undo a REPLACE."""
        request = UndoRequest(
            who="kim", why="a test", slot=slot, output_partitions=output_partitions, dry_run=dry_run
        )
        at_once = AtOnce()
        effects = ReplacingEffects(
            lambda: self.sample.state, self._why_not, self._recorded, at_once, at_once
        )
        decision = Decision("undo", "kim", "a test", "t")
        return run(undo(request, self._restoring, decision, effects))

    def undo_all(self, slot: int, *output_partitions: str, at_most: int = 100) -> list[int]:
        """Undo a REPLACE, and first what each refusal says; returns the slots that did it.

        What has landed dead letters that were replayed since stays, and so does what it follows:
        then no slot is returned.
        """
        done = list[int]()
        waiting = [(slot, output_partitions)]
        for _ in range(at_most):
            answer = self.undo(waiting[-1][0], *waiting[-1][1])
            if answer.outcome is Outcome.DONE:
                done.append(int(answer.message.rpartition(" ")[2]))
                waiting.pop()
                if not waiting:
                    return done
                continue
            if REPLAYED in answer.message:
                return []
            remedy = REMEDY.search(answer.message)
            assert remedy, f"refused without a remedy: {answer}"
            waiting.append((int(remedy[1]), (remedy[2],) if remedy[2] else ()))
        raise AssertionError(f"{slot} is not undone by what {at_most} refusals say: {waiting}")

    # ------------------------------------------------------------------------------- how it is done

    def _restoring(self) -> Restoring:
        state = self.sample.state
        return Restoring(self.store, self.lane, state, self._name(), state.settled_through)

    def _why_not(self, plan: PlannedReplacement) -> str:
        return plan.why_not(self.sample.state, self.sample.state.applied_through)

    def _recorded(self, plan: PlannedReplacement, decision: Decision | None) -> State:
        self._record(plan, decision)
        return replace(self.sample.state, seq=self.replaces[-1])

    def _record(self, plan: PlannedReplacement, decision: Decision | None = None) -> int:
        """Record a plan, and carry it out; returns the slot of its REPLACE."""
        assert not self._why_not(plan)
        before, loses = self.rows, self.loses
        self.loses = False
        slot = self._append(plan, -1, decision)
        if loses:
            at_once, kept = AtOnce(), plan
            restoring = replace(self._restoring(), read_through=slot)
            retire = plan.listed.retire
            kept = restoring.planned(retire, retire, lambda key: key, at_once)
            instead = self._append(kept, slot, None)
            self._carry_out(instead, kept, plan.uploads)
            after = self.rows
            assert after == before
            self.changes[instead] = self.changes[slot] = Rows(), Rows()
            return slot
        self._carry_out(slot, plan, ())
        after = self.rows
        self.changes[slot] = self._of(plan.listed, slot)
        assert before - self.changes[slot][0] + self.changes[slot][1] == after
        return slot

    def _append(self, plan: PlannedReplacement, instead: int, decision: Decision | None) -> int:
        named = plan.stored(self.store, self.lane)
        make = plan.record(named, instead, decision)
        return self.sample.append(lambda header: make(header=header)).header.seq

    def _carry_out(self, slot: int, plan: PlannedReplacement, given_up: Iterable[Upload]) -> None:
        retiring = ObjectRetirement(self.store, GROUP, LANE, slot)
        for upload in plan.uploads:
            self.store.complete(upload)
        for upload in given_up:
            retiring.give_up(upload)
        for each in plan.listed.retire:
            retiring.retire(each)
        self.sample.shown()

    def _of(self, listed: ReplacementList, slot: int) -> tuple[Rows, Rows]:
        """The rows that a REPLACE took away, and those that it put there."""
        prefix = f"_landfall/{GROUP}/{LANE}-retired/{slot:020d}/"
        gone = Rows()
        for each in listed.retire:
            key = each.landed.upload.key
            for line in json.loads(f"[{','.join(self._text(prefix + key))}]"):
                gone[key.rpartition("/")[0], line["p"], line["o"], line["v"]] += 1
        new = sum((self._rows(each.landed.upload.key) for each in listed.objects), Rows())
        return gone, new

    def _text(self, key: str) -> list[str]:
        return (self.store.read(key) or b"").decode().splitlines()

    def _lines(self, key: str) -> list[tuple[int, int, int]]:
        lines = (json.loads(line) for line in self._text(key))
        return [(line["p"], line["o"], line["v"]) for line in lines]

    def _uploaded(
        self, token: str, key: str, lines: Sequence[tuple[int, int, int]], first: int, last: int
    ) -> LandedObject:
        body = b"".join(b'{"p":%d,"o":%d,"v":%d}\n' % line for line in lines)
        upload_id = self.store.begin(key, token)
        part = self.store.put_part(key, upload_id, 1, body)
        upload = Upload(key, upload_id, (part,), token)
        is_letters = object_names.is_system_key(key)
        kind = ObjectKind.DEAD_LETTERS if is_letters else ObjectKind.DATA
        return LandedObject(upload, kind, len(lines), first, last, 0)

    def _name(self) -> str:
        return f"name-{next(self._names)}"


def key_of(folder: str, generation: int, partition: int, start: int) -> str:
    if folder == BAD:
        return object_names.dead_letter_key(GROUP, "clicks", generation, partition, start)
    name = object_names.ObjectName("clicks", folder, generation, partition, start, ".json")
    return name.key


def _recounted(sections: Iterable[Section], lines: Sequence[tuple[int, int, int]]) -> list[Section]:
    """Sections with the rows that are left of them."""
    return [
        replace(
            each,
            rows=sum(
                p == each.partition and each.first_offset <= o <= each.last_offset
                for p, o, _ in lines
            ),
        )
        for each in sections
    ]


def _sorted(retire: Iterable[DecidedObject], new: Iterable[NewObject]) -> ReplacementList:
    return ReplacementList(
        tuple(sorted(retire, key=lambda each: each.landed.upload.key)),
        tuple(sorted(new, key=lambda each: each.landed.upload.key)),
    )
