"""Webhook: events by HTTP POST, signed, each at least once and in order.

Source of the signature: Standard Webhooks, "Specification" (standard-webhooks/standard-webhooks,
``spec/standard-webhooks.md``): HMAC-SHA256 over ``<webhook-id>.<webhook-timestamp>.<body>``. Source
of the body: CloudEvents, "HTTP Protocol Binding for CloudEvents - Version 1.0.2", sections 3.2 and
3.3.
"""

import base64
import binascii
import hashlib
import hmac
import time
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass

import msgspec

from landfall.errors import Reason, Stalled
from landfall.pipeline.decoders.options import read_options
from landfall.publish import Publisher
from landfall.publish.context import Context
from landfall.publish.events import (
    BATCH_CONTENT_TYPE,
    CONTENT_TYPE,
    Event,
    Events,
    encode_batch,
)
from landfall.publish.events.sending import EventPublisher, event_kinds, starts_now
from landfall.publish.events.web import WebRequest, WebServer, timeout_option, url_option

MAX_BATCH = 1_000
_KEY_BYTES = range(24, 65)


class Options(msgspec.Struct, frozen=True, forbid_unknown_fields=True, rename="camel"):
    """The options of the type ``Webhook``."""

    url: str
    events: tuple[str, ...] = ()
    start: str = "Beginning"
    batch: int = 1
    timeout: str = "30s"


@dataclass(frozen=True)
class Webhook:
    """Sends events to a webhook; see ``Sender``.

    Attributes:
        server: the webhook's.
        context: of the publisher, whose secret may hold ``secret``, ``secret-old`` and ``token``.
        is_batch: whether the body is an array of events, even of one.
        now: seconds since 1970.
    """

    server: WebServer
    context: Context
    is_batch: bool = False
    now: Callable[[], float] = time.time

    def send(self, events: Sequence[Event]) -> None:
        """See ``Sender``."""
        body = encode_batch(events) if self.is_batch else events[0].encode()
        kind = BATCH_CONTENT_TYPE if self.is_batch else CONTENT_TYPE
        secret = self.context.secret()
        login = {"Authorization": f"Bearer {secret['token']}"} if "token" in secret else {}
        headers = {"Content-Type": kind, **login, **self._signed(secret, message_id(events), body)}
        self.server.send(WebRequest("POST", "", headers, body))

    def _signed(self, secret: Mapping[str, str], ident: str, body: bytes) -> Mapping[str, str]:
        at = str(int(self.now()))
        texts = {name: secret[name] for name in ("secret", "secret-old") if name in secret}
        signatures = [
            signature(self._key(name, text), ident, at, body) for name, text in texts.items()
        ]
        signed = {"webhook-signature": " ".join(signatures)} if signatures else {}
        return {"webhook-id": ident, "webhook-timestamp": at, **signed}

    def _key(self, name: str, text: str) -> bytes:
        try:
            return signing_key(text)
        except ValueError as error:
            raise Stalled(
                Reason.SPEC_INVALID, f"{self.server.name}: {name} of the secret: {error}"
            ) from None

    @staticmethod
    def of(options: Mapping[str, object], context: Context) -> Publisher:
        """See ``PublisherType``."""
        read = read_options(options, Options)
        if not 1 <= read.batch <= MAX_BATCH:
            raise ValueError(f"option batch: must be from 1 to {MAX_BATCH}, got {read.batch}")
        server = WebServer(
            "webhook", context, url_option("url", read.url), timeout_option("timeout", read.timeout)
        )
        events = Events(context, event_kinds(read.events))
        sender = Webhook(server, context, is_batch=read.batch > 1)
        now = starts_now(read.start)
        return EventPublisher(
            events, context.cursor(f"webhook {server.url}"), sender, read.batch, starts_now=now
        )


def message_id(events: Sequence[Event]) -> str:
    """The ``webhook-id``: the same whenever these events are sent, and without a full stop."""
    names = "\n".join(f"{event.source} {event.id}" for event in events)
    return f"msg_{hashlib.sha256(names.encode()).hexdigest()[:32]}"


def signing_key(text: str) -> bytes:
    """The key in a secret, ``whsec_`` and 24 to 64 bytes in Base64.

    Raises:
        ValueError: it is none; the message does not quote it.
    """
    prefix, _, encoded = text.strip().rpartition("whsec_")
    try:
        key = base64.b64decode(encoded, validate=True)
    except (binascii.Error, ValueError):
        key = b""
    if prefix or len(key) not in _KEY_BYTES:
        raise ValueError("must be whsec_ and 24 to 64 random bytes in Base64")
    return key


def signature(key: bytes, ident: str, timestamp: str, body: bytes) -> str:
    """The signature of a message, with its version."""
    signed = f"{ident}.{timestamp}.".encode() + body
    return f"v1,{base64.b64encode(hmac.digest(key, signed, 'sha256')).decode()}"
