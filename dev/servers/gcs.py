"""A Cloud Storage server: fake-gcs-server with its objects in memory, so it forgets when it ends.

Of the emulators that were tried it is the only one whose create-if-absent has one winner when
clients race; its releases before 1.56 do not.

``LANDFALL_GCS`` names the address of an existing server to use instead.
"""

from pathlib import Path

from dev.servers import cache
from dev.servers.ports import answers
from dev.servers.server import ServerKind

VERSION = "v1.56.1"
MODULE = f"github.com/fsouza/fake-gcs-server@{VERSION}"


def _build_into(folder: Path) -> None:
    go = cache.tool("go", "the first start of the Cloud Storage server", "golang")
    cache.run(
        [go, "install", "-ldflags", "-s -w", MODULE], {"GOBIN": str(folder), "CGO_ENABLED": "0"}
    )


def _build() -> Path:
    announcement = f"building fake-gcs-server {VERSION} with go (once, about two minutes)"
    return cache.built(f"fake-gcs-server-{VERSION}", MODULE, _build_into, announcement)


def _command(
    programs: Path, home: Path, host: str, ports: tuple[int, ...]
) -> tuple[list[str], str]:
    address = f"{host}:{ports[0]}"
    argv = [str(programs / "fake-gcs-server"), "-scheme", "http", "-backend", "memory"]
    argv += ["-host", host, "-port", str(ports[0]), "-public-host", address]
    # The root is unused with this backend; it distinguishes this server from other ones.
    argv += ["-external-url", f"http://{address}", "-filesystem-root", str(home / "data")]
    return argv, str(home / "data")


GCS = ServerKind(
    name="gcs",
    existing="LANDFALL_GCS",
    ports=1,
    build=_build,
    command=_command,
    ready=lambda _log, host, port: answers(host, port),
    address=lambda host, port: f"http://{host}:{port}",
    env=lambda address: {"LANDFALL_GCS": address},
)
