"""Logs of Delta tables in any store that creates if absent, by copies that delta-rs works on.

delta-rs reads a copy of the newest part of a log in a temporary folder, and writes the next version
there. What makes it a version of the table is one ``create`` of its file in the store: of racing
writers one wins, and each loser reads the table again. So rows, position and conflicts are as in
the logs that delta-rs reaches itself, and access is the store's: credentials, retries, rotation.

- A copy is private to the table that was loaded from it. Files of a log never change, so the next
  copy links the files of the last one. A log that was deleted and begun again has other files with
  the same names: the newest version of the last copy is compared with the store's first.
- A copy begins at the newest checkpoint of the usual forms, with a few versions before it, by which
  the position of a table is found. Older versions are copied when they are asked for.
- Killed before the ``create``, a writer leaves nothing in the store; after it, the version counts,
  and the next pass finds the position in it. A checkpoint comes after its version, and the hint at
  it last: a missing one is made later, as soon as enough versions have none.

Source: PROTOCOL.md, "Delta Log Entries", "Checkpoints", "Last Checkpoint File"
"""

import json
import os
import re
from collections import defaultdict
from collections.abc import Callable, Collection, Iterator, Mapping, Sequence
from concurrent.futures import ThreadPoolExecutor
from contextlib import contextmanager
from dataclasses import dataclass, field, replace
from datetime import UTC, datetime
from functools import cached_property, partial
from pathlib import Path
from shutil import rmtree
from tempfile import mkdtemp
from typing import Any
from weakref import finalize

from deltalake import DeltaTable, Schema
from deltalake.exceptions import CommitFailedError

from landfall.errors import DestinationAway, DestinationDenied, StoreAway, StoreDenied
from landfall.publish.delta.entries import Action, LogFiles, live_adds
from landfall.publish.delta.expired_log import delete_expired, time_of
from landfall.publish.delta.logs import LOG, LoadedTable, LogFile, name_of
from landfall.store import Created, Slots
from landfall.store.below import SlotsBelow

READERS = 16
"""How many files of a log are read concurrently."""
BEFORE = 8
"""How many versions a copy has at least, if the log has them: ``position`` looks at these first."""
_HINT = "_last_checkpoint"
_COMMIT = re.compile(r"(\d{20})\.json", re.ASCII)
_CHECKPOINT = re.compile(r"(\d{20})\.checkpoint(?:\.\d{10}\.(\d{10}))?\.parquet", re.ASCII)
_INTERVAL = "delta.checkpointInterval"
_DEFAULT_INTERVAL = 100
"""delta-rs's own."""


Amend = Callable[[list[Action]], list[Action]]
"""Changes the actions of a version before it is one."""


class LogUnreadable(Exception):  # noqa: N818  # the name is the state
    """A log begins where delta-rs cannot begin to read it."""


class _CopyFolder:
    """A temporary folder that is deleted with the last use of this value."""

    def __init__(self) -> None:
        self.path = Path(mkdtemp(prefix="landfall-delta-"))
        finalize(self, rmtree, self.path, ignore_errors=True)


@dataclass(frozen=True)
class _LogCopy:
    """The newest part of a log.

    Attributes:
        table: the URL of the table.
        folder: has the copy.
        commits: versions in it.
        checkpoint: the version of its checkpoint; -1 without.
        files: names of the files in it.
    """

    table: str
    folder: _CopyFolder
    commits: tuple[int, ...]
    checkpoint: int
    files: frozenset[str]

    @property
    def version(self) -> int:
        """The newest version."""
        return max((*self.commits[-1:], self.checkpoint))

    @property
    def first(self) -> int:
        """The version from which a listing has what the next copy needs."""
        return max(0, min(self.checkpoint, self.version - BEFORE + 1))

    def is_of(self, slots: Slots, names: Collection[str]) -> bool:
        """Return whether its newest version is in a log still."""
        name = name_of(self.version)
        return (
            name in names
            and name in self.files
            and slots.read(f"{LOG}/{name}") == (self.log / name).read_bytes()
        )

    @property
    def log(self) -> Path:
        return self.folder.path / LOG


class CopiedTable(LoadedTable):
    """A version of a table that delta-rs has read from a copy.

    Args:
        copy: of its log.
        slots: the files of the table.
    """

    def __init__(self, copy: _LogCopy, slots: Slots) -> None:
        super().__init__(copy.folder.path)
        self.copy = copy
        self._slots = slots

    @property
    def url(self) -> str:
        """The URL of the table, not of the copy."""
        return self.copy.table

    def paths_with_vectors(self) -> list[str]:
        """See ``LoadedTable``. Vectors are files of the table, which are not copied."""
        return [*self.adds()]

    def adds(self, paths: Collection[str] | None = None) -> dict[str, Action]:
        """The ``add`` entries of files that the table has; see ``live_adds``."""
        return live_adds(self._log_files, paths)

    @cached_property
    def _log_files(self) -> LogFiles:
        log, newer = self.copy.log, (v for v in self.copy.commits if v > self.copy.checkpoint)
        checkpoints = [log / name for name in self.copy.files if _CHECKPOINT.fullmatch(name)]
        return LogFiles(checkpoints, [log / name_of(version) for version in newer])

    def history(self, limit: int | None = None) -> list[dict[str, Any]]:
        """The newest commits first. Without a limit, older versions are copied before."""
        if limit is None and 0 not in self.copy.commits:
            with _as_destination():
                commits = filter(_COMMIT.fullmatch, _listed(self._slots))
                older = [n for n in commits if not (self.copy.log / n).exists()]
                _download(self._slots, older, self.copy.log)
        return super().history(limit)


