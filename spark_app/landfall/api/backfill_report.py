"""The report of ``landfall backfill land``: over HTTP while it runs, in a document at its end.

The document is in the root of the side lane, ``_landfall/report.json``, and in the termination
message of the pod. The names of the fields are a persisted format, which ``version`` numbers. Pure.
"""

from enum import StrEnum
from typing import Annotated, Final

from pydantic import BaseModel, ConfigDict, Field, ValidationError
from pydantic.alias_generators import to_camel

from landfall.api.pod_spec import Model

VERSION: Final = 1
Count = Annotated[int, Field(ge=0)]
MAX_BYTES = 4096
"""How many bytes of a termination message Kubernetes keeps."""


class LandingPhase(StrEnum):
    """The phase or the end of ``landfall backfill land``."""

    PLANNING = "Planning"
    LANDING = "Landing"
    COMPARING = "Comparing"
    COMPARED = "Compared"
    FAILED = "Failed"
    """Running it again would not help; see ``reason`` and ``message``."""


class _Reported(BaseModel):
    model_config = ConfigDict(
        frozen=True, extra="ignore", alias_generator=to_camel, populate_by_name=True
    )


class OldAndNew(Model):
    """A live amount, and the side lane's; also in a Backfill's status."""

    model_config = ConfigDict(extra="ignore")

    old: Count
    """How much of it is live in the ranges."""
    new: Count
    """How much of it the backfill has landed."""


class RowCounts(OldAndNew):
    """Rows that are live, and those in the side lane."""

    only_old: Count
    """Rows that only the live objects have."""
    only_new: Count
    """Rows that only the backfill has."""


class BackfillReport(_Reported):
    """The progress and the result of a backfill.

    Attributes:
        version: of this format.
        phase: its present step, or how it ended.
        offsets: of the ranges; None before they are planned.
        landed_offsets: how many of them are landed.
        records_per_second: that were landed per second.
        rows: of data; this and what follows is None before they are compared.
        dead_letters: how many.
        bytes: of data objects.
        output_partitions: that either has.
        differing: output partitions whose rows are not the same.
        sample: rows that only one of them has, a line each.
        reason: one word for why it failed, or is retried.
        message: the same in words.
    """

    version: int = VERSION
    phase: str = LandingPhase.PLANNING
    offsets: int | None = None
    landed_offsets: int = 0
    records_per_second: int = 0
    rows: RowCounts | None = None
    dead_letters: OldAndNew | None = None
    bytes: OldAndNew | None = None
    output_partitions: int | None = None
    differing: int | None = None
    sample: tuple[str, ...] = ()
    reason: str = ""
    message: str = ""

    def changed(self, **fields: object) -> "BackfillReport":
        """A copy with other values of these fields."""
        return self.model_copy(update=fields)

    def as_json(self) -> str:
        """The report as one line of JSON."""
        return self.model_dump_json(by_alias=True, exclude_none=True)


def termination_message(report: BackfillReport) -> str:
    """The report in a line short enough for Kubernetes, with as many samples as fit."""
    while len((line := report.as_json()).encode()) > MAX_BYTES and report.sample:
        report = report.changed(sample=report.sample[:-1])
    if len(line.encode()) > MAX_BYTES:
        # JSON may need six bytes for a character.
        return report.changed(message=report.message[: MAX_BYTES // 8]).as_json()
    return line


def parse_report(text: str | bytes) -> BackfillReport | None:
    """Return the report in a text; None for other texts, as the runtime's of a killed process."""
    try:
        return BackfillReport.model_validate_json(text)
    except ValidationError:
        return None
