"""Plans merges, lets tasks do them, and assembles the result for a REPLACE."""

import logging
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from datetime import datetime, timedelta

from landfall.api.contract import LANE
from landfall.api.spec import Compact, ConsumerGroup, Output, TopicSpecs
from landfall.driver.core.deps import DriverDeps
from landfall.driver.core.merged_first import ExpectedTopic, MergeProgress
from landfall.driver.core.planned_replacement import PlannedReplacement
from landfall.driver.core.stored_specs import allowed_plug_ins, unchecked_spec
from landfall.driver.decide.compaction import BYTES_PER_KEY, MergeRules, plan_merges
from landfall.driver.replacing.compaction_folders import CompactionFolder, Folders
from landfall.errors import LandfallError, Retry, Stalled
from landfall.lane import Lane
from landfall.ledger import Purpose
from landfall.ledger.replace.merged_objects import Mergeable
from landfall.ledger.replace.replacement_lists import ReplacementList
from landfall.registry import output_format
from landfall.store.probe import probe_replacing
from landfall.task.merging import (
    Merge,
    Merged,
    MergeFailed,
    MergeShare,
    NotMerged,
    merger_of,
)

log = logging.getLogger(__name__)

SLOTS_PER_TASK = 4
"""Of so many task slots, one merges."""
SHARE_BYTES = 512 * 2**20
"""How many bytes a task merges before its plan is complete, and a merge more."""
MAX_PLAN_OBJECTS = 20_000
"""How many objects retire by a plan, plus at most the objects of one folder."""
FIRST_PAUSE, LONGEST_PAUSE = timedelta(minutes=5), timedelta(hours=6)
"""How long a folder rests that could not be merged: it doubles each time."""
MAX_FAILURES = 10
"""After so many a folder is given up whose merge fails for no reason that could pass."""
MAX_PLAN_FOLDERS = 1_000
"""How many folders a plan concerns at most."""