@dataclass(frozen=True)
class StoreLogs:
    """Logs in a store. Thread-safe, as long as no table is changed by two threads at once.

    Attributes:
        root: a URL that all tables are below.
        open_root: opens the store of that URL.
    """

    root: str
    open_root: Callable[[], Slots]
    _copies: dict[str, _LogCopy] = field(default_factory=dict, init=False)

    @cached_property
    def _slots(self) -> Slots:
        return self.open_root()

    def slots(self, table: str) -> Slots:
        """The files of a table."""
        return SlotsBelow(self._slots, table.removeprefix(self.root).strip("/"))

    def load(self, table: str) -> CopiedTable | None:
        """See ``TableLogs``."""
        with _as_destination():
            slots = self.slots(table)
            copy = self._copy(table, slots)
        return None if copy is None else CopiedTable(copy, slots)

    def create(
        self,
        table: str,
        columns: Schema,
        by: Sequence[str],
        configuration: Mapping[str, str],
        amend: Amend | None = None,
    ) -> None:
        """See ``TableLogs``; ``amend`` as of ``amending``."""
        folder = _CopyFolder()
        DeltaTable.create(
            folder.path,
            columns,
            mode="ignore",
            partition_by=[*by],
            configuration=dict(configuration),
        )
        self._publish(_LogCopy(table, folder, (), -1, frozenset()), configuration, amend)

    @contextmanager
    def committing(self, loaded: LoadedTable) -> Iterator[None]:
        """See ``TableLogs``."""
        with self.amending(loaded, None):
            yield

    @contextmanager
    def amending(self, loaded: LoadedTable, amend: Amend | None) -> Iterator[None]:
        """Do as ``committing`` does; ``amend`` changes the actions of the version before.

        delta-rs must make no checkpoint of the version: it would not know what is changed.
        """
        assert isinstance(loaded, CopiedTable)  # loaded here
        yield
        self._publish(loaded.copy, loaded.metadata().configuration, amend)

    def _publish(
        self, copy: _LogCopy, configuration: Mapping[str, str | None], amend: Amend | None
    ) -> None:
        """Make the version that a copy got the table's next one, then a checkpoint if due.

        With a checkpoint, versions leave the log that are older than the table keeps them.

        Raises:
            CommitFailedError: another writer has made that version, or this one before an answer
                was lost: the table has to be read again.
        """
        version = copy.version + 1
        written = copy.log / name_of(version)
        # A CREATE TABLE names the folder that it was made in.
        body = written.read_bytes().replace(copy.folder.path.as_uri().encode(), copy.table.encode())
        if amend is not None:
            actions = amend(list(map(json.loads, body.splitlines())))
            body = b"".join(json.dumps(action).encode() + b"\n" for action in actions)
        with _as_destination():
            slots = self.slots(copy.table)
            if slots.create(f"{LOG}/{written.name}", body) is Created.TAKEN:
                raise CommitFailedError(f"version {version} exists")
        written.write_bytes(body)
        made = replace(copy, commits=(*copy.commits, version), files=copy.files | {written.name})
        self._copies[copy.table] = made
        with _as_destination():
            if (with_checkpoint := _checkpoint(made, configuration, slots)) is not made:
                self._copies[copy.table] = with_checkpoint
                delete_expired(slots, configuration, datetime.now(UTC))

    def files(self, loaded: LoadedTable) -> Sequence[LogFile]:
        """See ``TableLogs``. The time of a file is when its version was committed."""
        with _as_destination():
            slots = self.slots(loaded.url)
            found = [*slots.list_after(f"{LOG}/")]
        return [
            LogFile(name, stat.size, partial(_time_of_file, slots, name))
            for stat in found
            if "/" not in (name := stat.key.removeprefix(f"{LOG}/"))
        ]

    def failed(self, text: str) -> str:
        """See ``TableLogs``. A store's errors have no secrets, and it reads them again itself."""
        self._copies.clear()
        return text

    def _copy(self, table: str, slots: Slots) -> _LogCopy | None:
        """Copy the newest part of a log; None if there is no log."""
        last = self._copies.get(table)
        names = _listed(slots, last.first) if last else []
        if last is None or not last.is_of(slots, names):
            last = None
            names = _listed(slots, max(0, _hinted(slots) - BEFORE))
        chosen = _NewestFiles.of(names)
        if chosen is None and names != (every := _listed(slots)):  # the hint is only a hint
            names, chosen = every, _NewestFiles.of(every)
        if chosen is None:
            if any(map(_COMMIT.fullmatch, names)):
                raise LogUnreadable(
                    "its log has no version 0, and no checkpoint of one or more parts"
                )
            return None
        folder = _CopyFolder()
        copy = _LogCopy(table, folder, chosen.commits, chosen.checkpoint, chosen.files)
        copy.log.mkdir()
        known = last.files & chosen.files if last else frozenset()
        for name in known:
            os.link((last or copy).log / name, copy.log / name)
        _download(slots, chosen.files - known, copy.log)
        self._copies[table] = copy
        return copy


