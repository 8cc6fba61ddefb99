"""SHA256SUMS of a release, and its signature.

The signature is of Ed25519, over the bytes of SHA256SUMS: one signature for all files, which
`openssl pkeyutl` checks without a program of ours. The key never leaves the machine that signs.
"""

import hashlib
from pathlib import Path

from cryptography.hazmat.primitives import serialization
from cryptography.hazmat.primitives.asymmetric.ed25519 import Ed25519PrivateKey

SUMS = "SHA256SUMS"
SIGNATURE = "SHA256SUMS.sig"
"""64 bytes."""
PUBLIC_KEY = "landfall-release.pub"


def write(folder: Path) -> Path:
    """Write the SHA-256 of each file of a folder, as ``sha256sum --check`` reads them."""
    lines = []
    for file in sorted(folder.iterdir()):
        if file.name not in {SUMS, SIGNATURE}:
            with file.open("rb") as content:
                lines.append(f"{hashlib.file_digest(content, 'sha256').hexdigest()}  {file.name}\n")
    sums = folder / SUMS
    sums.write_text("".join(lines))
    return sums


def key(file: Path) -> Ed25519PrivateKey:
    """Read a private key: PEM, as `openssl genpkey -algorithm ed25519` writes it.

    Raises:
        ValueError: it is no such key, or one with a passphrase.
    """
    try:
        loaded = serialization.load_pem_private_key(file.read_bytes(), password=None)
    except TypeError as encrypted:
        raise ValueError(f"{file}: a key with a passphrase; decrypt it first") from encrypted
    if not isinstance(loaded, Ed25519PrivateKey):
        raise ValueError(f"{file}: not a key of Ed25519")  # noqa: TRY004  # of a user's file
    return loaded


def public_pem(private: Ed25519PrivateKey) -> bytes:
    """The public half of a key, as OpenSSL reads it."""
    return private.public_key().public_bytes(
        serialization.Encoding.PEM, serialization.PublicFormat.SubjectPublicKeyInfo
    )


def sign(sums: Path, private: Ed25519PrivateKey) -> None:
    """Write the signature of a file of sums next to it."""
    sums.with_name(SIGNATURE).write_bytes(private.sign(sums.read_bytes()))
