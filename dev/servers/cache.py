"""Programs that are built once per machine and kept outside the source tree.

A build is a folder whose name contains its version and a hash of its recipe. It is made under
another name and renamed when it is complete, so an interrupted build never counts as done. A lock
ensures that two processes that need it at the same time build it once.
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

_MAVEN_COPY = "org.apache.maven.plugins:maven-dependency-plugin:3.8.1:copy"
_PLATFORM = "import duckdb; print(duckdb.execute('pragma platform').fetchone()[0])"


class MissingTool(Exception):  # noqa: N818  # names the state
    """This machine lacks something, or a step failed; the message explains what to do."""


def folder() -> Path:
    """The folder of all builds: ``$LANDFALL_CACHE``, else ``landfall`` in the user's cache."""
    chosen = os.environ.get("LANDFALL_CACHE")
    user_cache = os.environ.get("XDG_CACHE_HOME") or str(Path.home() / ".cache")
    return Path(chosen) if chosen else Path(user_cache) / "landfall"


@contextmanager
def locked(path: Path) -> Iterator[None]:
    """Hold a file lock; the kernel releases it when this process ends."""
    path.parent.mkdir(parents=True, exist_ok=True)
    with path.open("w") as lock:
        fcntl.flock(lock, fcntl.LOCK_EX)
        yield


def tool(name: str, needed_for: str, package: str) -> str:
    """The path of a program.

    Raises:
        MissingTool: It is not on PATH; the message names its purpose and its Debian package.
    """
    found = shutil.which(name)
    if not found:
        raise MissingTool(
            f"{needed_for} needs `{name}`, which is not on PATH (Debian: apt-get install {package})"
        )
    return found


def run(
    argv: Sequence[str],
    env: Mapping[str, str] | None = None,
    stdin: str = "",
    cwd: Path | None = None,
) -> None:
    """Run a build step without showing its output.

    Raises:
        MissingTool: It failed; the message contains the end of its output.
    """
    done = subprocess.run(
        argv,
        cwd=cwd,
        env={**os.environ, **(env or {})},
        input=stdin,
        capture_output=True,
        text=True,
        check=False,
    )
    if done.returncode:
        output = "\n".join((done.stdout + done.stderr).strip().splitlines()[-20:])
        raise MissingTool(f"`{' '.join(argv)}` failed with exit code {done.returncode}:\n{output}")


def fetch(artifacts: Mapping[str, str], target: Path, needed_for: str) -> list[Path]:
    """Download artifacts of Maven Central into a folder; returns their files in the same order.

    Args:
        artifacts: the SHA-256 of each file, by coordinates ``group:name:version[:type[:class]]``.
        target: the folder.
        needed_for: what needs them, for the message if this machine has no Maven.

    Raises:
        MissingTool: there is no Maven, a download failed, or a file has another SHA-256.
    """
    mvn, files = tool("mvn", needed_for, "maven"), []
    for artifact, expected in artifacts.items():
        options = [f"-Dartifact={artifact}", f"-DoutputDirectory={target}"]
        run([mvn, "-q", "-B", "-C", "-ntp", _MAVEN_COPY, *options])
        _, name, version, *kind = artifact.split(":")
        suffix = "".join(f"-{classifier}" for classifier in kind[1:])
        files.append(target / f"{name}-{version}{suffix}.{kind[0] if kind else 'jar'}")
        with files[-1].open("rb") as opened:
            found = hashlib.file_digest(opened, "sha256").hexdigest()
        if found != expected:
            raise MissingTool(f"{artifact} has SHA-256 {found}, expected {expected}")
    return files


def virtualenv(folder: Path, pins: Path, python: str = sys.executable) -> Path:
    """Make a virtual environment with exactly the pinned packages; returns its Python.

    Call it by that path, also after the folder was renamed: scripts of the environment name the
    folder where they were made.

    Raises:
        MissingTool: an installation failed, or a package has another hash.
    """
    run([python, "-m", "venv", str(folder)])
    own = folder / "bin/python"
    pip = [str(own), "-m", "pip", "install", "-q", "--disable-pip-version-check", "--no-deps"]
    run([*pip, "--require-hashes", "-r", str(pins)])
    return own


def copy_duckdb_extensions(python: Path, target: Path, names: Sequence[str]) -> None:
    """Copy extensions of DuckDB from their packages to a folder where DuckDB looks for them.

    Args:
        python: of a virtual environment with DuckDB and the packages of its extensions.
        target: the extension directory.
        names: of the extensions.
    """
    done = subprocess.run([python, "-c", _PLATFORM], capture_output=True, text=True, check=True)
    packages = python.parents[1]
    for name in names:
        (source,) = packages.glob(f"lib/*/site-packages/duckdb_extension_{name}/extensions/*/*")
        folder = target / source.parent.name / done.stdout.strip()
        folder.mkdir(parents=True, exist_ok=True)
        shutil.copy(source, folder)


def built(name: str, recipe: str, build: Callable[[Path], None], announcement: str) -> Path:
    """The folder of a finished build; ``build(folder)`` makes it if this machine has none yet."""
    done = folder() / f"{name}-{hashlib.sha256(recipe.encode()).hexdigest()[:12]}"
    if done.is_dir():
        return done
    with locked(folder() / f".{done.name}.lock"):
        if done.is_dir():
            return done
        print(announcement, file=sys.stderr, flush=True)
        began = monotonic()
        with tempfile.TemporaryDirectory(
            prefix=f".{name}-", dir=folder(), ignore_cleanup_errors=True
        ) as scratch:
            complete = Path(scratch) / "build"
            complete.mkdir()
            build(complete)
            complete.rename(done)
        print(
            f"{name} built in {monotonic() - began:.0f} s, kept in {done}",
            file=sys.stderr,
            flush=True,
        )
    return done
