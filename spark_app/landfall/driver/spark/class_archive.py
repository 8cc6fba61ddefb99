"""An archive of Spark's classes, with which the JVM starts with half the CPU time.

A JVM reads, checks and links ten thousand classes when Spark starts. From an archive (class data
sharing, see ``java -XX:ArchiveClassesAtExit``) it maps them into memory as they were. A JVM that
finds an archive of another Java, or of other jars, leaves it alone and starts as without one, so
that an archive can make a start slower at worst.

The archive is a file in the user's cache (``~/.cache/landfall``, 70 MB). The second local run
makes it: its JVM writes the file when it ends, which takes some seconds. Where Landfall runs once,
as in a container that is thrown away, that would be in vain, so the first run only leaves a note.
``LANDFALL_SPARK_ARCHIVE`` names another file, or none if it is empty. The image has a file that its
build has made (``docker/archive_classes.py``), for the drivers and executors of a cluster.
"""

import hashlib
import logging
import os
import subprocess
import time
from collections.abc import Iterator, Mapping
from contextlib import suppress
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING

from landfall.driver.spark.gateway_jvm import class_path, java, spark_home

if TYPE_CHECKING:
    from py4j.java_gateway import JavaGateway

log = logging.getLogger(__name__)

VARIABLE = "LANDFALL_SPARK_ARCHIVE"
"""The environment variable with the file; empty for no archive."""
QUIET = "-Xlog:cds=off -Xlog:cds+dynamic=off"
"""Without these flags, a JVM that cannot use an archive prints this on standard output."""
WRITING_SECONDS = 60.0
"""How long a JVM may take to write the archive and end."""
LEFT_OVER_SECONDS = 3600.0
"""The age from which an archive that is not whole was left by a JVM that was killed."""
_UNQUOTABLE = frozenset('"\\')


@dataclass(frozen=True, slots=True)
class ClassArchive:
    """The archive of one Java and one set of jars.

    Attributes:
        path: where it is, or will be.
        making: the file that this process's JVM writes when it ends; None if there is an archive.
    """

    path: Path
    making: Path | None

    @property
    def flags(self) -> str:
        """For the JVM: to use the archive, or to write it."""
        if self.making is None:
            return f'"-XX:SharedArchiveFile={self.path}" {QUIET}'
        return f'"-XX:ArchiveClassesAtExit={self.making}" {QUIET}'

    def keep(self, gateway: "JavaGateway") -> None:
        """Let the JVM end, and keep what it writes; a failure costs only the next start's time.

        Spark must have been stopped.
        """
        if self.making is None:
            return
        try:
            gateway.shutdown()
            gateway.proc.stdin.close()
            # The JVM writes to a file of its own: no other process sees half an archive.
            if gateway.proc.wait(WRITING_SECONDS) == 0:
                self.making.replace(self.path)
        except (OSError, subprocess.TimeoutExpired) as error:
            log.info("class archive not made", extra={"why": str(error)})
        finally:
            self.making.unlink(missing_ok=True)


def class_archive(environment: Mapping[str, str]) -> ClassArchive | None:
    """Return the archive to use or to make; None where there cannot be one, and for a first run."""
    try:
        path = _path(environment)
        if path is None or _UNQUOTABLE & set(str(path)):
            return None
        if path.exists():
            return ClassArchive(path, None)
        path.parent.mkdir(parents=True, exist_ok=True)
        _remove_left_over(path)
        note = path.with_suffix(".started")
        if not note.exists():
            note.touch()
            return None
    except OSError:
        return None
    return ClassArchive(path, path.with_suffix(f".{os.getpid()}.new"))


def check_use(file: Path, pid: int) -> None:
    """Log a warning if a JVM runs without the archive that it was given.

    It costs only time, and nothing else would show it. Where the system does not show which files a
    process has mapped, nothing is logged.
    """
    with suppress(OSError):
        if file.exists() and str(file) not in Path(f"/proc/{pid}/maps").read_text():
            log.warning("class archive not used", extra={"file": str(file)})


def _path(environment: Mapping[str, str]) -> Path | None:
    named = environment.get(VARIABLE)
    if named is not None:
        return Path(named).absolute() if named else None
    program, home = java(environment), spark_home(environment)
    if program is None or home is None:
        return None
    cache = Path(environment.get("XDG_CACHE_HOME") or Path.home() / ".cache")
    return cache / "landfall" / f"spark-{_digest(program, home)}.jsa"


def _digest(program: Path, home: Path) -> str:
    """Different for each Java, set of jars and class path; the JVM itself checks that they fit."""
    jars = home / "jars"
    versions = "\n".join([*_versions(program), *_versions(jars), class_path(home)])
    return hashlib.sha256(versions.encode()).hexdigest()[:16]


def _versions(path: Path) -> Iterator[str]:
    for file in [path] if path.is_file() else sorted(path.iterdir()):
        found = file.stat()
        yield f"{file} {found.st_size} {found.st_mtime_ns}"


def _remove_left_over(path: Path) -> None:
    for file in path.parent.glob(f"{path.stem}.*.new"):
        with suppress(FileNotFoundError):
            if time.time() - file.stat().st_mtime > LEFT_OVER_SECONDS:
                file.unlink()
