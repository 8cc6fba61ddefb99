"""Says which files of a feed get no numbers: each once in the log, and how many in the status."""

import logging
from datetime import datetime

from landfall.api.values import plural
from landfall.discovery.looking import Found

log = logging.getLogger(__name__)

MAX_REMEMBERED = 10_000
"""Of how many files is remembered that the log names them; they are named again after so many."""


class LeftOut:
    """The files of one feed that get no numbers although they are new or changed.

    Attributes:
        duplicates: how many the last listing of all names found that have the contents of others.
        refused: how many it found whose name or size cannot be landed.
    """

    def __init__(self, feed: str) -> None:
        self._feed = feed
        self._logged: set[tuple[str, str]] = set()
        self._relisted: datetime | None = None
        self._is_relisting = False
        self._counted = self._counted_refused = 0
        self._first_refused = ""
        self.duplicates = self.refused = 0

    def sees(self, found: Found) -> None:
        """Take in what a look has found."""
        for name, why in found.skipped.reasons:
            if (name, why) not in self._logged:
                if len(self._logged) >= MAX_REMEMBERED:
                    self._logged.clear()
                self._logged.add((name, why))
                log.warning("file left out", extra={"feed": self._feed, "file": name, "why": why})
        self._count(found)

    @property
    def note(self) -> str:
        """What the status says; empty if there is nothing to say."""
        lines = []
        if self.duplicates:
            files = plural(self.duplicates, "file")
            lines.append(f"{self._feed}: {files} left out by dedupe, with the contents of others")
        if self.refused:
            files = plural(self.refused, "file")
            lines.append(
                f"{self._feed}: {files} left out: {self._first_refused}; give it another name, or "
                "write it in smaller files"
            )
        return "\n".join(lines)

    def _count(self, found: Found) -> None:
        """Count what a listing of all names finds, which may take several looks."""
        if found.position.relisted != self._relisted:
            self._relisted, self._is_relisting = found.position.relisted, True
            self._counted = self._counted_refused = 0
            self._first_refused = ""
        if self._is_relisting:
            self._counted += found.skipped.duplicates
            self._counted_refused += found.skipped.refused
            self._first_refused = self._first_refused or found.skipped.first_refused
            self._is_relisting = found.has_more
            if not found.has_more:
                self.duplicates, self.refused = self._counted, self._counted_refused
