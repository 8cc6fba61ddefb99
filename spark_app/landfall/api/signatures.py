"""Signatures of the operator's requests to a driver's control port: header, text, refusals.

The operator has one Ed25519 key pair. Its public keys are in a file of each driver, a
``KeyDocument``; a driver needs no secret to recognize the operator, and nothing on the wire lets a
reader send commands (docs/adr/0057).

The signature covers the request, its receiver and its time: the method, the path with its query,
the group, its uid, the driver's revision and pod, the time, a nonce, and the hash of the body. Both
sides compose the signed text on their own, so a part that differs is refused without being
compared. Every part of the header has only one spelling.

Pure: the signer or verifier provides the key, the clock and the nonces.
"""

import hashlib
import json
import re
from dataclasses import dataclass
from datetime import timedelta
from enum import StrEnum

SCHEME = "Landfall-Ed25519"
"""The scheme of the header ``Authorization``."""
MAX_SKEW = timedelta(seconds=60)
"""How far the time of a request may be from the driver's clock, either way."""
MAX_KEYS = 4
"""Public keys of a ``KeyDocument``: the current one, and former ones."""
_CONTEXT = "landfall.dev/control/1"
"""The first part of each signed text, so that it is never valid for anything else."""
_HEADER = re.compile(
    rf"{SCHEME} key=([0-9a-f]{{16}}),time=([0-9]{{13}}),nonce=([0-9a-f]{{32}}),"
    r"body=([0-9a-f]{64}),signature=([0-9a-f]{128})",
    re.ASCII,
)
_CHALLENGE = re.compile(rf"{SCHEME} time=([0-9]{{13}}),error=([a-z-]{{1,20}})", re.ASCII)
_PUBLIC_KEY = re.compile("[0-9a-f]{64}", re.ASCII)


class SignatureRefusal(StrEnum):
    """Why a driver refuses a signed request with 401."""

    MALFORMED = "malformed"
    """The header is not one of a signed request."""
    UNKNOWN_KEY = "unknown-key"
    """The driver does not have the public key, or not yet."""
    CLOCK = "clock"
    """The time is too far from the driver's clock, or before the driver's start."""
    SIGNATURE = "signature"
    """The signature does not belong to this request to this driver."""
    REPLAYED = "replayed"
    """The driver accepted a request with this nonce before, or too many to remember one more."""
    BODY = "body"
    """The body is not the one that was signed."""


@dataclass(frozen=True, slots=True)
class Addressee:
    """The one driver that a request is for.

    Attributes:
        namespace: the namespace of the group.
        group: the name of the group.
        uid: the group's metadata.uid.
        revision: the revision that the driver runs.
        pod: the metadata.uid of its pod.
    """

    namespace: str
    group: str
    uid: str
    revision: str
    pod: str


@dataclass(frozen=True, slots=True)
class SignedHeader:
    """The header of a signed request, without the signature.

    Attributes:
        key: the id of the key, see ``key_id``.
        time: milliseconds since 1970, by the clock of the driver as far as the operator knows it.
        nonce: 128 random bits (hex).
        body: SHA-256 (hex) of the body.
    """

    key: str
    time: int
    nonce: str
    body: str

    def signed_text(self, method: str, target: str, addressee: Addressee) -> bytes:
        """The bytes that are signed. ``target`` is the path with its query."""
        to = addressee
        parts = [
            *(_CONTEXT, self.key, method, target),
            *(to.namespace, to.group, to.uid, to.revision, to.pod),
            *(self.time, self.nonce, self.body),
        ]
        return json.dumps(parts, separators=(",", ":")).encode()

    def text(self, signature: bytes) -> str:
        """The value of the header ``Authorization``."""
        return (
            f"{SCHEME} key={self.key},time={self.time:013d},nonce={self.nonce},body={self.body},"
            f"signature={signature.hex()}"
        )


def parse_header(text: str) -> tuple[SignedHeader, bytes] | None:
    """The header of a signed request and its signature; None if it is not exactly one."""
    found = _HEADER.fullmatch(text)
    if not found:
        return None
    key, time, nonce, body, signature = found.groups()
    return SignedHeader(key, int(time), nonce, body), bytes.fromhex(signature)


def challenge(time: int, refusal: SignatureRefusal) -> str:
    """The header ``WWW-Authenticate`` of a refusal, with the driver's clock in milliseconds."""
    return f"{SCHEME} time={time:013d},error={refusal}"


def parse_challenge(text: str) -> tuple[int, SignatureRefusal] | None:
    """The driver's clock and why it refuses; None if the header is not one of a driver."""
    found = _CHALLENGE.fullmatch(text)
    if not found or found[2] not in set(SignatureRefusal):
        return None
    return int(found[1]), SignatureRefusal(found[2])


def body_hash(body: bytes) -> str:
    """SHA-256 (hex) of a body."""
    return hashlib.sha256(body).hexdigest()


def key_id(public: bytes) -> str:
    """The id of a public key: sixteen hexadecimal digits."""
    return hashlib.sha256(public).hexdigest()[:16]


@dataclass(frozen=True, slots=True)
class KeyDocument:
    """The file with the keys by which a driver recognizes the operator.

    Attributes:
        uid: the metadata.uid of the group that the file is for.
        keys: raw public keys, the current one first.
    """

    uid: str
    keys: tuple[bytes, ...]

    def text(self) -> str:
        """The file's content."""
        document = {"group": self.uid, "keys": [key.hex() for key in self.keys]}
        return json.dumps(document, indent=1, sort_keys=True) + "\n"

    @classmethod
    def parse(cls, text: str | bytes) -> "KeyDocument":
        """The document in a file that ``text`` wrote.

        Raises:
            ValueError: it is none, or has too many keys.
        """
        try:
            document = json.loads(text)
            uid, keys = document["group"], document["keys"]
        except (ValueError, KeyError, TypeError, RecursionError) as error:
            raise ValueError("not a document with the operator's public keys") from error
        if not isinstance(uid, str) or not isinstance(keys, list) or len(keys) > MAX_KEYS:
            raise ValueError(f"not a uid and at most {MAX_KEYS} public keys")
        if not all(isinstance(key, str) and _PUBLIC_KEY.fullmatch(key) for key in keys):
            raise ValueError("a public key is not 64 hexadecimal digits")
        return cls(uid, tuple(map(bytes.fromhex, keys)))
