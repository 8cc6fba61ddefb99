"""An Iceberg REST catalog: Nessie with its tables in memory, so it forgets them when it ends.

It needs a newer Java than Kafka does, as the schema registry. The warehouse ``w`` is a bucket of
``dev/s3``: ``LANDFALL_ICEBERG_S3`` names its address, ``LANDFALL_ICEBERG_WAREHOUSE`` the location,
and ``AWS_ACCESS_KEY_ID`` and ``AWS_SECRET_ACCESS_KEY`` the key.

``LANDFALL_ICEBERG_CATALOG`` names the address of an existing catalog to use instead.
"""

import os
from pathlib import Path
from urllib.error import URLError
from urllib.request import urlopen

from dev.servers import cache
from dev.servers.schema_registry import java
from dev.servers.server import ServerKind

VERSION = "0.99.0"
ARTIFACT = f"org.projectnessie.nessie:nessie-quarkus:{VERSION}:jar:runner"
SHA256 = "ce9fa33e2878bf5ea3981876b9e6204cabc0362b3dd82326b10e47271a78c417"
WAREHOUSE = "w"
_OPTION = "nessie.catalog.service.s3.default-options"


def _build_into(folder: Path) -> None:
    cache.fetch({ARTIFACT: SHA256}, folder, "the first start of the Iceberg catalog")


def _runner(folder: Path) -> Path:
    return folder / f"nessie-quarkus-{VERSION}-runner.jar"


def _build() -> Path:
    java()
    announcement = f"downloading Nessie {VERSION} from Maven Central (once, 245 MB)"
    return cache.built(f"nessie-{VERSION}", ARTIFACT + SHA256, _build_into, announcement)


def _command(
    programs: Path, home: Path, host: str, ports: tuple[int, ...]
) -> tuple[list[str], str]:
    marker = f"-Dlandfall.home={home}"
    environment = os.environ
    settings = {
        "quarkus.http.host": host,
        "quarkus.http.port": ports[0],
        "quarkus.management.host": host,
        "quarkus.management.port": ports[1],
        "nessie.catalog.default-warehouse": WAREHOUSE,
        f"nessie.catalog.warehouses.{WAREHOUSE}.location": environment.get(
            "LANDFALL_ICEBERG_WAREHOUSE", "s3://lake/warehouse"
        ),
        f"{_OPTION}.endpoint": environment.get("LANDFALL_ICEBERG_S3", "http://127.0.0.1:7070"),
        f"{_OPTION}.path-style-access": "true",
        f"{_OPTION}.region": "us-east-1",
        f"{_OPTION}.request-signing-enabled": "false",
        f"{_OPTION}.access-key": "urn:nessie-secret:quarkus:s3key",
        "s3key.name": environment.get("AWS_ACCESS_KEY_ID", "landfall"),
        "s3key.secret": environment.get("AWS_SECRET_ACCESS_KEY", "landfall"),
    }
    options = [f"-D{name}={value}" for name, value in settings.items()]
    fast_start = ["-XX:TieredStopAtLevel=1", "-XX:+UseSerialGC", "-Xmx384m"]
    return [java(), *fast_start, *options, marker, "-jar", str(_runner(programs))], marker


def _ready(log: Path, host: str, port: int) -> bool:
    del log
    try:
        with urlopen(f"http://{host}:{port}/iceberg/v1/config", timeout=5) as answer:
            return bool(answer.status == 200)
    except (URLError, OSError):
        return False


ICEBERG_CATALOG = ServerKind(
    name="iceberg-catalog",
    existing="LANDFALL_ICEBERG_CATALOG",
    ports=2,
    build=_build,
    command=_command,
    ready=_ready,
    address=lambda host, port: f"http://{host}:{port}/iceberg/",
    env=lambda address: {"LANDFALL_ICEBERG_CATALOG": address},
)
