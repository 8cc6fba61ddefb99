"""Parses the words of a ``landfall files`` command: ``[GROUP.yaml] FEED FILE …``."""

from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path

from landfall.cli.decide.verb import group_path
from landfall.errors import Reason, Stalled

GROUP_SUFFIXES = frozenset({".yaml", ".yml", ".json"})
"""Suffixes of a group's file, which distinguish it from a feed's topic."""


@dataclass(frozen=True, slots=True)
class FileTarget:
    """The group's file as named (empty for the one in a driver's pod), a feed, and files."""

    group: str
    feed: str
    names: tuple[str, ...]

    @property
    def path(self) -> Path:
        """The group's file.

        Raises:
            Stalled: SPEC_INVALID, none is named, and this is no driver's pod.
        """
        return group_path(self.group)


def file_target(words: Sequence[str], *, needs_feed: bool = True) -> FileTarget:
    """Return the target that the words name.

    Raises:
        Stalled: SPEC_INVALID, no feed is named where one is needed.
    """
    first = words[0] if words and Path(words[0]).suffix in GROUP_SUFFIXES else ""
    feed, *names = words[bool(first) :] or [""]
    if needs_feed and not feed:
        raise Stalled(Reason.SPEC_INVALID, "name the feed: the topic of an entry of source.files")
    return FileTarget(first, feed, tuple(names))
