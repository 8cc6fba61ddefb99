"""The example ``examples/compaction``, followed as its page says, at a time of the test's own."""

import importlib
import shutil
from dataclasses import dataclass, field
from datetime import datetime
from typing import Any

from tests.support.pages.hourly_etl import NOW, HourlyEtl
from tests.support.pages.markdown import DOCS, ROOT

EXAMPLE = ROOT / "examples/compaction"
PAGE = DOCS / "start/compaction.md"
produce: Any = importlib.import_module("examples.compaction.produce")
FIRST: datetime = produce.first_hour(NOW)
FOLDERS = tuple(
    f"etl/orders/{{}}/dt={hour:%Y-%m-%d}/hr={hour:%H}"
    for hour in (FIRST, FIRST + produce.HOUR, FIRST + 2 * produce.HOUR)
)
"""Of the hours, with a place for the topic; the last one is not complete."""
VARIABLES = {"HOUR": f"{FIRST:%Y-%m-%dT%H}", "NEXT": f"{FIRST + produce.HOUR:%Y-%m-%dT%H}"}


@dataclass
class CompactedOrders(HourlyEtl):
    """Follows the page, with a topic and a bucket of the test's own."""

    url: str = "/tmp/compaction"
    variables: dict[str, str] = field(default_factory=VARIABLES.copy)
    of_page: str = "tidy"

    def prepare(self) -> None:
        """Everything that the first two sections of the page have."""
        self.write("orders.yaml", (EXAMPLE / "orders.yaml").read_text())
        shutil.copy(EXAMPLE / "count.py", self.folder)
        produce.produce(str(self.kafka), f"{self.prefix}.orders", FIRST)

    def replaced(self) -> set[int]:
        """The slots of the REPLACEs that are the last ones of their folders."""
        return set(self.state("orders").replaced.values())

    def folders(self) -> tuple[str, ...]:
        """Where each of the hours is in the bucket."""
        return tuple(each.format(f"{self.prefix}.orders") for each in FOLDERS)
