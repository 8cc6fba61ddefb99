"""The operator's key pair: made once, kept in a Secret of the operator's own namespace.

The Secret has ``current``, which signs, and perhaps ``previous``, which drivers know until they
have the new one: Ed25519 private keys in PEM. If ``current`` is moved to ``previous``, a new
``current`` is made; if the Secret is deleted, a new key is made, and the old one is trusted no
more. An existing key is never changed here (docs/adr/0057).
"""

import asyncio
import base64
import logging
from typing import NamedTuple

from cryptography.hazmat.primitives.asymmetric.ed25519 import Ed25519PrivateKey
from cryptography.hazmat.primitives.serialization import (
    Encoding,
    NoEncryption,
    PrivateFormat,
    load_pem_private_key,
)

from landfall.api.signatures import key_id
from landfall.errors import LandfallError
from landfall_operator.objects.manifests import signing_key
from landfall_operator.objects.overlay import Json
from landfall_operator.runtime.kube_client import KubeClient, NotFound

log = logging.getLogger(__name__)

INTERVAL = 60.0
"""Seconds between two looks at the Secret."""
CURRENT = "current"
PREVIOUS = "previous"


class UnreadableKey(LandfallError):  # noqa: N818  # the name is the state
    """The Secret has an entry that is not a key; a user has to decide about it."""


class SigningKey(NamedTuple):
    """A key pair."""

    id: str
    public: bytes
    private: Ed25519PrivateKey

    @classmethod
    def of(cls, private: Ed25519PrivateKey) -> "SigningKey":
        """The key pair of a private key."""
        public = private.public_key().public_bytes_raw()
        return cls(key_id(public), public, private)


class SigningKeys:
    """The keys as the Secret had them last: the current one first."""

    def __init__(self, kube: KubeClient, namespace: str, name: str) -> None:
        """``kube`` writes only while this operator is the leader."""
        self._kube = kube
        self._namespace = namespace
        self._name = name
        self.keys: tuple[SigningKey, ...] = ()

    @property
    def public(self) -> tuple[bytes, ...]:
        """The public keys, for drivers; empty before the first look at the Secret."""
        return tuple(key.public for key in self.keys)

    def load(self) -> None:
        """Read the keys, and make what is missing.

        Raises:
            UnreadableKey: a key in the Secret cannot be read; nothing was changed.
            RequestRejected: a right is missing.
            Retry: the API server does not answer, or another client changed the Secret just now.
        """
        try:
            secret = self._kube.get("Secret", self._namespace, self._name)
        except NotFound:
            # Keys of a Secret that was deleted are not trusted any more, even if they are
            # remembered.
            made = {CURRENT: _encoded(Ed25519PrivateKey.generate())}
            secret = self._kube.apply(signing_key(self._namespace, self._name, made))
            log.info("signing key made", extra=self._fields())
        keys = self._keys(secret)
        if CURRENT not in keys:
            secret = self._kube.merge(
                "Secret",
                self._namespace,
                self._name,
                {
                    # Another operator that adds one at the same time wins, and this one reads it.
                    "metadata": {"resourceVersion": secret["metadata"]["resourceVersion"]},
                    "data": {CURRENT: _encoded(Ed25519PrivateKey.generate())},
                },
            )
            keys = self._keys(secret)
            log.info("signing key added", extra=self._fields())
        self.keys = tuple(keys[name] for name in (CURRENT, PREVIOUS) if name in keys)

    async def keep_loading(self) -> None:
        """Look at the Secret again and again; the keys stay as they are while that fails."""
        while True:
            await asyncio.sleep(INTERVAL)
            before = self.public
            try:
                await asyncio.to_thread(self.load)
            except LandfallError as error:
                log.warning("signing key not read: %s", error)
            if self.public != before:
                log.info(
                    "keys changed",
                    extra={**self._fields(), "keys": ",".join(key.id for key in self.keys)},
                )

    def _keys(self, secret: Json) -> dict[str, SigningKey]:
        """The keys of a Secret, by their name in it."""
        data = secret.get("data") or {}
        return {
            name: self._decoded(name, data[name]) for name in (CURRENT, PREVIOUS) if data.get(name)
        }

    def _decoded(self, name: str, text: str) -> SigningKey:
        try:
            private = load_pem_private_key(base64.b64decode(text, validate=True), None)
        except (ValueError, TypeError):
            private = None
        if not isinstance(private, Ed25519PrivateKey):
            raise UnreadableKey(
                f"Secret {self._namespace}/{self._name}: {name} is not an Ed25519 private key in "
                "PEM: remove it, and the operator makes a new one"
            )
        return SigningKey.of(private)

    def _fields(self) -> dict[str, str]:
        return {"secret": f"{self._namespace}/{self._name}"}


def _encoded(key: Ed25519PrivateKey) -> str:
    pem = key.private_bytes(Encoding.PEM, PrivateFormat.PKCS8, NoEncryption())
    return base64.b64encode(pem).decode("ascii")
