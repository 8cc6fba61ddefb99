"""Fixtures of real servers.

``kafka``, ``s3`` and ``bucket``, ``azure``, ``gcs``, ``hdfs``, ``registry``, ``hive``, ``airflow``,
``control_plane`` and ``namespace``.

The control plane has no nodes, so only tests change the status of pods. ``own_server`` makes
servers that a test may break. There is one server of each kind per test session, shared by all
workers and started by the first test that needs it, in a state folder of the session. The process
that started the session stops the servers; the next session stops those that a killed session
left running.
"""

import gc
import logging
import os
import shutil
import signal
import sys
from collections.abc import Callable, Iterator
from contextlib import suppress
from pathlib import Path

import psutil
import pytest

from dev.kube.cluster import KINDS, ControlPlane
from dev.servers.airflow import AIRFLOW
from dev.servers.azure import AZURE
from dev.servers.bigquery import BIGQUERY
from dev.servers.gcs import GCS
from dev.servers.hdfs import HDFS
from dev.servers.hive_metastore import HIVE_METASTORE
from dev.servers.iceberg_catalog import ICEBERG_CATALOG
from dev.servers.kafka import KAFKA
from dev.servers.s3 import S3
from dev.servers.schema_registry import SCHEMA_REGISTRY
from dev.servers.server import STATE, Server, ServerKind
from tests.support import examples, rewriting
from tests.support.examples import finished
from tests.support.kafka.broker import Broker
from tests.support.kafka.registry import Registry
from tests.support.kubernetes.cluster import Cluster
from tests.support.landing import spark_start
from tests.support.publishers.hive import HiveServer
from tests.support.stores.s3 import Bucket, S3Server

TESTS = Path(__file__).parent
SESSION = "LANDFALL_TEST_STATE"
STACK = "stack"
"""The subfolder of the cluster with a node and of the servers for its pods: see ``tests/e2e``."""
CHAOS = "chaos"
"""The subfolder of the cluster and servers that are broken on purpose."""
SERVERS = (
    KAFKA,
    S3,
    SCHEMA_REGISTRY,
    HIVE_METASTORE,
    BIGQUERY,
    GCS,
    ICEBERG_CATALOG,
    AIRFLOW,
    AZURE,
    HDFS,
)

LONGEST_GROUPS = ("node", "drivers", "spark")
"""Groups of tests, each for one worker, that take longer than others with more tests."""
LONGEST_ID = 60
"""Characters of a parameter in the name of a test: workers send all names to the session."""
LONGEST_FOLDERS = ("e2e", "integration", "behaviour", "properties", "model")
"""Folders of long tests; tests of other folders follow, so that all workers end together."""

examples.load()


def pytest_configure(config: pytest.Config) -> None:
    if not hasattr(config, "workerinput"):
        # The workers are children, so they inherit the folder.
        os.environ[SESSION] = str(STATE / f"tests-{os.getpid()}")
        # What a killed Spark leaves behind is deleted with the session.
        os.environ["SPARK_LOCAL_DIRS"] = f"{os.environ[SESSION]}/spark"
        os.environ.update(spark_start.variables(Path(sys.prefix)))
        # As with Ctrl+C, so that a terminated session stops its servers.
        signal.signal(signal.SIGTERM, signal.default_int_handler)
        _stop_left_behind()


def pytest_sessionstart(session: pytest.Session) -> None:
    """Compile test modules once for all workers, and collect without looking for garbage.

    There is none, and the garbage collector would pass over all tests again and again.
    """
    worker = getattr(session.config, "workerinput", None)
    if worker:
        number = int(worker["workerid"].removeprefix("gw"))
        modules = rewriting.test_modules(session.config)
        rewriting.compile_share(session.config, modules, number, worker["workercount"])
    gc.disable()


def pytest_make_parametrize_id(val: object) -> str | None:
    """Cut what a test is given in its name: payloads of megabytes are parameters, too."""
    if not isinstance(val, (str, bytes)) or len(val) <= LONGEST_ID:
        return None
    return f"{val[:LONGEST_ID]!a}..{len(val)}"


def pytest_addoption(parser: pytest.Parser) -> None:
    parser.addoption(
        "--rest-of",
        default="",
        metavar="PATHS",
        help="run of these paths' tests only laws and those that are marked as rest",
    )
    parser.addoption(
        "--laws-tried",
        action="store_true",
        help="run of these paths' tests no laws: they were tried with as many inputs",
    )


def pytest_collection_modifyitems(config: pytest.Config, items: list[pytest.Item]) -> None:
    """Sort groups before single tests, and these by folder; inside, the order stays random.

    This is the order in which xdist's workers take them, with ``--no-loadscope-reorder``.
    """
    paths = map(Path, config.getoption("rest_of").split())
    left_out = set(finished(items, paths, laws_tried=config.getoption("laws_tried")))
    if left_out:
        config.hook.pytest_deselected(items=list(left_out))
    items[:] = sorted((item for item in items if item not in left_out), key=_turn)


def pytest_collection_finish() -> None:
    """Let the garbage collector pass over what all tests have in common: it stays to the end."""
    gc.enable()
    gc.collect()
    gc.freeze()


def _turn(item: pytest.Item) -> tuple[int, int]:
    group = item.get_closest_marker("xdist_group")
    if group:
        return 0, _index(LONGEST_GROUPS, group.args[0])
    return 1, _index(LONGEST_FOLDERS, item.path.relative_to(TESTS).parts[0])


