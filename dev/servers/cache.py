"""What is built once per machine and kept outside the tree.

A build is a folder whose name holds its version and a hash of its recipe. It is made under another
name and renamed when it is whole, so a build that was interrupted never counts as done, and two
sessions that want it at once make it once.
"""

import fcntl
import hashlib
import os
import shutil
import subprocess
import sys
import tempfile
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from pathlib import Path
from time import monotonic


class Missing(Exception):  # noqa: N818  # a person reads it: what is missing
    """Something this machine lacks, or a step that failed; the text says what to do about it."""


def folder() -> Path:
    """Where builds live: ``$LANDFALL_CACHE``, else ``landfall`` in the user's cache folder."""
    chosen = os.environ.get("LANDFALL_CACHE")
    user_cache = os.environ.get("XDG_CACHE_HOME") or str(Path.home() / ".cache")
    return Path(chosen) if chosen else Path(user_cache) / "landfall"


@contextmanager
def locked(path: Path) -> Iterator[None]:
    """Hold a lock that dies with this process."""
    path.parent.mkdir(parents=True, exist_ok=True)
    with path.open("w") as lock:
        fcntl.flock(lock, fcntl.LOCK_EX)
        yield


def tool(name: str, wanted_for: str, package: str) -> str:
    """The path of a program.

    Raises:
        Missing: it is not on PATH; says what it is for and which package brings it.
    """
    found = shutil.which(name)
    if not found:
        raise Missing(
            f"{wanted_for} needs `{name}`, which is not on PATH (Debian: apt-get install {package})"
        )
    return found


def run(argv: Sequence[str], env: Mapping[str, str] | None = None, stdin: str = "") -> None:
    """Run a build step quietly.

    Raises:
        Missing: it failed; carries the end of its output.
    """
    done = subprocess.run(
        argv,
        env={**os.environ, **(env or {})},
        input=stdin,
        capture_output=True,
        text=True,
        check=False,
    )
    if done.returncode:
        output = "\n".join((done.stdout + done.stderr).strip().splitlines()[-20:])
        raise Missing(f"`{' '.join(argv)}` failed with exit code {done.returncode}:\n{output}")


def built(name: str, recipe: str, build: Callable[[Path], None], announcement: str) -> Path:
    """The folder of a finished build, made by ``build(folder)`` if this machine has none yet."""
    done = folder() / f"{name}-{hashlib.sha256(recipe.encode()).hexdigest()[:12]}"
    if done.is_dir():
        return done
    with locked(folder() / f".{done.name}.lock"):
        if done.is_dir():
            return done
        print(announcement, file=sys.stderr, flush=True)
        begun = monotonic()
        with tempfile.TemporaryDirectory(
            prefix=f".{name}-", dir=folder(), ignore_cleanup_errors=True
        ) as making:
            whole = Path(making) / "build"
            whole.mkdir()
            build(whole)
            whole.rename(done)
        print(
            f"{name} built in {monotonic() - begun:.0f} s, kept in {done}",
            file=sys.stderr,
            flush=True,
        )
    return done
