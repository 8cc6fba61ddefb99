"""What ``/status`` says of a group that merges small objects (``spec.compact``)."""

from dataclasses import dataclass


@dataclass(frozen=True, slots=True)
class CompactionStatus:
    """What compaction has to do, and what it has done since the driver started.

    Attributes:
        waiting_folders: folders with objects to merge, now or once they are complete.
        waiting_objects: objects of complete folders that are looked at next; some may stay.
        merged_objects: objects that were recorded to retire.
        new_objects: those that take their place.
        merged_bytes: what these have.
        duplicates: rows that were left out.
        failures: passes in which something was not merged that should have been.
        problem: why something was not merged last; empty if nothing was in the way.
    """

    waiting_folders: int = 0
    waiting_objects: int = 0
    merged_objects: int = 0
    new_objects: int = 0
    merged_bytes: int = 0
    duplicates: int = 0
    failures: int = 0
    problem: str = ""
