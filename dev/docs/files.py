"""Lists the files of ``docs/`` made from code and other pages, with their generators."""

from collections.abc import Callable, Mapping
from pathlib import Path

from dev.docs import (
    alerts,
    backfills,
    commands,
    contracts,
    fields,
    pictures,
    records,
    scaling,
    stages,
    status,
)

DOCS = Path(__file__).resolve().parents[2] / "docs"


def _scaling() -> str:
    return scaling.picture((DOCS / "performance.md").read_text())


MAKERS: Mapping[str, Callable[[], str]] = {
    "architecture.md": contracts.page,
    "reference/fields.md": fields.page,
    "reference/backfill.md": backfills.page,
    "reference/cli.md": commands.landfall,
    "reference/operator.md": commands.operator,
    "reference/alerts.md": alerts.page,
    "reference/http.md": status.page,
    "reference/stages.md": stages.page,
    "reference/ledger.md": records.page,
    "images/stages.svg": stages.picture,
    "images/ledger-records.svg": records.picture,
    "images/batch.svg": pictures.batch,
    "images/commit-timeline.svg": pictures.commit_timeline,
    "images/handover.svg": pictures.handover,
    "images/architecture.svg": pictures.architecture,
    "images/scaling.svg": _scaling,
}
"""The generator of each text, by its path below ``docs/``."""


def generated() -> Mapping[str, str]:
    """The text of each, by its path below ``docs/``."""
    return {path: make() for path, make in MAKERS.items()}