def _index(names: tuple[str, ...], name: str) -> int:
    return names.index(name) if name in names else len(names)


def pytest_unconfigure(config: pytest.Config) -> None:
    gc.enable()
    gc.unfreeze()
    if hasattr(config, "workerinput"):
        return
    _stop(Path(os.environ[SESSION]))
    _stop_left_behind()


def _stop_left_behind() -> None:
    for left_behind in STATE.glob("tests-*"):
        if not _alive(int(left_behind.name.removeprefix("tests-"))):
            _stop(left_behind)


def _stop(state: Path) -> None:
    for folder in (state / STACK, state / CHAOS, state):
        stop_servers(folder)
    _kill_all_of(state)
    shutil.rmtree(state, ignore_errors=True)


def stop_servers(state: Path) -> None:
    """Stop the servers and the cluster that run in a state folder."""
    for kind in SERVERS:
        if (state / kind.name).exists():
            Server(kind, state).down(at_once=True)
    for cluster in KINDS:
        if cluster(state).home.exists():
            cluster(state).down()


def _kill_all_of(state: Path) -> None:
    """Kill the drivers and operators of interrupted tests.

    Every process of a session has the session's folder in its environment.
    """
    for process in psutil.process_iter():
        with suppress(psutil.Error):
            if process.pid != os.getpid() and process.environ().get(SESSION) == str(state):
                process.kill()


def _alive(pid: int) -> bool:
    try:
        os.kill(pid, 0)
    except ProcessLookupError:
        return False
    except PermissionError:
        return True
    return True


@pytest.fixture(autouse=True)
def _own_log_level() -> Iterator[None]:
    """Undo what a command that ran inside a test has set, so that the next test logs as alone."""
    logger = logging.getLogger("landfall")
    level = logger.level
    yield
    logger.setLevel(level)


@pytest.fixture(scope="session")
def kafka() -> Broker:
    """The session's broker."""
    return Broker(_address(Server(KAFKA, Path(os.environ[SESSION]))))


@pytest.fixture(scope="session")
def s3() -> S3Server:
    """The session's S3 server."""
    return _s3(Server(S3, Path(os.environ[SESSION])))


@pytest.fixture
def bucket(s3: S3Server) -> Bucket:
    """A new bucket."""
    return s3.create_bucket()


@pytest.fixture(scope="session")
def registry() -> Registry:
    """The session's schema registry."""
    return Registry(_address(Server(SCHEMA_REGISTRY, Path(os.environ[SESSION]))))


@pytest.fixture(scope="session")
def hive() -> HiveServer:
    """The session's Hive metastore."""
    return HiveServer(_address(Server(HIVE_METASTORE, Path(os.environ[SESSION]))))


@pytest.fixture(scope="session")
def iceberg_catalog(s3: S3Server) -> Iterator[str]:
    """The address of the session's Iceberg catalog, whose tables are in a bucket of its own."""
    warehouse = s3.create_bucket()
    with pytest.MonkeyPatch.context() as patched:
        for name, value in s3.env.items():
            patched.setenv(name, value)
        patched.setenv("LANDFALL_ICEBERG_S3", s3.endpoint)
        patched.setenv("LANDFALL_ICEBERG_WAREHOUSE", warehouse.url)
        yield _address(Server(ICEBERG_CATALOG, Path(os.environ[SESSION])))


@pytest.fixture(scope="session")
def airflow() -> str:
    """The address of the session's Airflow, with the DAGs of ``LANDFALL_AIRFLOW_DAGS``."""
    return _address(Server(AIRFLOW, Path(os.environ[SESSION])))


@pytest.fixture(scope="session")
def azure() -> str:
    """The address of the session's Azure Blob Storage server."""
    return _address(Server(AZURE, Path(os.environ[SESSION])))


@pytest.fixture(scope="session")
def gcs() -> str:
    """The address of the session's Cloud Storage server."""
    return _address(Server(GCS, Path(os.environ[SESSION])))


@pytest.fixture(scope="session")
def hdfs() -> str:
    """The address of the session's HDFS, by its name node."""
    return _address(Server(HDFS, Path(os.environ[SESSION])))


@pytest.fixture(scope="session")
def control_plane() -> Cluster:
    """The session's control plane."""
    kubeconfig = ControlPlane(Path(os.environ[SESSION])).up().kubeconfig
    assert kubeconfig
    return Cluster(Path(kubeconfig))


@pytest.fixture
def namespace(control_plane: Cluster) -> Iterator[str]:
    """A new namespace on the control plane."""
    name = control_plane.create_namespace()
    yield name
    control_plane.delete_namespace(name)


@pytest.fixture
def own_server(tmp_path: Path) -> Iterator[Callable[[ServerKind], Server]]:
    """Creates servers for one test, which may kill and restart them: ``own_server(S3).up()``."""
    servers: list[Server] = []

    def create(kind: ServerKind) -> Server:
        servers.append(Server(kind, tmp_path / "state"))
        return servers[-1]

    yield create
    for server in servers:
        server.down(at_once=True)


def _address(server: Server) -> str:
    address = server.up().address
    assert address
    return address


def _s3(server: Server) -> S3Server:
    status = server.up()
    assert status.address
    # The keys of an existing server are in the environment already.
    keys = {name: value for name, value in os.environ.items() if name.startswith("AWS_")}
    return S3Server(status.address, {**keys, **status.env})
