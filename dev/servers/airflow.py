"""A real Airflow with all its parts, and its data in a file of SQLite: ``airflow standalone``.

Its packages conflict with Landfall's, so it has a virtual environment of its own. ``landfall`` may
log in, with the password ``landfall``. The DAGs come from the folder in ``LANDFALL_AIRFLOW_DAGS``,
else of ``examples/publish``; they run, and new ones are found within seconds.

``LANDFALL_AIRFLOW`` names the address of an existing server to use instead.
"""

import json
import os
import shutil
import sys
from collections.abc import Mapping
from pathlib import Path
from urllib.error import URLError
from urllib.request import urlopen

from dev.servers import cache
from dev.servers.server import ServerKind

DAGS = "LANDFALL_AIRFLOW_DAGS"
USER = PASSWORD = "landfall"  # noqa: S105  # of a server that only this machine reaches
_ROOT = Path(__file__).resolve().parents[2]
PINS = _ROOT / "requirements/airflow.txt"
_PARTS = ("metadatabase", "scheduler", "dag_processor")
# Airflow stops its parts after Ctrl+C only.
_MAIN = (
    "import signal, sys; from airflow.__main__ import main; "
    "signal.signal(signal.SIGTERM, signal.default_int_handler); "
    "sys.argv = ['airflow', 'standalone']; main()"
)
# pip's script names the folder in which the environment was created, which is renamed.
_SCRIPT = '#!/bin/sh\nexec "$(dirname "$0")/../venv/bin/python" -m airflow "$@"\n'


def _build_into(folder: Path) -> None:
    cache.virtualenv(folder / "venv", PINS)
    script = folder / "bin/airflow"
    script.parent.mkdir()
    script.write_text(_SCRIPT)
    script.chmod(0o755)


def _build() -> Path:
    announcement = "installing Airflow (once, about a minute, 200 MB)"
    # A virtual environment belongs to one version of Python.
    recipe = f"{PINS.read_text()}{_SCRIPT}{sys.version_info[:2]}"
    return cache.built("airflow", recipe, _build_into, announcement)


def _command(
    programs: Path, home: Path, host: str, ports: tuple[int, ...]
) -> tuple[list[str], str]:
    passwords = home / "passwords.json"
    passwords.write_text(json.dumps({USER: PASSWORD}))
    settings = _settings(f"http://{host}:{ports[0]}", passwords)
    settings |= {"API__HOST": host, "API__PORT": str(ports[0])}
    settings |= {"LOGGING__WORKER_LOG_SERVER_PORT": str(ports[1])}
    settings |= {"LOGGING__TRIGGER_LOG_SERVER_PORT": str(ports[2])}
    environment = [f"AIRFLOW__{name}={value}" for name, value in settings.items()]
    # Its parts are started by the name `airflow`.
    environment += [f"AIRFLOW_HOME={home}", f"PATH={programs}/bin:{os.environ['PATH']}"]
    argv = [str(programs / "venv/bin/python"), "-c", _MAIN, f"--home={home}"]
    return [shutil.which("env") or "env", *environment, *argv], f"--home={home}"


def _settings(address: str, passwords: Path) -> dict[str, str]:
    return {
        "CORE__DAGS_FOLDER": os.environ.get(DAGS, str(_ROOT / "examples/publish")),
        "CORE__DAGS_ARE_PAUSED_AT_CREATION": "False",
        "CORE__LOAD_EXAMPLES": "False",
        "CORE__PARALLELISM": "2",
        "CORE__EXECUTION_API_SERVER_URL": f"{address}/execution/",
        "CORE__SIMPLE_AUTH_MANAGER_USERS": f"{USER}:op",
        "CORE__SIMPLE_AUTH_MANAGER_PASSWORDS_FILE": str(passwords),
        "API__BASE_URL": address,
        "API__WORKERS": "1",
        "DAG_PROCESSOR__REFRESH_INTERVAL": "2",
        "DAG_PROCESSOR__MIN_FILE_PROCESS_INTERVAL": "2",
        "USAGE_DATA_COLLECTION__ENABLED": "False",
    }


def _ready(log: Path, host: str, port: int) -> bool:
    del log
    try:
        with urlopen(f"http://{host}:{port}/api/v2/monitor/health", timeout=5) as answer:
            health: Mapping[str, Mapping[str, str]] = json.load(answer)
    except (URLError, OSError):
        return False
    return all(health[part]["status"] == "healthy" for part in _PARTS)


AIRFLOW = ServerKind(
    name="airflow",
    existing="LANDFALL_AIRFLOW",
    ports=3,
    build=_build,
    command=_command,
    ready=_ready,
    address=lambda host, port: f"http://{host}:{port}",
    env=lambda address: {"LANDFALL_AIRFLOW": address},
)
