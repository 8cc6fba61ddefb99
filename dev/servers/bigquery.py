"""A BigQuery server: local-bigquery over DuckDB, with a Cloud Storage server to load from.

It runs load jobs of Avro and Parquet, knows ids of jobs, and loads all of a job or nothing. It
needs a newer Python than Landfall and a release of DuckDB whose extensions are not packaged; it
runs with the last release whose extensions are.

``LANDFALL_BIGQUERY`` names the address of an existing server to use instead, and ``LANDFALL_GCS``
the Cloud Storage that it reads.
"""

import os
import shutil
import subprocess
from collections.abc import Iterator
from pathlib import Path
from urllib.error import HTTPError, URLError
from urllib.request import urlopen

from dev.servers import cache
from dev.servers.gcs import GCS
from dev.servers.server import Server, ServerKind

PINS = Path(__file__).resolve().parents[2] / "requirements/bigquery-emulator.txt"
OLDEST_PYTHON = (3, 13)
EXTENSIONS = ("icu", "ducklake", "httpfs", "spatial")
_MAIN = "from local_bigquery.cli import main; main()"


def python() -> str:
    """The path of a Python that is new enough.

    Raises:
        Missing: this machine has none.
    """
    oldest = ".".join(map(str, OLDEST_PYTHON))
    test = f"import sys; sys.exit(sys.version_info < {OLDEST_PYTHON})"
    for candidate in _pythons():
        done = subprocess.run([candidate, "-c", test], capture_output=True, check=False)
        if done.returncode == 0:
            return candidate
    raise cache.MissingTool(
        f"the BigQuery server needs Python {oldest} or newer, as python{oldest} on PATH"
    )


def _pythons() -> Iterator[str]:
    for name in ("python3", "python3.13", "python3.14", "python3.15"):
        if found := shutil.which(name):
            yield found
    yield from map(str, sorted(Path.home().glob(".pyenv/versions/3.1[3-9]*/bin/python3")))


def _build_into(folder: Path) -> None:
    own = cache.virtualenv(folder / "venv", PINS, python())
    cache.copy_duckdb_extensions(own, folder / ".duckdb/extensions", EXTENSIONS)


def _build() -> Path:
    GCS.build()
    announcement = "installing local-bigquery, a BigQuery server (once, about a minute, 450 MB)"
    return cache.built("bigquery", PINS.read_text(), _build_into, announcement)


def _command(
    programs: Path, home: Path, host: str, ports: tuple[int, ...]
) -> tuple[list[str], str]:
    gcs = Server(GCS, home.parent, host).up().address
    data = home / "data"
    data.mkdir(exist_ok=True)
    environment = [f"HOME={programs}", f"STORAGE_EMULATOR_HOST={gcs}"]
    # The script's first line names the environment's first folder, so Python is called directly.
    argv = [str(programs / "venv/bin/python"), "-c", _MAIN, "--host", host]
    argv += ["--port", str(ports[0]), "--grpc-port", str(ports[1]), "--data-dir", str(data)]
    return [shutil.which("env") or "env", *environment, *argv], str(data)


def _ready(log: Path, host: str, port: int) -> bool:
    del log
    try:
        with urlopen(f"http://{host}:{port}/bigquery/v2/projects/p/datasets", timeout=1):
            return True
    except HTTPError:
        return True
    except (URLError, OSError):
        return False


def _env(address: str) -> dict[str, str]:
    return {"LANDFALL_BIGQUERY": address} | {
        name: os.environ[name] for name in ("LANDFALL_GCS",) if name in os.environ
    }


BIGQUERY = ServerKind(
    name="bigquery",
    existing="LANDFALL_BIGQUERY",
    ports=2,
    build=_build,
    command=_command,
    ready=_ready,
    address=lambda host, port: f"http://{host}:{port}",
    env=_env,
)
