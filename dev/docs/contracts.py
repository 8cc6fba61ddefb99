"""The import contracts, as a table in the page on architecture."""

import re
import tomllib
from collections.abc import Iterator
from pathlib import Path
from typing import Any

ROOT = Path(__file__).resolve().parents[2]
PAGE = ROOT / "docs/architecture.md"
BEGIN, END = "<!-- contracts: made by `make crds` -->\n", "<!-- contracts: end -->\n"


def page() -> str:
    """``docs/architecture.md`` with the contracts as they are now; the rest is written by hand."""
    before, _, rest = PAGE.read_text().partition(BEGIN)
    contracts = tomllib.loads((ROOT / "pyproject.toml").read_text())["tool"]["importlinter"][
        "contracts"
    ]
    table = "\n".join(["| contract | holds for |", "|---|---|", *map(_row, contracts)])
    return f"{before}{BEGIN}\n{table}\n\n{END}{rest.partition(END)[2]}"


def _row(contract: dict[str, Any]) -> str:
    return f"| {contract['name']} | {', '.join(_packages(contract))} |"


def _packages(contract: dict[str, Any]) -> Iterator[str]:
    """Yield a contract's modules in order, without modules below another one that it names."""
    named = [
        part.strip()
        for text in contract.get("source_modules", contract.get("layers", ()))
        for part in text.split("|")
    ]
    for module in dict.fromkeys(named):
        if not any(module.startswith(f"{other}.") for other in named):
            yield f"`{re.sub(r'^landfall[.]', '', module)}`"
