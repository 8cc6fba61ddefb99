"""The example ``examples/cdc``, followed as its page says, at a time of the test's own."""

import importlib
import shutil
from dataclasses import dataclass, field
from datetime import datetime
from typing import Any

from tests.support.pages.hourly_etl import NOW, HourlyEtl
from tests.support.pages.markdown import DOCS, ROOT

EXAMPLE = ROOT / "examples/cdc"
PAGE = DOCS / "start/cdc.md"
produce: Any = importlib.import_module("examples.cdc.produce")
changes: Any = importlib.import_module("examples.cdc.changes")
FIRST: datetime = produce.first_hour(NOW)
VARIABLES = {"HOUR": f"{FIRST:%Y-%m-%dT%H}"}


@dataclass
class FollowedChanges(HourlyEtl):
    """Follows the page, with a topic and a bucket of the test's own."""

    url: str = "/tmp/cdc-table"
    variables: dict[str, str] = field(default_factory=VARIABLES.copy)
    of_page: str = "shop"

    def prepare(self) -> None:
        """Everything that the sections before the first run have."""
        text, tables = (EXAMPLE / "table.yaml").read_text(), f"{self.bucket.url}/etl/lake/"
        self.write("table.yaml", text.replace(f"file://{self.url}/lake/", tables))
        for name in ("changes.py", "rows.py"):
            shutil.copy(EXAMPLE / name, self.folder)
        records = produce.texts(changes.records("postgres"))
        produce.produce(str(self.kafka), f"{self.prefix}.orders", records, FIRST)
