"""The part of ``/status`` and ``landfall status`` about the files of each feed."""

from dataclasses import dataclass


@dataclass(frozen=True, slots=True)
class FeedStatus:
    """The files of a feed.

    A file that is read in parts counts as one that is pending until its last part is landed.

    Attributes:
        topic: that its rows are landed as.
        pending_files: files that have numbers and are not landed, without those that are parked.
        pending_bytes: size of their parts that are not landed.
        landed_parts: parts of files that are landed as a whole; most files have one part. With
            `process: External`, those that are done.
        parked_parts: parts that could not be read, and with `onChange: Park` files that were
            rewritten after they were landed.
        undecided_parts: parts that could not be read as often as the spec lets them be tried, so
            that they stay parked until a user decides.
        ignored_parts: parts that a user has given up.
        waiting_files: files that may still be written, when the bucket was last looked at.
        looked: when the last look at the bucket ended, ISO 8601; null before the first one.
        error: what is wrong with the first parked part, or with files that were rewritten.
        next_step: the command that tries it again; empty if nothing is wrong.
        taken_parts: with `process: External`, those that takers work at.
    """

    topic: str
    pending_files: int
    pending_bytes: int
    landed_parts: int
    parked_parts: int
    undecided_parts: int
    ignored_parts: int
    waiting_files: int = 0
    looked: str | None = None
    error: str = ""
    next_step: str = ""
    taken_parts: int = 0
