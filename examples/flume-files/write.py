"""Writes files as Flume and other programs leave them, and dates them in the last two full hours.

    python examples/flume-files/write.py FOLDER first|mended|second

``first`` writes those of the first hour, one of which is cut off, and one that is still written;
``mended`` writes the one that was cut off as a whole; ``second`` writes those of the second hour,
one of the first hour that comes late, and one anew that was there before. ``first`` prints when
its hour ends, as a variable of the shell.
"""

import gzip
import json
import os
import sys
from datetime import UTC, datetime, timedelta
from pathlib import Path

HOSTS = ("web1", "web2")
HOUR, MINUTE = timedelta(hours=1), timedelta(minutes=1)
BROKEN = 30
"""The minute of the first hour at which the file of the second host begins that is cut off."""


def first_hour(now: datetime) -> datetime:
    """When the first of the hours begins; the last one has ended six minutes ago at least."""
    ended = (now - 6 * MINUTE).replace(minute=0, second=0, microsecond=0)
    return ended - 2 * HOUR


def rows(host: str, begins: datetime, minutes: int, each: int = 2) -> bytes:
    """Hits of a host, so many a minute, as gzipped lines of JSON."""
    lines = []
    for number in range(minutes * each):
        at = begins + number * MINUTE / each
        fields = {"id": int(at.timestamp()), "at": f"{at:%Y-%m-%dT%H:%M:%SZ}", "host": host}
        lines.append(json.dumps(fields) + "\n")
    return gzip.compress("".join(lines).encode(), mtime=0)


def write(folder: Path, name: str, body: bytes, at: datetime) -> None:
    """Write a file, as if it had been closed at this time."""
    path = folder / name
    path.parent.mkdir(parents=True, exist_ok=True)
    path.write_bytes(body)
    os.utime(path, (at.timestamp(), at.timestamp()))


def name_of(host: str, begins: datetime, ending: str = ".gz") -> str:
    """The name of a file by Flume, which rolls it every half an hour."""
    return f"{host}/{begins:%Y-%m-%d/%H}/FlumeData.{int(begins.timestamp() * 1000)}{ending}"


def write_hour(folder: Path, hour: datetime) -> None:
    """The files of an hour: two of each host, and one of another program."""
    for host in HOSTS:
        for begins in (hour, hour + 30 * MINUTE):
            write(folder, name_of(host, begins), rows(host, begins, 30), begins + 31 * MINUTE)
    feed = f"batch/{hour:%Y-%m-%d}/hourly_feed.{hour:%H}.gz"
    write(folder, feed, rows("batch", hour, 60, 1), hour + 62 * MINUTE)


def first(folder: Path, hour: datetime) -> None:
    """One file is cut off, and two are still written."""
    write_hour(folder, hour)
    broken, body = hour + BROKEN * MINUTE, rows("web2", hour, 30)
    write(folder, name_of("web2", broken), body[:10], broken + 31 * MINUTE)
    begins = hour + HOUR
    open_name = name_of("web1", begins, ".gz.tmp")
    write(folder, open_name, rows("web1", begins, 3), begins + 3 * MINUTE)
    write(folder, "batch/hourly_feed_current.gz", rows("batch", begins, 3, 1), begins + 3 * MINUTE)


def mended(folder: Path, hour: datetime) -> None:
    """The file that was cut off is written as a whole."""
    begins = hour + BROKEN * MINUTE
    write(folder, name_of("web2", begins), rows("web2", begins, 30), begins + 45 * MINUTE)


def second(folder: Path, hour: datetime) -> None:
    """Those of the second hour, a late one of the first, and one with the same rows anew."""
    (folder / name_of("web1", hour + HOUR, ".gz.tmp")).unlink()
    write_hour(folder, hour + HOUR)
    late = f"web1/{hour:%Y-%m-%d/%H}/FlumeData.0.gz"
    write(folder, late, rows("web1-spool", hour + 50 * MINUTE, 10, 1), hour + HOUR + 20 * MINUTE)
    body = gzip.decompress(rows("web1", hour, 30))
    write(folder, name_of("web1", hour), gzip.compress(body, 1), hour + HOUR + 25 * MINUTE)


STEPS = {"first": first, "mended": mended, "second": second}


def main(folder: str, step: str) -> None:
    """Write what a step has."""
    hour = first_hour(datetime.now(UTC))
    STEPS[step](Path(folder), hour)
    if step == "first":
        sys.stdout.write(f"export HOUR={hour + HOUR:%Y-%m-%dT%H}\n")


if __name__ == "__main__":
    main(*sys.argv[1:])
