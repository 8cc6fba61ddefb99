"""Logs within seconds why Kafka or the store does not answer, while their clients still wait.

The clients wait long, because a slow server must not cost a batch, and report little: after a
minute or more, that the time ran out. So this module logs which address does not answer, and what
is wrong with it, and repeats that each minute for as long as it is so. Nothing is decided here.
"""

import logging
import threading
from collections.abc import Callable, Iterable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from urllib.parse import urlsplit
from urllib.request import getproxies, proxy_bypass

from landfall.api.secret_keys import lacks
from landfall.api.secrets import read_secret, secret_folder
from landfall.api.spec import ConsumerGroup, Feed, LandedPlace, Root, SecretRef
from landfall.errors import Reason, Stalled
from landfall.native import HotPath, hot_path
from landfall.network import Address, trouble

log = logging.getLogger(__name__)

DELAY = 3.0
"""Seconds until a client counts as waiting. ``network.trouble`` names the cause within ten."""
REPEAT = 60.0
"""Seconds until the same is reported again."""
_API_VERSIONS = b"\x00\x00\x00\x0a\x00\x12\x00\x00\x00\x00\x00\x01\xff\xff"
"""The request that every broker answers before any other, also without a login."""
HEAD = b"HEAD / HTTP/1.1\r\nHost: landfall\r\nConnection: close\r\n\r\n"
"""The request that every HTTP server answers."""
_PORTS = {"http": 80, "https": 443}


@dataclass(frozen=True, slots=True)
class Servers:
    """Servers; at least one must answer.

    Attributes:
        name: what they are.
        addresses: where they are; empty if that is not known.
        hello: a request that any of them answers.
    """

    name: str
    addresses: tuple[Address, ...]
    hello: bytes


def kafka_servers(group: ConsumerGroup) -> Servers:
    """Return the brokers that a group's spec names.

    Raises:
        Stalled: SPEC_INVALID, the properties are wrong or their secret cannot be read.
    """
    from landfall.source.properties import kafka_properties  # noqa: PLC0415  # most commands need no Kafka client

    properties = kafka_properties(group)
    tls = properties.get("security.protocol", "").upper() in {"SSL", "SASL_SSL"}
    found = []
    for server in properties["bootstrap.servers"].split(","):
        protocol, _, address = server.strip().rpartition("://")
        host, _, port = address.rpartition(":")
        own = "SSL" in protocol.upper() if protocol else tls
        found.append(Address(host.strip("[]"), int(port), own))
    return Servers("kafka", tuple(found), _API_VERSIONS)


def store_servers(root: Root) -> Servers:
    """Return the server of a root; no address without an endpoint by HTTP, or with a proxy."""
    endpoint = root.access.endpoint
    if root.store or root.url.startswith("file:") or not endpoint:
        return Servers("the store", (), HEAD)
    url = urlsplit(endpoint)
    is_proxied = url.scheme in getproxies() and not proxy_bypass(url.hostname or "")
    if url.scheme not in _PORTS or is_proxied:
        return Servers("the store", (), HEAD)
    port = url.port or _PORTS[url.scheme]
    return Servers(
        "the store", (Address(url.hostname or "", port, tls=url.scheme == "https"),), HEAD
    )


def check_hot_path() -> HotPath:
    """Return the hot path of this process.

    Raises:
        Stalled: SPEC_INVALID, the variable that switches the extension off is neither on nor off.
    """
    try:
        return hot_path()
    except ValueError as error:
        raise Stalled(Reason.SPEC_INVALID, str(error)) from None


def check_secrets(places: Iterable[Root | Feed | LandedPlace], field: str = "") -> None:
    """Return if the secrets of places exist and have the keys that their stores need.

    Only at the start is an absent one a wrong spec: while a group runs, it may come back.

    Raises:
        Stalled: SPEC_INVALID, there is no such secret, or it lacks a key; the message begins with
            the field, if one is given.
    """
    for place in places:
        secret, section = place.access.credentials_secret_ref, place.access_field
        # A keytab is no text.
        if secret and not (section == "hdfs" and secret_folder(secret.name).is_dir()):
            check_secret(secret, section, field and f"{field}.{section}.credentialsSecretRef: ")


def check_secret(secret: SecretRef, section: str, prefix: str = "") -> None:
    """Return if a secret exists and has the keys that a section of the spec needs.

    Raises:
        Stalled: SPEC_INVALID, there is no such secret, or it lacks a key.
    """
    try:
        missing = lacks(section, read_secret(secret.name))
    except Stalled as error:
        raise Stalled(error.reason, f"{prefix}{error}") from None
    if missing:
        raise Stalled(Reason.SPEC_INVALID, f"{prefix}secret {secret.name!r} {missing}")


def log_waiting(name: str, why: str) -> None:
    """Log that servers are waited for, and why they do not answer."""
    log.warning("waiting for %s", name, extra={"why": why})


def explain(servers: Servers, report: Callable[[str, str], None] = log_waiting) -> None:
    """Report why none of the servers answers, if none does; at once if one does."""
    if why := trouble(servers.addresses, servers.hello):
        report(servers.name, why)


@contextmanager
def explained(
    servers: Servers, report: Callable[[str, str], None] = log_waiting, delay: float = DELAY
) -> Iterator[None]:
    """Report why none of the servers answers, if what is done inside takes ``delay``."""
    done = explain_later(servers, report, delay)
    try:
        yield
    finally:
        done.set()


def explain_later(
    servers: Servers,
    report: Callable[[str, str], None] = log_waiting,
    delay: float = DELAY,
    repeat: float = REPEAT,
) -> threading.Event:
    """Report in ``delay`` seconds why none of the servers answers, and again until one does.

    Returns:
        An event; once it is set, nothing is reported any more.
    """
    done = threading.Event()

    def look() -> None:
        pause = delay
        while not done.wait(pause):
            why = trouble(servers.addresses, servers.hello)
            if not why or done.is_set():
                return
            report(servers.name, why)
            pause = repeat

    threading.Thread(target=look, name="explain", daemon=True).start()
    return done
