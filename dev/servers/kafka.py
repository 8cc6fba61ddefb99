"""Apache Kafka from the jars on Maven Central: one node, with broker and controller in one JVM.

The settings suit tests. Topics have no retention limit: Kafka compares it with record timestamps,
so records with old event times would be deleted minutes after loading. Retention and compaction run
every second, and messages may have 16 MiB. The broker session is short, because a broker that was
killed waits for its former session to expire before it starts again.
"""

import re
import shutil
import subprocess
from pathlib import Path

from dev.servers import cache
from dev.servers.server import HOST, ServerKind

VERSION = "4.3.1"
OLDEST_JAVA = 17
# A cluster id only guards against mixing the data of two clusters, so all servers may share one.
CLUSTER_ID = "bGFuZGZhbGwtbG9jYWwta2Fma2"

# slf4j-simple: without a logging backend the broker logs nothing, and `_ready` reads its log.
POM = f"""\
<project xmlns="http://maven.apache.org/POM/4.0.0">
  <modelVersion>4.0.0</modelVersion>
  <groupId>dev.landfall</groupId><artifactId>local-kafka</artifactId><version>1</version><packaging>pom</packaging>
  <dependencies>
    <dependency><groupId>org.apache.kafka</groupId><artifactId>kafka_2.13</artifactId><version>{VERSION}</version></dependency>
    <dependency><groupId>org.apache.kafka</groupId><artifactId>kafka-tools</artifactId><version>{VERSION}</version></dependency>
    <dependency><groupId>org.slf4j</groupId><artifactId>slf4j-simple</artifactId><version>1.7.36</version></dependency>
  </dependencies>
</project>
"""
COPY_JARS = "org.apache.maven.plugins:maven-dependency-plugin:3.8.1:copy-dependencies"

PROPERTIES = """\
process.roles=broker,controller
node.id=1
controller.quorum.voters=1@{host}:{controller_port}
listeners=PLAINTEXT://{host}:{port},CONTROLLER://{host}:{controller_port}
advertised.listeners=PLAINTEXT://{host}:{port}
controller.listener.names=CONTROLLER
log.dirs={data}
auto.create.topics.enable=false
message.max.bytes=16777216
log.retention.ms=-1
log.initial.task.delay.ms=1000
log.retention.check.interval.ms=1000
log.segment.delete.delay.ms=1000
log.cleaner.backoff.ms=500
log.cleaner.dedupe.buffer.size=16777216
broker.heartbeat.interval.ms=500
broker.session.timeout.ms=3000
group.initial.rebalance.delay.ms=0
offsets.topic.num.partitions=1
offsets.topic.replication.factor=1
transaction.state.log.num.partitions=1
transaction.state.log.replication.factor=1
transaction.state.log.min.isr=1
share.coordinator.state.topic.num.partitions=1
share.coordinator.state.topic.replication.factor=1
share.coordinator.state.topic.min.isr=1
num.network.threads=2
num.io.threads=4
background.threads=2
"""


def _java() -> str:
    java = cache.tool("java", "Kafka", "openjdk-17-jre-headless")
    output = subprocess.run([java, "-version"], capture_output=True, text=True, check=False).stderr
    version = re.search(r'version "(\d+)', output)
    if not version or int(version[1]) < OLDEST_JAVA:
        raise cache.MissingTool(
            f"Kafka needs Java {OLDEST_JAVA} or newer, `{java} -version` prints: {output.strip()}"
        )
    return java


def _jvm(java: str, programs: Path, log_level: str) -> list[str]:
    fast_start = [
        "-XX:TieredStopAtLevel=1",
        "-Xshare:auto",
        "-XX:+UseSerialGC",
        "-Xms64m",
        "-Xmx768m",
    ]
    return [
        java,
        *fast_start,
        "-cp",
        f"{programs}/lib/*",
        f"-Dorg.slf4j.simpleLogger.defaultLogLevel={log_level}",
    ]


def _properties(data: Path, host: str, ports: tuple[int, ...]) -> str:
    return PROPERTIES.format(host=host, port=ports[0], controller_port=ports[1], data=data)


def _build_into(folder: Path) -> None:
    """Download the jars and format a data folder; ``up`` copies it, which saves one JVM start."""
    mvn = cache.tool("mvn", "the first start of Kafka", "maven")
    java = _java()
    (folder / "pom.xml").write_text(POM)
    output = f"-DoutputDirectory={folder}/lib"
    cache.run(
        [
            mvn,
            "-q",
            "-B",
            "-C",
            "-ntp",
            "-f",
            f"{folder}/pom.xml",
            COPY_JARS,
            output,
            "-DincludeScope=runtime",
        ]
    )
    (folder / "format.properties").write_text(_properties(folder / "formatted", HOST, (1, 2)))
    storage_tool = [
        "kafka.tools.StorageTool",
        "format",
        "-t",
        CLUSTER_ID,
        "-c",
        f"{folder}/format.properties",
    ]
    cache.run([*_jvm(java, folder, "warn"), *storage_tool])


def _build() -> Path:
    announcement = (
        f"downloading Kafka {VERSION} from Maven Central (once, 54 MB, about half a minute)"
    )
    return cache.built(f"kafka-{VERSION}", POM + COPY_JARS + CLUSTER_ID, _build_into, announcement)


def _command(
    programs: Path, home: Path, host: str, ports: tuple[int, ...]
) -> tuple[list[str], str]:
    data, properties = home / "data", home / "server.properties"
    # Copied under another name and renamed, so an interrupted copy never looks formatted.
    if not (data / "meta.properties").exists():
        shutil.rmtree(data, ignore_errors=True)
        shutil.copytree(programs / "formatted", home / "data.new", dirs_exist_ok=True)
        (home / "data.new").rename(data)
    properties.write_text(_properties(data, host, ports))
    return [*_jvm(_java(), programs, "info"), "kafka.Kafka", str(properties)], str(properties)


def _ready(log: Path, host: str, port: int) -> bool:
    del host, port  # the port opens before the broker answers requests
    # The line may come after many: a broker first prints several for each partition that it loads.
    with log.open("rb") as lines:
        return any(b"Kafka Server started" in line for line in lines)


KAFKA = ServerKind(
    name="kafka",
    existing="LANDFALL_KAFKA",
    ports=2,
    build=_build,
    command=_command,
    ready=_ready,
    address=lambda host, port: f"{host}:{port}",
    env=lambda address: {"LANDFALL_KAFKA": address},
)
