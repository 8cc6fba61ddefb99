"""An HDFS of one name node and one data node: Hadoop's MiniDFSCluster, which forgets at its end.

It runs on PySpark's jars, so there must be the virtual environment of ``make setup``, and on a few
of Maven Central. It listens on the loopback interface, for any host.

``LANDFALL_HDFS`` names the address of an existing name node to use instead, such as
``hdfs://namenode:8020``.
"""

from pathlib import Path

from dev.servers import cache
from dev.servers.ports import answers
from dev.servers.server import ServerKind

VERSION = "3.5.0"
_ARTIFACTS = {
    "commons-logging:commons-logging:1.3.5": (
        "6d7a744e4027649fbb50895df9497d109f98c766a637062fe8d2eabbb3140ba4"
    ),
    "org.apache.hadoop:hadoop-client-minicluster:3.5.0": (
        "06772d24529e59939915979b3edba204d367750ef7dc5120411f35221dd4818c"
    ),
    "org.junit.jupiter:junit-jupiter-api:5.13.3": (
        "1a15a52253a972c82c0dbf77759a983f5afed0583585cdc5b2a3beaa1f4ae0ac"
    ),
    "org.junit.platform:junit-platform-commons:1.13.3": (
        "02cd66a55df750a123d8f761e6503e455ac108ff1b365d446e874ba3bc56ca89"
    ),
    "org.opentest4j:opentest4j:1.3.0": (
        "48e2df636cab6563ced64dcdff8abb2355627cb236ef0bf37598682ddf742f1b"
    ),
}
"""Maven coordinates, and the SHA-256 of each jar. MiniDFSCluster imports JUnit."""
_DETAILS = "cluster.json"
"""The file that it writes once all of it runs."""
_MAIN = "org.apache.hadoop.test.MiniDFSClusterManager"
_OF_SPARK = ("hadoop-client-*", "slf4j-api-*", "log4j-*", "jcl-over-slf4j-*")
_ROOT = Path(__file__).resolve().parents[2]


def _build_into(folder: Path) -> None:
    cache.fetch(_ARTIFACTS, folder, "the first start of HDFS")


def _build() -> Path:
    announcement = f"downloading Hadoop's MiniDFSCluster {VERSION} from Maven Central (once, 57 MB)"
    inputs = "".join(_ARTIFACTS.values())
    return cache.built(f"minidfs-{VERSION}", inputs, _build_into, announcement)


def _jars_of_spark() -> list[Path]:
    found = [
        jar
        for pattern in _OF_SPARK
        for jar in _ROOT.glob(f".venv/lib/python3*/site-packages/pyspark/jars/{pattern}")
    ]
    if not found:
        raise cache.MissingTool("HDFS needs PySpark's jars, which `make setup` installs")
    return sorted(found)


def _command(
    programs: Path, home: Path, host: str, ports: tuple[int, ...]
) -> tuple[list[str], str]:
    del host
    java = cache.tool("java", "HDFS", "openjdk-17-jre-headless")
    jars = [*sorted(programs.glob("*.jar")), *_jars_of_spark()]
    marker = f"-Dtest.build.data={home / 'data'}"
    fast_start = ["-XX:TieredStopAtLevel=1", "-XX:+UseSerialGC", "-Xmx400m"]
    argv = [java, *fast_start, marker, "-cp", ":".join(map(str, jars)), _MAIN]
    argv += ["-format", "-datanodes", "1", "-nnport", str(ports[0]), "-httpport", str(ports[1])]
    (home / _DETAILS).unlink(missing_ok=True)
    return [*argv, "-writeDetails", str(home / _DETAILS)], marker


def _ready(log: Path, host: str, port: int) -> bool:
    """Return whether the data node runs too: the name node answers seconds earlier."""
    return (log.parent / _DETAILS).exists() and answers(host, port)


HDFS = ServerKind(
    name="hdfs",
    existing="LANDFALL_HDFS",
    ports=2,
    build=_build,
    command=_command,
    ready=_ready,
    address=lambda host, port: f"hdfs://{host}:{port}",
    env=lambda address: {"LANDFALL_HDFS": address},
)
