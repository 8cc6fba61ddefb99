"""An Azure Blob Storage server: Azurite with its blobs in memory, so it forgets when it ends.

``LANDFALL_AZURE`` names the URL of an existing account to use instead; its key is in
``AZURE_STORAGE_KEY``.
"""

from pathlib import Path

from dev.servers import cache
from dev.servers.ports import answers
from dev.servers.server import ServerKind

VERSION = "3.37.0"
ACCOUNT = "devstoreaccount1"
KEY = "Eby8vdM02xNOcqFlqUwJPLlmEtlCDXJ1OUzFT50uSRZ6IFsuFq2UVErCz4I6tq/K1SZFPTOtr/KBHBeksoGMGw=="
"""The key that Azurite is documented to have."""
_MAIN = Path("node_modules", "azurite", "dist", "src", "blob", "main.js")


def _build_into(folder: Path) -> None:
    npm = cache.tool("npm", "the first start of the Azure server", "npm")
    options = ["--prefix", str(folder), "--ignore-scripts", "--no-audit", "--no-fund"]
    cache.run([npm, "install", *options, f"azurite@{VERSION}"])


def _build() -> Path:
    announcement = f"installing Azurite {VERSION} with npm (once, about a minute, 365 MB)"
    return cache.built(f"azurite-{VERSION}", f"azurite@{VERSION}", _build_into, announcement)


def _command(
    programs: Path, home: Path, host: str, ports: tuple[int, ...]
) -> tuple[list[str], str]:
    node = cache.tool("node", "the Azure server", "nodejs")
    # The folder is unused in memory; it distinguishes this server from other ones.
    marker = str(home / "data")
    argv = [node, str(programs / _MAIN), "--blobHost", host, "--blobPort", str(ports[0])]
    argv += ["--inMemoryPersistence", "--silent", "--skipApiVersionCheck", "--disableTelemetry"]
    return [*argv, "--debug", f"{marker}.log"], marker


AZURE = ServerKind(
    name="azure",
    existing="LANDFALL_AZURE",
    ports=1,
    build=_build,
    command=_command,
    ready=lambda _log, host, port: answers(host, port),
    address=lambda host, port: f"http://{host}:{port}/{ACCOUNT}",
    env=lambda address: {"LANDFALL_AZURE": address, "AZURE_STORAGE_KEY": KEY},
)
