"""Signs requests to a driver's control port as the operator does, part by part."""

import json
import time
from collections.abc import Callable
from dataclasses import dataclass, replace
from itertools import count
from pathlib import Path

import aiohttp
from cryptography.hazmat.primitives.asymmetric.ed25519 import Ed25519PrivateKey

from landfall.api.signatures import Addressee, KeyDocument, SignedHeader, body_hash, key_id
from landfall.driver.http.signed_requests import SignatureCheck
from landfall_operator.runtime.control_port import ControlPort, Signer
from landfall_operator.runtime.signing_keys import SigningKey

NOW = 1_764_000_000_000
"""The driver's clock, in milliseconds."""
DRIVER = Addressee("logs", "clicks", "group-uid", "g1-1a2b3c4d", "pod-uid")
_NONCES = count()


def new_key(number: int = 1) -> Ed25519PrivateKey:
    """A key; the same for the same number."""
    return Ed25519PrivateKey.from_private_bytes(bytes([number]) * 32)


def public(key: Ed25519PrivateKey) -> bytes:
    """The raw public key."""
    return key.public_key().public_bytes_raw()


def write_keys(file: Path, *keys: Ed25519PrivateKey, uid: str = DRIVER.uid) -> None:
    """Mount these public keys, as the kubelet does."""
    file.write_text(KeyDocument(uid, tuple(map(public, keys))).text())


@dataclass(frozen=True)
class Asked:
    """A request; each field can be changed before or after it is signed."""

    path: str
    body: bytes
    method: str = "POST"
    addressee: Addressee = DRIVER
    key: Ed25519PrivateKey = new_key()  # noqa: RUF009  # a constant
    time: int = NOW
    nonce: str = ""

    @classmethod
    def of(cls, path: str, document: object, **fields: object) -> "Asked":
        """A request with a nonce that no other has."""
        made = cls(path, json.dumps(document).encode(), nonce=f"{next(_NONCES):032x}")
        return replace(made, **fields)  # type: ignore[arg-type]  # the caller's names

    @property
    def header(self) -> str:
        """The header that signs this request."""
        signed = SignedHeader(key_id(public(self.key)), self.time, self.nonce, body_hash(self.body))
        text = signed.signed_text(self.method, self.path, self.addressee)
        return signed.text(self.key.sign(text))


@dataclass
class Clock:
    """A clock that a test sets."""

    now: int = NOW

    def __call__(self) -> int:
        return self.now


def check_of(file: Path, clock: Clock) -> SignatureCheck:
    """What checks signatures in ``DRIVER``."""
    return SignatureCheck(file, DRIVER.namespace, DRIVER.group, DRIVER.revision, DRIVER.pod, clock)


def control_port(
    session: aiohttp.ClientSession,
    *keys: Ed25519PrivateKey,
    clock: Callable[[], int] = lambda: time.time_ns() // 1_000_000,
) -> ControlPort:
    """The control ports as an operator with these keys sees them, the current one first."""
    known = tuple(map(SigningKey.of, keys or (new_key(),)))
    return ControlPort(session, Signer(lambda: known, clock))
