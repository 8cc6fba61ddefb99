"""Installs what Spark Structured Streaming needs to read Kafka and write S3.

PySpark, its Kafka connector and S3A go, once per machine, into a folder of the project's cache
(``dev.servers.cache``): a virtual environment with hash-pinned packages, and the jars from Maven
Central at the versions below. Landfall itself reads Kafka by librdkafka and writes S3 by boto3, so
its own environment needs none of this.

4.2.0 is the newest version whose connector could be fetched. Its token provider could not, so 4.0.0
is used: Spark loads it, but calls it only where brokers ask for delegation tokens. S3A gets those
modules of the AWS SDK that it calls in place of the ``bundle`` of all of AWS's services (600 MB).
"""

from dataclasses import dataclass
from pathlib import Path

from dev.servers import cache

VERSION = "4.2.0"
TOKEN_PROVIDER_VERSION = "4.0.0"
HADOOP_VERSION = "3.5.0"  # of the client that PySpark bundles: S3A must be the same
SDK_VERSION = "2.35.4"

PACKAGES = """\
py4j==0.10.9.9 \\
    --hash=sha256:c7c26e4158defb37b0bb124933163641a2ff6e3a3913f7811b0ddbe07ed61533 \\
    --hash=sha256:f694cad19efa5bd1dee4f3e5270eb406613c974394035e5bfc4ec1aba870b879
pyspark==4.2.0 \\
    --hash=sha256:5ad689d53570ee1674193fd4f9bda065f0db3be9363a27d2a3406cc457b70b61
"""

_ALONE, _WITHOUT_LOGGING = "*", "org.slf4j"
"""Which dependencies of a jar are left out, by their group."""
_JARS = (
    ("org.apache.spark", "spark-sql-kafka-0-10_2.13", VERSION, _ALONE),
    ("org.apache.spark", "spark-token-provider-kafka-0-10_2.13", TOKEN_PROVIDER_VERSION, _ALONE),
    ("org.apache.kafka", "kafka-clients", "3.9.2", _ALONE),
    ("org.apache.commons", "commons-pool2", "2.12.1", _ALONE),
    ("org.apache.hadoop", "hadoop-aws", HADOOP_VERSION, _ALONE),
    ("software.amazon.s3.analyticsaccelerator", "analyticsaccelerator-s3", "1.3.1", _ALONE),
    # Spark brings its own slf4j, of a newer kind.
    ("software.amazon.awssdk", "s3", SDK_VERSION, _WITHOUT_LOGGING),
    ("software.amazon.awssdk", "s3-transfer-manager", SDK_VERSION, _WITHOUT_LOGGING),
    ("software.amazon.awssdk", "sts", SDK_VERSION, _WITHOUT_LOGGING),
    ("software.amazon.awssdk", "apache-client", SDK_VERSION, _WITHOUT_LOGGING),
)
_DEPENDENCIES = "".join(
    f"<dependency><groupId>{group}</groupId><artifactId>{name}</artifactId>"
    f"<version>{version}</version><exclusions><exclusion><groupId>{excluded}</groupId>"
    "<artifactId>*</artifactId></exclusion></exclusions></dependency>\n"
    for group, name, version, excluded in _JARS
)
_POM = f"""\
<project xmlns="http://maven.apache.org/POM/4.0.0">
  <modelVersion>4.0.0</modelVersion>
  <groupId>dev.landfall</groupId><artifactId>structured-streaming</artifactId><version>1</version>
  <packaging>pom</packaging>
  <dependencies>{_DEPENDENCIES}</dependencies>
</project>
"""
_COPY_JARS = "org.apache.maven.plugins:maven-dependency-plugin:3.8.1:copy-dependencies"


@dataclass(frozen=True, slots=True)
class Installed:
    """An installed Spark with its connector."""

    folder: Path

    @property
    def python(self) -> Path:
        """The interpreter whose ``pyspark`` it is."""
        return self.folder / "venv" / "bin" / "python"

    @property
    def jars(self) -> list[Path]:
        """The connector, S3A and what they need, in a fixed order."""
        return sorted((self.folder / "jars").glob("*.jar"))


def install(uv: Path, python: Path) -> Installed:
    """Spark with its connector; fetched if this machine does not have it yet.

    Args:
        uv: the project's own installer of Python packages.
        python: the interpreter that the new virtual environment is made from.

    Raises:
        dev.servers.cache.MissingTool: a tool is missing, or a download failed; says which.
    """

    def build(folder: Path) -> None:
        (folder / "requirements.txt").write_text(PACKAGES)
        venv = folder / "venv"
        cache.run([str(uv), "venv", "-q", "--python", str(python), str(venv)])
        pinned = ["--require-hashes", str(folder / "requirements.txt")]
        cache.run([str(uv), "pip", "sync", "-q", "--python", str(venv / "bin" / "python"), *pinned])
        (folder / "pom.xml").write_text(_POM)
        mvn = cache.tool("mvn", "Spark's Kafka connector", "maven")
        quiet, pom = ["-q", "-B", "-C", "-ntp"], ["-f", f"{folder}/pom.xml"]
        settings = [f"-DoutputDirectory={folder}/jars", "-DincludeScope=runtime"]
        cache.run([mvn, *quiet, *pom, _COPY_JARS, *settings])

    name, recipe = f"structured-streaming-{VERSION}", PACKAGES + _POM + _COPY_JARS
    announcement = f"fetching PySpark {VERSION}, its Kafka connector and S3A (once, 500 MB)"
    return Installed(cache.built(name, recipe, build, announcement))
