"""An S3 server: versitygw over a folder.

Of the small S3 servers that were tried, it is the only one whose conditional writes are atomic when
two clients race.

``LANDFALL_S3`` names the endpoint of an existing server to use instead; its keys are in the usual
``AWS_*`` variables.
"""

import os
from pathlib import Path

from dev.servers import cache
from dev.servers.ports import answers
from dev.servers.server import ServerKind

VERSION = "v1.8.0"
MODULE = f"github.com/versity/versitygw/cmd/versitygw@{VERSION}"
ACCESS_KEY = "landfall"
SECRET_KEY = "landfall-local"  # noqa: S105  # of a server that only this machine reaches
REGION = "us-east-1"


def _build_into(folder: Path) -> None:
    go = cache.tool("go", "the first start of the S3 server", "golang")
    cache.run(
        [go, "install", "-ldflags", "-s -w", MODULE], {"GOBIN": str(folder), "CGO_ENABLED": "0"}
    )


def _build() -> Path:
    announcement = f"building versitygw {VERSION}, an S3 server, with go (once, about two minutes)"
    return cache.built(f"versitygw-{VERSION}", MODULE, _build_into, announcement)


def _command(
    programs: Path, home: Path, host: str, ports: tuple[int, ...]
) -> tuple[list[str], str]:
    data = home / "data"
    data.mkdir(exist_ok=True)
    argv = [str(programs / "versitygw"), "--port", f"{host}:{ports[0]}", "--region", REGION]
    argv += ["--access", ACCESS_KEY, "--secret", SECRET_KEY, "--keep-alive", "--quiet", "posix"]
    if not _keeps_attributes(data):
        argv += ["--sidecar", str(home / "attributes")]
        (home / "attributes").mkdir(exist_ok=True)
    return [*argv, str(data)], str(data)


def _keeps_attributes(folder: Path) -> bool:
    """Return whether files can have the attributes that store ETags; on tmpfs often not."""
    probe = folder.parent / "probe"
    probe.touch()
    try:
        os.setxattr(probe, "user.landfall", b"1")
    except (OSError, AttributeError):
        return False
    finally:
        probe.unlink()
    return True


def _env(address: str) -> dict[str, str]:
    return {
        "LANDFALL_S3": address,
        "AWS_ACCESS_KEY_ID": ACCESS_KEY,
        "AWS_SECRET_ACCESS_KEY": SECRET_KEY,
        "AWS_DEFAULT_REGION": REGION,
    }


S3 = ServerKind(
    name="s3",
    existing="LANDFALL_S3",
    ports=1,
    build=_build,
    command=_command,
    ready=lambda _log, host, port: answers(host, port),
    address=lambda host, port: f"http://{host}:{port}",
    env=_env,
)
