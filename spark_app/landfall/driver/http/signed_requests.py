"""Recognizes what the operator has signed: see ``landfall.api.signatures``.

The public keys are read from their file at each request, so that a new key is in force as soon as
it is mounted. Without the file, or with another one, every signature is refused. Of a request, only
its header is looked at before the signature holds.

A request is taken once: its nonce is remembered for as long as its time would be accepted. A driver
that starts remembers none, so it refuses what was signed before its start.
"""

import hmac
import logging
import threading
import time
from collections.abc import Callable
from dataclasses import dataclass, field
from pathlib import Path

from cryptography.exceptions import InvalidSignature
from cryptography.hazmat.primitives.asymmetric.ed25519 import Ed25519PublicKey

from landfall.api.signatures import (
    MAX_SKEW,
    SCHEME,
    Addressee,
    KeyDocument,
    SignatureRefusal,
    SignedHeader,
    body_hash,
    key_id,
    parse_header,
)

log = logging.getLogger(__name__)

MAX_NONCES = 10_000
"""Nonces that are remembered. Only the operator's own requests add any: a few in a minute."""
MAX_FILE_BYTES = 16 * 1024
_SKEW = int(MAX_SKEW.total_seconds() * 1000)


def clock() -> int:
    """Milliseconds since 1970."""
    return time.time_ns() // 1_000_000


def is_signed(header: str) -> bool:
    """Return whether a header ``Authorization`` is one of a signed request, right or wrong."""
    return header.partition(" ")[0] == SCHEME


@dataclass(slots=True)
class SignatureCheck:
    """Checks signed requests to one driver; called from any thread.

    Attributes:
        keys_file: holds the public keys, a ``KeyDocument``.
        namespace: the namespace of the group.
        group: the name of the group.
        revision: the revision that this driver runs.
        pod: the metadata.uid of its pod.
        clock: milliseconds since 1970.
    """

    keys_file: Path
    namespace: str
    group: str
    revision: str
    pod: str
    clock: Callable[[], int] = clock
    _started: int = field(init=False)
    _nonces: dict[str, int] = field(init=False, default_factory=dict)
    _lock: threading.Lock = field(init=False, default_factory=threading.Lock)

    def __post_init__(self) -> None:
        """Refuse what was signed before now."""
        self._started = self.clock()

    def check(self, method: str, target: str, header: str) -> SignedHeader | SignatureRefusal:
        """Return the header if its signature is the operator's, of a request that is taken now."""
        parsed = parse_header(header)
        if parsed is None:
            return SignatureRefusal.MALFORMED
        signed, signature = parsed
        document = self._keys()
        public = {key_id(key): key for key in document.keys}.get(signed.key)
        if public is None:
            return SignatureRefusal.UNKNOWN_KEY
        now = self.clock()
        if not max(now - _SKEW, self._started) <= signed.time <= now + _SKEW:
            return SignatureRefusal.CLOCK
        addressee = Addressee(
            namespace=self.namespace,
            group=self.group,
            uid=document.uid,
            revision=self.revision,
            pod=self.pod,
        )
        try:
            Ed25519PublicKey.from_public_bytes(public).verify(
                signature, signed.signed_text(method, target, addressee)
            )
        except InvalidSignature:
            return SignatureRefusal.SIGNATURE
        return signed if self._take(signed, now) else SignatureRefusal.REPLAYED

    def _take(self, signed: SignedHeader, now: int) -> bool:
        """Remember a nonce; False if it is known, or if there is no room for it."""
        with self._lock:
            # As long as the time of a request is accepted, its nonce is remembered.
            for nonce in [nonce for nonce, until in self._nonces.items() if until < now]:
                del self._nonces[nonce]
            if signed.nonce in self._nonces or len(self._nonces) >= MAX_NONCES:
                return False
            self._nonces[signed.nonce] = signed.time + _SKEW
            return True

    def _keys(self) -> KeyDocument:
        """Return the keys in the file; none if it cannot be read, with the reason in the log."""
        try:
            with self.keys_file.open("rb") as file:
                return KeyDocument.parse(file.read(MAX_FILE_BYTES))
        except OSError as error:
            why = error.strerror
        except ValueError as error:
            why = str(error)
        log.error("public keys of the operator not read", extra={"why": why})
        return KeyDocument("", ())


def is_body(signed: SignedHeader, body: bytes) -> bool:
    """Return whether a body is the one that was signed."""
    return hmac.compare_digest(body_hash(body), signed.body)
