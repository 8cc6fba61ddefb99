"""Rules for the files of a bucket: which count, when one has settled, what a change is. Pure."""

import re
from collections.abc import Callable
from dataclasses import dataclass, field
from datetime import timedelta
from enum import StrEnum

from landfall.formats.parts import FilePart
from landfall.ledger.feeds import MAX_LISTED
from landfall.objects import ListedFile

Cut = Callable[[str, int], tuple[FilePart, ...]]
"""The parts of a file by its name and size, as ``FileReader.parts``.

It raises ``ValueError`` for a name that the reader cannot read.
"""


class OnChange(StrEnum):
    """The treatment of a file with numbers that is written again."""

    LAND = "Land"
    """The new version gets numbers as a new file does."""
    IGNORE = "Ignore"
    """The new version gets none, and is reported."""


@dataclass(frozen=True, slots=True)
class DiscoveryRules:
    """How files are found.

    Attributes:
        cut: the parts of a file.
        include: patterns; a name counts if one matches the whole of it; without any, all do.
        exclude: patterns; a name does not count if one matches the whole of it.
        settle: for how long a file must not have been written.
        ordered_names: number the files of a look in the order of names, not of their times.
        on_change: how a file that is written again is treated.
        is_unlanded: whether no row is landed of the version of a file that has numbers, nor will
            be: then the new version gets numbers, for any ``on_change``.
        is_pending: whether parts of the version of a file that has numbers are still to be read:
            until then it is unknown whether rows of it are landed, and the new version waits.
        relist: how long after a listing of all names the next one is due.
        same_contents: the name of another file that has numbers and the contents of this one, if
            there is one; see ``landfall.discovery.contents``. Such a file gets no numbers. None if
            files are only known by their names.
        most_parts: how many parts get numbers in one look.

    Raises:
        ValueError: a pattern is not a regular expression, or a number is out of range.
    """

    cut: Cut
    include: tuple[str, ...] = ()
    exclude: tuple[str, ...] = ()
    settle: timedelta = timedelta(0)
    ordered_names: bool = False
    on_change: OnChange = OnChange.LAND
    is_unlanded: Callable[[str], bool] = lambda _: False
    is_pending: Callable[[str], bool] = lambda _: False
    relist: timedelta = timedelta(hours=1)
    same_contents: Callable[[ListedFile], str | None] | None = None
    most_parts: int = MAX_LISTED
    _include: tuple[re.Pattern[str], ...] = field(init=False, repr=False, compare=False)
    _exclude: tuple[re.Pattern[str], ...] = field(init=False, repr=False, compare=False)

    def __post_init__(self) -> None:
        if min(self.settle, self.relist) < timedelta(0):
            raise ValueError(f"settle and relist may not be negative: {self.settle}, {self.relist}")
        if not 0 < self.most_parts <= MAX_LISTED:
            raise ValueError(f"most_parts: not from 1 to {MAX_LISTED}: {self.most_parts}")
        object.__setattr__(self, "_include", _compiled("include", self.include))
        object.__setattr__(self, "_exclude", _compiled("exclude", self.exclude))

    def counts(self, name: str) -> bool:
        """Return whether the file of this name counts."""
        is_in = not self._include or any(pattern.fullmatch(name) for pattern in self._include)
        return is_in and not any(pattern.fullmatch(name) for pattern in self._exclude)


def _compiled(field_name: str, patterns: tuple[str, ...]) -> tuple[re.Pattern[str], ...]:
    # Names may have line breaks, which ``.`` matches here.
    try:
        return tuple(re.compile(pattern, re.DOTALL) for pattern in patterns)
    except re.error as error:
        raise ValueError(
            f"{field_name}: not a regular expression: {error.pattern!r}: {error}"
        ) from error
