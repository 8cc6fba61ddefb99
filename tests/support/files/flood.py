"""Many files, of which some are late, half written, written anew or damaged; and what must land."""

import json
import time
from collections import Counter
from collections.abc import Callable, Iterator, Mapping, Sequence
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass
from datetime import UTC, datetime, timedelta
from enum import StrEnum
from functools import cached_property
from random import Random

IDS = 10
"""Ids that each file has for itself: the first ones for its first version."""
ROWS = 3
"""Rows of each version of a file."""
HALF_SECONDS = 1.0
"""How long a half written file stands there."""
APART = 100
"""How many files are written at least between two versions of one."""
_FIRST_HOUR = datetime(2026, 11, 1, tzinfo=UTC)


class Fate(StrEnum):
    """What becomes of a file."""

    PLAIN = "is written once, with a name after all before"
    LATE = "is written once, with a name before others that were there first"
    HALF = "is seen half written"
    ANEW = "is written anew, perhaps after it has landed"
    BROKEN = "can never be read"


@dataclass(frozen=True)
class Share:
    """How many files of each fate there are.

    Attributes:
        files: of all fates.
        late, half, anew, broken: of these.
    """

    files: int = 100_000
    late: int = 10_000
    half: int = 500
    anew: int = 1_000
    broken: int = 50

    @staticmethod
    def of(files: int) -> "Share":
        """The same shares of another number of files."""
        whole = Share()
        shares = (whole.late, whole.half, whole.anew, whole.broken)
        return Share(files, *(max(1, share * files // whole.files) for share in shares))


@dataclass(frozen=True)
class Flood:
    """Files, and the order in which they are written.

    Attributes:
        share: how many there are.
        seed: of their order and names.
    """

    share: Share
    seed: int

    @cached_property
    def fates(self) -> tuple[Fate, ...]:
        """By number of the file."""
        share = self.share
        found = [Fate.LATE] * share.late + [Fate.HALF] * share.half
        found += [Fate.ANEW] * share.anew + [Fate.BROKEN] * share.broken
        found += [Fate.PLAIN] * (share.files - len(found))
        Random(self.seed).shuffle(found)
        return tuple(found)

    def name(self, number: int) -> str:
        """The name of a file: its hour and number; of a late one, an hour that is long over."""
        fate, random = self.fates[number], Random(f"{self.seed} {number}")
        hour = number * 24 // self.share.files
        if fate is Fate.LATE:
            hour = random.randint(0, hour)
        time = _FIRST_HOUR + timedelta(hours=hour)
        late, end = ("-late" if fate is Fate.LATE else "", "gz" if fate is Fate.BROKEN else "json")
        return f"{time:%Y/%m/%d/%H}/{number:06d}{late}.{end}"

    def write(self, put: Callable[[str, bytes], None], threads: int = 8) -> None:
        """Write all files, each in the end as it is to land."""

        def write(versions: Sequence[tuple[str, bytes]]) -> None:
            for number, (name, body) in enumerate(versions):
                if number:
                    time.sleep(HALF_SECONDS)
                put(name, body)

        for jobs in (self._first_jobs(), self._last_jobs()):
            with ThreadPoolExecutor(threads) as pool:
                list(pool.map(write, jobs))

    @cached_property
    def _anew_at(self) -> Mapping[int, int]:
        """Files that are written anew, by the number of the file that is written next.

        There are many files between the two versions, so that no two threads write one file.
        """
        random, found = Random(self.seed), dict[int, int]()
        for number in (n for n, fate in enumerate(self.fates) if fate is Fate.ANEW):
            later = random.randint(number + APART, number + self.share.files // 2)
            while later in found:
                later += 1
            found[later] = number
        return found

    def _first_jobs(self) -> Iterator[Sequence[tuple[str, bytes]]]:
        for number, fate in enumerate(self.fates):
            name, whole = self.name(number), _rows(number, 0, ROWS)
            if fate is Fate.BROKEN:
                yield ((name, b"this is no gzip"),)
            elif fate is Fate.HALF:
                # Of a row that nobody else has, and cut off in it: it must never land.
                yield (name, _rows(number, IDS - 1, 1)[:-4]), (name, whole)
            else:
                yield ((name, whole),)
            if number in self._anew_at:
                yield (self._anew(self._anew_at[number]),)

    def _last_jobs(self) -> Iterator[Sequence[tuple[str, bytes]]]:
        for later, number in self._anew_at.items():
            if later >= self.share.files:
                yield (self._anew(number),)

    def _anew(self, number: int) -> tuple[str, bytes]:
        return self.name(number), _rows(number, ROWS, ROWS + 1)

    def wrong(self, landed: Counter[int]) -> list[str]:
        """What landed otherwise than once; of a file that was written anew, both versions may."""
        found = Counter(dict.fromkeys(self._must(), 1))
        found.subtract(landed)
        wrong: list[str] = []
        for number, difference in found.items():
            file, row = divmod(number, IDS)
            is_first_of_two = self.fates[file] is Fate.ANEW and row < ROWS
            allowed = (0, 1) if is_first_of_two else (0,)
            if difference not in allowed:
                wrong.append(f"{self.name(file)}, row {row}: {landed[number]} times")
        for number, fate in enumerate(self.fates):
            first = [landed[number * IDS + row] for row in range(ROWS)]
            if fate is Fate.ANEW and len({*first}) != 1:
                wrong.append(f"{self.name(number)}: a part of its first version landed: {first}")
        return wrong

    def _must(self) -> Iterator[int]:
        for number, fate in enumerate(self.fates):
            if fate is Fate.BROKEN:
                continue
            rows = 2 * ROWS + 1 if fate is Fate.ANEW else ROWS
            yield from range(number * IDS, number * IDS + rows)

    @property
    def broken(self) -> set[str]:
        """The names of those that can never be read."""
        return {self.name(n) for n, fate in enumerate(self.fates) if fate is Fate.BROKEN}


def _rows(file: int, first: int, count: int) -> bytes:
    ids = (file * IDS + row for row in range(first, first + count))
    return b"".join(json.dumps({"id": each}).encode() + b"\n" for each in ids)