@dataclass(frozen=True)
class _NewestFiles:
    """The files of a log that are its newest version.

    Attributes:
        checkpoint: the version of the newest checkpoint; -1 without.
        commits: the versions after it, and a few before, in order.
        files: their names.
    """

    checkpoint: int
    commits: tuple[int, ...]
    files: frozenset[str]

    @classmethod
    def of(cls, names: Sequence[str]) -> "_NewestFiles | None":
        """Choose among the names in a log; None if neither version 0 nor a checkpoint is there.

        Raises:
            DestinationAway: a version is missing, as in a listing to which later ones were added.
        """
        commits = [int(found[1]) for name in names if (found := _COMMIT.fullmatch(name))]
        checkpoints = _checkpoints(names)
        checkpoint = max(checkpoints, default=-1)
        if checkpoint < 0 and 0 not in commits:
            return None
        newest = max(checkpoint, *commits) if commits else checkpoint
        later = [version for version in commits if version > checkpoint]
        if later != [*range(checkpoint + 1, newest + 1)]:
            raise DestinationAway(f"its log lacks a version between {checkpoint} and {newest}")
        first = min(checkpoint + 1, newest - BEFORE + 1)
        wanted = tuple(version for version in commits if version >= first)
        files = frozenset([*map(name_of, wanted), *checkpoints.get(checkpoint, ())])
        return cls(checkpoint, wanted, files)


def _checkpoints(names: Sequence[str]) -> dict[int, list[str]]:
    """The files of complete checkpoints, by version; a whole one rather than one in parts."""
    found = dict[int, list[str]]()
    parts = defaultdict[tuple[int, int], list[str]](list)
    for name in names:
        if (matched := _CHECKPOINT.fullmatch(name)) is None:
            continue
        if matched[2] is None:
            found[int(matched[1])] = [name]
        else:
            parts[int(matched[1]), int(matched[2])].append(name)
    for (version, count), of_one in parts.items():
        if len(of_one) == count:
            found.setdefault(version, of_one)
    return found


def _listed(slots: Slots, first: int = 0) -> list[str]:
    """The names of a log's files, in order, from a version on."""
    found = slots.list_after(f"{LOG}/", f"{LOG}/{first:020}")
    return [stat.key.removeprefix(f"{LOG}/") for stat in found]


def _hinted(slots: Slots) -> int:
    """The version of the newest checkpoint, by the hint; 0 without."""
    try:
        return int(json.loads(slots.read(f"{LOG}/{_HINT}") or b"{}").get("version", 0))
    except (ValueError, TypeError, AttributeError):
        return 0


def _download(slots: Slots, names: Collection[str], into: Path) -> None:
    def fetch(name: str) -> None:
        body = slots.read(f"{LOG}/{name}")
        if body is None:
            raise DestinationAway(f"{LOG}/{name} is gone since its log was listed")
        (into / name).write_bytes(body)

    if names:
        with ThreadPoolExecutor(min(READERS, len(names))) as pool:
            list(pool.map(fetch, names))


def _checkpoint(copy: _LogCopy, configuration: Mapping[str, str | None], slots: Slots) -> _LogCopy:
    """Upload the checkpoint that a commit has made, or make one if enough versions have none."""
    if not (made := _new_checkpoints(copy)):
        interval = configuration.get(_INTERVAL) or ""
        due = int(interval) if interval.isdecimal() else _DEFAULT_INTERVAL
        if copy.version - copy.checkpoint < due:
            return copy
        DeltaTable(copy.folder.path).create_checkpoint()
        made = _new_checkpoints(copy)
    for name in made:
        slots.create(f"{LOG}/{name}", (copy.log / name).read_bytes())  # one of the same version
    slots.overwrite(f"{LOG}/{_HINT}", (copy.log / _HINT).read_bytes())
    return replace(copy, checkpoint=max(map(_version_of, made)), files=copy.files | {*made})


def _new_checkpoints(copy: _LogCopy) -> list[str]:
    found = (path.name for path in copy.log.iterdir())
    return sorted(n for n in found if _CHECKPOINT.fullmatch(n) and n not in copy.files)


def _version_of(name: str) -> int:
    return int(name[:20])


def _time_of_file(slots: Slots, name: str) -> datetime | None:
    if not name[:20].isdecimal():
        return None
    with _as_destination():
        return time_of(slots, _version_of(name))


@contextmanager
def _as_destination() -> Iterator[None]:
    """Raise a store's errors as a destination's."""
    try:
        yield
    except StoreDenied as error:
        raise DestinationDenied(str(error)) from error
    except StoreAway as error:
        raise DestinationAway(str(error)) from error
