"""The fields of a ``Backfill``, from its CRD, with the same words as ``kubectl explain``."""

from pathlib import Path

from dev.docs.fields import section
from landfall_operator.api.backfill_crd import schema

PAGE = Path(__file__).resolve().parents[2] / "docs/reference/backfill.md"
BEGIN, END = "<!-- fields: made by `make crds` -->\n", "<!-- fields: end -->\n"


def page() -> str:
    """``docs/reference/backfill.md`` with the fields as they are now; the rest is hand-written."""
    before, _, rest = PAGE.read_text().partition(BEGIN)
    properties = schema()["properties"]
    lines = [line for name in ("spec", "status") for line in section(name, properties[name])]
    text = "\n".join(lines)
    return f"{before}{BEGIN}\n{text}\n{END}{rest.partition(END)[2]}"
