"""The part of ``/status`` about merging small objects (``spec.compact``) and replaced ones."""

from dataclasses import dataclass


@dataclass(frozen=True, slots=True)
class CompactionStatus:
    """Work of compaction: waiting, and done since the driver started.

    Attributes:
        waiting_folders: folders with objects to merge, now or once they are complete.
        waiting_objects: objects of complete folders that are looked at next; some may stay.
        merged_objects: objects that were recorded to retire.
        new_objects: the objects that replace them.
        merged_bytes: what these have.
        duplicates: rows that were left out.
        failures: passes in which something was not merged that should have been.
        problem: why something was not merged last; empty if nothing was in the way.
        uncompared: rows whose keys were compared only with rows of the same generation and stored
            spec, where most rows of the output partition have another one.
        unmerged: how often a topic was called complete before it was merged, after the deadline.
        awaited_topics: topics that are called complete once something of them is merged.
    """

    waiting_folders: int = 0
    waiting_objects: int = 0
    merged_objects: int = 0
    new_objects: int = 0
    merged_bytes: int = 0
    duplicates: int = 0
    failures: int = 0
    problem: str = ""
    uncompared: int = 0
    unmerged: int = 0
    awaited_topics: int = 0


@dataclass(frozen=True, slots=True)
class ReplacingStatus:
    """Unfinished work of REPLACEs: of merges, promotions and undoings.

    Attributes:
        waiting: REPLACEs whose new objects are not visible yet.
        refused: those for which the store refused an object at the last try.
        undeleted_objects: replaced objects that are not deleted yet.
        undeletable_objects: how many these are if a deletion was refused at the last try, else 0.
        problem: what was refused, with the object and the error; empty if nothing.
        next_step: the command that gives up what was refused; empty if none does.
    """

    waiting: int = 0
    refused: int = 0
    undeleted_objects: int = 0
    undeletable_objects: int = 0
    problem: str = ""
    next_step: str = ""
