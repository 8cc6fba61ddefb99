"""The example ``examples/backfill``, followed as its pages say."""

import importlib
from dataclasses import dataclass, field
from datetime import timedelta
from typing import Any

from tests.support.pages.hourly_etl import HourlyEtl
from tests.support.pages.markdown import DOCS, ROOT

EXAMPLE = ROOT / "examples/backfill"
PAGE = DOCS / "start/backfill.md"
GUIDE = DOCS / "guides/corrections.md"
produce: Any = importlib.import_module("examples.backfill.produce")


@dataclass
class NightOfClicks(HourlyEtl):
    """Follows the pages, with topics and a bucket of the test's own."""

    url: str = "/tmp/backfill"
    shift: timedelta = timedelta(0)
    variables: dict[str, str] = field(default_factory=dict)
    of_page: str = "redo"

    def prepare(self) -> None:
        """The files of the example; its programs are typed."""
        for file in EXAMPLE.glob("*.yaml"):
            self.write(file.name, file.read_text())
        for file in EXAMPLE.glob("*.py"):
            (self.folder / file.name).write_text(self._ours(file.read_text()))
