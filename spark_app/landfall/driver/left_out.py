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
    """

    def __init__(self, feed: str) -> None:
        self._feed = feed
        self._logged: set[tuple[str, str]] = set()
        self._relisted: datetime | None = None
        self._is_relisting = False
        self._counted = 0
        self.duplicates = 0

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
        if not self.duplicates:
            return ""
        files = plural(self.duplicates, "file")
        return f"{self._feed}: {files} left out by dedupe, with the contents of others"

    def _count(self, found: Found) -> None:
        """Count what a listing of all names finds, which may take several looks."""
        if found.position.relisted != self._relisted:
            self._relisted, self._counted, self._is_relisting = found.position.relisted, 0, True
        if self._is_relisting:
            self._counted += found.skipped.duplicates
            self._is_relisting = found.has_more
            if not found.has_more:
                self.duplicates = self._counted
