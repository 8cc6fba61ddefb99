"""Finds a Delta table's position in the ledger, even if other writers change the table.

The commits of the table's log decide, from the newest to older ones: the first one by a publisher
of this lane has the position. A RESTORE resets the table to an earlier version, so the search
continues from that version: what was published later is no longer in the table. Where the log's
history has been cleaned up, the version of the application transaction remains.
"""

from collections.abc import Collection, Iterator, Mapping
from dataclasses import dataclass
from datetime import UTC, datetime
from typing import Any, Protocol

from landfall.errors import Reason, Stalled
from landfall.publish.delta.logs import LoadedTable
from landfall.publish.table_position import (
    NamedIndex,
    OtherLanes,
    TablePosition,
    pack,
    slot_of,
    unpack,
)

_INDEX = ("index", "keys")
"""The names of the properties of a keyed table."""
_FIRST_LOOK = 8
"""How many commits are looked at first; most often the newest one suffices."""


class PositionUnknown(Stalled):
    """The log of a table has no position, as after a restore to a version not in it."""


class DeltaTableView(Protocol):
    """The part of ``deltalake.DeltaTable`` that is read."""

    def history(self, limit: int | None = None) -> list[dict[str, Any]]:
        """The newest commits first."""
        ...

    def transaction_version(self, app_id: str) -> int | None:
        """The version of an application transaction."""
        ...


@dataclass(frozen=True)
class Commits:
    """The commits of a table, newest first."""

    table: DeltaTableView

    def __iter__(self) -> Iterator[Mapping[str, Any]]:
        """Read few commits first, and all only if these do not suffice."""
        first = self.table.history(_FIRST_LOOK)
        yield from first
        if len(first) == _FIRST_LOOK:
            yield from self.table.history()[_FIRST_LOOK:]


def properties(
    application: str, root: str, through: int, left_out: Collection[str]
) -> dict[str, str]:
    """Return a commit's properties about the position of its table."""
    return {
        f"{application}/through": str(through),
        f"{application}/root": root,
        f"{application}/left-out": pack(left_out),
    }


def index_properties(application: str, files: str, keys: str) -> dict[str, str]:
    """Return a commit's properties about the index of its table."""
    return {
        f"{application}/{name}": value for name, value in zip(_INDEX, (files, keys), strict=True)
    }


def position_of(commits: Commits, application: str, root: str) -> TablePosition:
    """The position of a table.

    Args:
        commits: of the table.
        application: the id of the lane's transactions.
        root: the URL of the output root.

    Raises:
        Stalled: DESTINATION_CONFLICT, the table follows another ledger, or its log has no valid
            position: any writer of the table may have written anything there.
    """
    for commit in _ancestors(commits):
        through = commit.get(f"{application}/through")
        if through is None and commit.get("version") == 0:
            return TablePosition()
        if through is None:
            continue
        if (found := commit.get(f"{application}/root", root)) != root:
            raise Stalled(
                Reason.DESTINATION_CONFLICT,
                f"it follows the ledger in {found}; publish what is in {root} to another table",
            )
        try:
            left_out = unpack(commit.get(f"{application}/left-out"))
            return TablePosition(slot_of(through), left_out, _index_in(commit, application))
        except (ValueError, TypeError) as error:
            raise PositionUnknown(
                Reason.DESTINATION_CONFLICT,
                f"a commit in its log names no position of this publisher: {error}; publish it "
                "again with landfall publish --rebuild",
            ) from error
    known = commits.table.transaction_version(application)
    return TablePosition() if known is None else TablePosition(known, left_out=None)


def other_lanes(table: LoadedTable, application: str) -> OtherLanes:
    """Return the other lanes that have published to a table, by its log.

    Args:
        table: the table.
        application: the id of this lane's transactions.
    """
    found = dict[str, bool]()
    for commit in Commits(table):
        for name in commit:
            lane = name.removesuffix("/through")
            if name.startswith("landfall/") and lane not in (name, application):
                found.setdefault(lane, f"{lane}/{_INDEX[0]}" in commit)
    return OtherLanes(table.url, found)


def _index_in(commit: Mapping[str, Any], application: str) -> NamedIndex | None:
    files, keys = (commit.get(f"{application}/{name}") for name in _INDEX)
    return None if files is None else NamedIndex(str(files), str(keys))


def _ancestors(commits: Commits) -> Iterator[Mapping[str, Any]]:
    """The commits whose effect the table has, newest first, as far as the log goes back.

    Raises:
        Stalled: DESTINATION_CONFLICT, the table was restored to a commit that has left the log.
    """
    version, moment = None, None
    for commit in commits:
        is_later = version is not None and commit.get("version", 0) > version
        if is_later or (moment is not None and commit.get("timestamp", 0) > moment):
            continue
        version, moment = None, None
        yield commit
        if commit.get("operation") == "RESTORE":
            try:
                version, moment = _restored(commit["operationParameters"])
            except (ValueError, TypeError, KeyError, AttributeError, OverflowError) as error:
                raise PositionUnknown(
                    Reason.DESTINATION_CONFLICT,
                    f"a RESTORE in its log names no version: {error!r:.200}; publish it again "
                    "with landfall publish --rebuild",
                ) from error
    if version is not None or moment is not None:
        raise PositionUnknown(
            Reason.DESTINATION_CONFLICT,
            "it was restored to a version whose commit is not in the log any more; restore a newer "
            "version, or publish it again with landfall publish --rebuild",
        )


def _restored(parameters: Mapping[str, Any]) -> tuple[int | None, int | None]:
    """The version that a RESTORE names, or the milliseconds since 1970."""
    version = parameters.get("version")
    if version not in (None, "", "null"):
        return int(version), None
    when = str(parameters.get("datetime") or parameters.get("timestamp") or "").strip('"')
    if when.isdigit():
        return None, int(when)
    moment = datetime.fromisoformat(when)
    moment = moment if moment.tzinfo else moment.replace(tzinfo=UTC)
    return None, int(moment.timestamp() * 1000)
