"""The DAG of the example in a real Airflow, with a real driver. ``make lease-suite`` runs it."""

import json
import re
from collections import Counter
from collections.abc import Callable
from pathlib import Path

import pytest

from dev.servers.airflow import AIRFLOW, DAGS
from dev.servers.server import Server, ServerKind
from landfall.ledger import Lease
from tests.support.files.feed_scene import FeedScene
from tests.support.files.takers import done_numbers, records
from tests.support.landing.processes import TOKEN, Processes, free_port
from tests.support.pages.external_files import copy, feed_of_the_example, put, reasons
from tests.support.publishers.airflow_api import Api
from tests.support.waiting import eventually

pytestmark = [pytest.mark.full, pytest.mark.timeout(1800), pytest.mark.xdist_group("airflow")]

DAG = "hits_files"
SETTINGS = {
    "airflow_files.py": {
        r'schedule="[^"]+"': "schedule=None",
        r"seconds=30": "seconds=5",
        r'"retries": 3': '"retries": 6',
        # The worker that processes this file is killed.
        r"    return len\(gzip": """\
    if file["name"] == "killer.gz":
        import os
        os.kill(os.getpid(), 9)
    return len(gzip""",
    },
    "leases.py": {"PATIENCE_SECONDS = 300": "PATIENCE_SECONDS = 30"},
}
"""What the test changes of the example, as patterns and what takes their place."""


@pytest.fixture
def dags(tmp_path: Path) -> Path:
    """The folder of the example's DAG."""
    (folder := tmp_path / "dags").mkdir()
    copy(folder, *SETTINGS)
    for name, settings in SETTINGS.items():
        text = (folder / name).read_text()
        for pattern, instead in settings.items():
            text, count = re.subn(pattern, lambda _, new=instead: new, text)  # type: ignore[misc]
            assert count == 1, pattern
        (folder / name).write_text(text)
    return folder


@pytest.fixture
def port() -> int:
    """The control port of drivers."""
    return free_port()


@pytest.fixture
def api(
    dags: Path,
    port: int,
    files: FeedScene,
    own_server: Callable[[ServerKind], Server],
    monkeypatch: pytest.MonkeyPatch,
) -> Api:
    """An Airflow with the DAG, which has a connection to the driver."""
    connection = {"conn_type": "http", "host": "127.0.0.1", "port": port, "password": TOKEN}
    monkeypatch.setenv("AIRFLOW_CONN_LANDFALL", json.dumps(connection))
    monkeypatch.setenv("AWS_ENDPOINT_URL", files.bucket.server.endpoint)
    monkeypatch.setenv(DAGS, str(dags))
    started = Api(str(own_server(AIRFLOW).up().address))
    eventually(started.dags, lambda found: DAG in found)
    return started


def is_tried_again(tasks: list[tuple[str, str | None, int]]) -> bool:
    """Whether ``take`` has failed once."""
    return any(
        task == "take" and (state == "up_for_retry" or tries > 1) for task, state, tries in tasks
    )


def test_a_dag_takes_each_file_once_though_a_driver_and_a_task_are_killed(
    files: FeedScene, processes: Processes, api: Api, port: int, tmp_path: Path
) -> None:
    names = put(files, 5)
    files.put("killer.gz", b"")
    (token := tmp_path / "token").write_text(TOKEN)
    control = ("--control-port", str(port), "--token-file", str(token))
    document = files.document(**feed_of_the_example())
    killed = processes.struck(document, "KILL after create LEASE", until=control)
    killed.wait_for(lambda: files.found() == 7, "7 files are found")

    run = api.start(DAG)
    # The LEASE is recorded, but nobody has got its answer.
    assert killed.end() == -9
    eventually(lambda: api.tasks(DAG, run), is_tried_again)
    processes.run(files.document(**feed_of_the_example()), *control, "--http-port", "0")
    eventually(lambda: api.state(DAG, run), {"success", "failed"}.__contains__, 900)

    tasks = api.tasks(DAG, run)
    assert Counter((task, state) for task, state, _ in tasks) == {
        ("take", "success"): 1,
        ("process", "success"): len(names) - 1,
        ("process", "failed"): 2,
        ("give_back", "success"): 1,
    }
    assert api.state(DAG, run) == "failed"
    assert done_numbers(files) == Counter(range(5))
    assert reasons(files) == {
        5: (1, "BadGzipFile: Not a gzipped file (b'no')"),
        6: (1, "its task was killed"),
    }
    (lease,) = (record for record in records(files) if isinstance(record, Lease))
    assert (lease.holder, lease.request) == (f"airflow:{DAG}", f"{DAG}/{run}/take")

    another = api.start(DAG)

    eventually(lambda: api.state(DAG, another), {"success", "failed"}.__contains__)
    assert {state for _, state, _ in api.tasks(DAG, another)} == {"skipped"}
    assert files.faults() == []
