"""A temporary certificate authority and the few certificates that a cluster needs."""

from pathlib import Path

from dev.servers import cache
from dev.servers.ports import write

DAYS = "3650"
CONFIG = """\
[req]
distinguished_name = name
prompt = no
[name]
CN = unused
[authority]
basicConstraints = critical,CA:TRUE
keyUsage = critical,keyCertSign,digitalSignature
[server]
basicConstraints = critical,CA:FALSE
keyUsage = critical,digitalSignature
extendedKeyUsage = serverAuth
[client]
basicConstraints = critical,CA:FALSE
keyUsage = critical,digitalSignature
extendedKeyUsage = clientAuth
"""


class Authority:
    """Creates certificates in one folder, unless they exist there. Users have tokens instead."""

    def __init__(self, folder: Path) -> None:
        self._folder = folder
        folder.mkdir(parents=True, exist_ok=True)
        write(folder / "openssl.cnf", CONFIG)
        self._make("ca", "/CN=landfall-dev", "authority", [])

    def server(self, name: str, addresses: list[str]) -> None:
        """Create ``name.crt`` and ``name.key`` for a server.

        Args:
            name: The name of the files, and the common name.
            addresses: The names (``DNS:…``) and addresses (``IP:…``) of the server.
        """
        alternatives = ["-addext", f"subjectAltName={','.join(addresses)}"]
        self._make(name, f"/CN={name}", "server", [*self._signed(), *alternatives])

    def client(self, name: str, group: str) -> None:
        """Create ``name.crt`` and ``name.key`` for the user ``name`` of a group."""
        self._make(name, f"/O={group}/CN={name}", "client", self._signed())

    def signing_key(self, name: str) -> None:
        """Create the key pair ``name.key`` and ``name.pub``."""
        key, public = self._folder / f"{name}.key", self._folder / f"{name}.pub"
        if not public.exists():
            self._openssl("ecparam", "-name", "prime256v1", "-genkey", "-noout", "-out", str(key))
            self._openssl("ec", "-in", str(key), "-pubout", "-out", str(public))

    def _signed(self) -> list[str]:
        return ["-CA", str(self._folder / "ca.crt"), "-CAkey", str(self._folder / "ca.key")]

    def _make(self, name: str, subject: str, extensions: str, more: list[str]) -> None:
        certificate, key = self._folder / f"{name}.crt", self._folder / f"{name}.key"
        if certificate.exists():
            return
        new_key = [
            "-newkey",
            "ec",
            "-pkeyopt",
            "ec_paramgen_curve:prime256v1",
            "-nodes",
            "-keyout",
            str(key),
        ]
        options = [
            "-config",
            str(self._folder / "openssl.cnf"),
            "-extensions",
            extensions,
            "-days",
            DAYS,
        ]
        self._openssl(
            "req",
            "-x509",
            *new_key,
            *options,
            "-subj",
            subject,
            *more,
            "-out",
            f"{certificate}.new",
        )
        Path(f"{certificate}.new").rename(certificate)

    def _openssl(self, *arguments: str) -> None:
        cache.run([cache.tool("openssl", "a cluster", "openssl"), *arguments])
