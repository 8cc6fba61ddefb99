"""Findings about a new schema: for the group's fields, its tables, and landed rows. Pure."""

from collections import Counter
from collections.abc import Sequence
from dataclasses import dataclass
from enum import StrEnum


class FindingResult(StrEnum):
    """The meaning of a finding for the change of the schema."""

    OK = "Ok"
    CHANGES = "Changes"
    """Something becomes different, and nothing fails."""
    FAILS = "Fails"


@dataclass(frozen=True, slots=True)
class SchemaFinding:
    """A finding by the schema alone.

    Attributes:
        field: the field of the group, or the column, that it is about.
        result: what it means.
        message: the reason, or what changes.
    """

    field: str
    result: FindingResult
    message: str


class RowOutcome(StrEnum):
    """The outcome of a landed row that is written under the new schema and landed again."""

    SAME = "Same"
    CHANGED = "Changed"
    """It lands with other values in the columns that it had."""
    LEFT_OUT = "LeftOut"
    """A transform leaves it out."""
    DEAD_LETTER = "DeadLetter"
    NOT_HELD = "NotHeld"
    """The new schema cannot hold one of its values."""

    @property
    def fails(self) -> bool:
        """Return whether the row would not be landed."""
        return self not in {RowOutcome.SAME, RowOutcome.CHANGED}


@dataclass(frozen=True, slots=True)
class TriedRow:
    """A landed row and its outcome.

    Attributes:
        place: its topic partition and offset; its object and row where offsets are not kept.
        outcome: its outcome.
        detail: the columns that change, or why it does not land.
    """

    place: str
    outcome: RowOutcome
    detail: str = ""


@dataclass(frozen=True, slots=True)
class TriedRows:
    """Landed rows of a topic that were tried.

    Attributes:
        rows: the outcome of each.
        skipped: why none was tried; empty if some were.
        compares_values: whether values were compared, and not only whether rows land.
    """

    rows: Sequence[TriedRow] = ()
    skipped: str = ""
    compares_values: bool = True

    @property
    def counts(self) -> Counter[RowOutcome]:
        """How many rows have which outcome."""
        return Counter(row.outcome for row in self.rows)

    @property
    def fails(self) -> bool:
        """Return whether a row would not be landed."""
        return any(row.outcome.fails for row in self.rows)

    def first(self, outcome: RowOutcome, count: int) -> list[TriedRow]:
        """Return the first rows with an outcome."""
        return [row for row in self.rows if row.outcome is outcome][:count]


@dataclass(frozen=True, slots=True)
class TopicFindings:
    """Everything about one topic.

    Attributes:
        topic: its name; empty for all topics of an entry, where names are not known.
        path: the part of the spec that holds for it: ``spec`` or ``spec.topics[N]``.
        findings: by the schema alone.
        tried: by rows.
    """

    topic: str
    path: str
    findings: Sequence[SchemaFinding]
    tried: TriedRows

    @property
    def failures(self) -> int:
        """How many findings fail, and rows."""
        of_rows = sum(row.outcome.fails for row in self.tried.rows)
        return of_rows + sum(finding.result is FindingResult.FAILS for finding in self.findings)