class CompactionPlanner:
    """Plans merges and has them done. One thread uses it."""

    def __init__(self, group: ConsumerGroup, deps: DriverDeps, lane: Lane) -> None:
        """Read nothing yet."""
        self._group = group
        self._deps = deps
        self._lane = (lane.group, lane.name)
        self._folders = Folders(lane, group)
        self._specs: dict[str, TopicSpecs] = {}
        self._extensions: dict[tuple[str, str], str | None] = {}
        self._may_replace = False
        self.reserved = frozenset[str]()
        """Folders that are left alone for now; set by any thread."""
        self.expected: Mapping[str, ExpectedTopic] = {}
        """By topic, what is called complete once it is merged; set by any thread."""
        self.progress = MergeProgress()
        """How far merging was at the end of the last plan."""
        self.waiting = (0, 0)
        """Folders with objects to merge, now or once complete, and objects of complete ones."""
        self.uncompared = 0
        """Rows of recorded merges whose keys were not compared with the keys of most rows."""
        self._planned_uncompared = 0
        self.next_due: datetime | None = None
        """When there is something to do next without anything new in the ledger."""

    def plan(self) -> tuple[PlannedReplacement | None, str]:
        """Return the merges to record now, and what is wrong with the rest; None and "" if done.

        Raises:
            Retry: the store or Spark does not answer.
            Stalled: the ledger is broken.
        """
        folders, now = self._folders, self._deps.clock()
        expected = folders.expected = self.expected
        folders.follow(now)
        plan, problem = None, ""
        if not folders.state.replacing:  # or an object could be in two plans
            chosen = _Chosen(max(1, self._deps.runner.slots // SLOTS_PER_TASK))
            due = [folder for folder in folders.due(now) if folder.path not in self.reserved]
            problems = [self._choose(folder, chosen) for folder in due]
            problem = next(filter(None, problems), "")
            # Before tasks upload anything: if the store does not answer, nothing is lost.
            folders.remember()
            if chosen.folders:
                if not self._may_replace:
                    probe_replacing(self._deps.store, self._deps.new_name())
                    self._may_replace = True
                plan, failure = self._merged(chosen)
                self._planned_uncompared = chosen.uncompared
                problem = failure or problem
        self.waiting, self.next_due = folders.waiting, folders.next_due()
        self.progress = MergeProgress(folders.state, expected, folders.left)
        return plan, problem

    def settle(self, plan: PlannedReplacement) -> None:
        """Take note that a plan is recorded: in its folders nothing is to be done until then."""
        for path in plan.folders:
            if path in self._folders.folders:
                self._folders.folders[path].is_settled = True
        self.uncompared += self._planned_uncompared
        self.waiting = self._folders.waiting

    def _choose(self, folder: CompactionFolder, chosen: "_Chosen") -> str:
        """Choose what is to be merged of a folder, if there is room; returns what is wrong."""
        rules = self._folders.rules(folder.topic)
        if rules is None or chosen.is_full():
            return ""
        try:
            objects = [
                object_ for object_ in folder.objects.values() if self._can_merge(folder, object_)
            ]
        except Stalled as error:  # no format reads them
            folder.is_settled = True
            return _problem(folder, str(error))
        found = plan_merges(self._lane, objects, self._merge_rules(rules))
        if found.merges:
            chosen.folders.append(folder)
            if found.uncompared:
                rows = {"folder": folder.path, "rows": found.uncompared}
                log.warning("rows of another generation or spec not compared", extra=rows)
                chosen.uncompared += found.uncompared
            for sources in found.merges:
                if chosen.is_full():
                    break  # the rest of the folder once this is applied
                output = self._output(folder.topic, sources[0].spec)
                chosen.add(Merge(output, sources, rules.dedupe, rules.sort_path))
        else:
            folder.is_settled = True
        return _problem(folder, found.refused[0]) if found.refused else ""

    def _merge_rules(self, rules: Compact) -> MergeRules:
        max_rows = self._group.spec.tuning.task_memory // BYTES_PER_KEY
        return MergeRules(rules.below, rules.target, rules.dedupe is not None, max_rows)

    def _can_merge(self, folder: CompactionFolder, each: Mergeable) -> bool:
        """Return whether the format of an object, by the stored spec, can be merged at all."""
        known = (folder.topic, each.spec)
        if known not in self._extensions:
            allowed = allowed_plug_ins(self._group, LANE, each.spec)
            format_ = output_format(self._output(*known), allowed=allowed)
            self._extensions[known] = format_.extension if merger_of(format_) else None
        return each.extension == self._extensions[known]

    def _output(self, topic: str, spec: str) -> Output:
        """How objects of a topic were made by a stored spec; ``_can_merge`` checks its format."""
        if spec not in self._specs:
            made_by = unchecked_spec(self._deps.store, self._group, LANE, spec).spec
            self._specs[spec] = TopicSpecs.of(made_by)
        return self._specs[spec].for_topic(topic).output

    def _merged(self, chosen: "_Chosen") -> tuple[PlannedReplacement | None, str]:
        """Have tasks merge what is chosen; returns the plan, and what could not be merged."""
        token, read_through = self._deps.new_name(), self._folders.state.applied_through
        shares = [
            MergeShare(self._group, token, read_through, tuple(merges))
            for merges in chosen.shares
            if merges
        ]
        results = self._deps.runner.merge(shares)
        merged = [result for result in results if isinstance(result, Merged)]
        failed = [result for result in results if isinstance(result, NotMerged)]
        touched = {result.new.folder for result in merged}
        again = {
            result.folder: result.error for result in failed if isinstance(result.error, Retry)
        }
        given_up = [f for f in chosen.folders if self._is_given_up(f, again.get(f.path))]
        for folder in chosen.folders:
            # What failed for good, or would give what exists, waits for another object.
            folder.is_settled = folder.path not in touched | again.keys() or folder in given_up
        problem = str(failed[0].error) if failed else ""
        if given_up:
            path = given_up[0].path
            problem = f"given up after {MAX_FAILURES} attempts: {again[path]}"
        return (self._replacement(token, read_through, merged) if merged else None), problem

    def _is_given_up(self, folder: CompactionFolder, error: LandfallError | None) -> bool:
        """Take note of how a folder's merge went; return whether it is not to be retried.

        One that fails must not be in the way of folders that can be merged.
        """
        if error is None:
            folder.failures = 0
            return False
        folder.failures = folder.failures + 1
        folder.late_since = None
        pause = min(FIRST_PAUSE * 2 ** min(folder.failures - 1, 10), LONGEST_PAUSE)
        folder.due = self._deps.clock() + pause
        return isinstance(error, MergeFailed) and folder.failures >= MAX_FAILURES

    def _replacement(
        self, token: str, read_through: int, merged: Sequence[Merged]
    ) -> PlannedReplacement:
        retire = [object_ for one in merged for object_ in one.retire]
        listed = ReplacementList(
            tuple(sorted(retire, key=lambda each: each.key)),
            tuple(sorted((m.new for m in merged), key=lambda new: new.key)),
        )
        duplicates = sum(one.duplicates for one in merged)
        purpose, (group, _) = Purpose.COMPACT, self._lane
        return PlannedReplacement.of(
            group=group,
            token=token,
            purpose=purpose,
            listed=listed,
            read_through=read_through,
            duplicates=duplicates,
        )


@dataclass
class _Chosen:
    """The merges of a plan.

    Attributes:
        tasks: how many tasks merge.
        folders: whose objects are merged.
        uncompared: rows of these whose keys are not compared with the keys of most rows.
    """

    tasks: int
    folders: list[CompactionFolder] = field(default_factory=list)
    uncompared: int = 0

    def __post_init__(self) -> None:
        self.shares: list[list[Merge]] = [[] for _ in range(self.tasks)]
        self._loads = [0] * self.tasks
        self._objects = 0

    def is_full(self) -> bool:
        """Return whether the plan is as large as it should be."""
        return (
            min(self._loads) >= SHARE_BYTES
            or self._objects >= MAX_PLAN_OBJECTS
            or len(self.folders) >= MAX_PLAN_FOLDERS
        )

    def add(self, merge: Merge) -> None:
        """Give a merge to the task that has the least to do."""
        least = self._loads.index(min(self._loads))
        self.shares[least].append(merge)
        self._loads[least] += sum(source.landed.upload.size for source in merge.sources)
        self._objects += len(merge.sources)


def _problem(folder: CompactionFolder, why: str) -> str:
    log.warning("objects not merged", extra={"folder": folder.path, "why": why})
    return why
