"""Finds out by a socket why a server does not answer: clients only report a timeout. Pure I/O.

The clients of Kafka and S3 distinguish a silent server from one that refuses only after minutes, or
not at all. ``trouble`` opens a connection of its own, sends a hello, and is done within ``2 *
PATIENCE``. It decides nothing: what it finds is for people.
"""

import logging
import socket
import ssl
from collections.abc import Iterable
from concurrent.futures import ThreadPoolExecutor, as_completed
from contextlib import suppress
from dataclasses import dataclass
from functools import cache
from ipaddress import ip_address
from urllib.parse import urlsplit

log = logging.getLogger(__name__)

PATIENCE = 2.5
"""Seconds to wait for a connection, and again for an answer."""
MAX_ADDRESSES = 8
"""The number of addresses that are looked at."""
_TLS_ALERT = b"\x15\x03"
_HTTP = b"HT"
NO_TLS = "does not speak TLS, which this client is configured for"
_NO_TLS_REASONS = frozenset(
    {"WRONG_VERSION_NUMBER", "RECORD_LAYER_FAILURE", "PACKET_LENGTH_TOO_LONG", "HTTP_REQUEST"}
)
_OWN_ERRORS = frozenset({"builtins", "socket", "ssl"})
"""Modules of errors whose text is the system's: a client's text may quote a URL with a password.
"""


@dataclass(frozen=True, slots=True)
class Address:
    """A server's address, and whether its clients speak TLS."""

    host: str
    port: int
    tls: bool = False

    def __str__(self) -> str:
        return f"[{self.host}]:{self.port}" if ":" in self.host else f"{self.host}:{self.port}"


def trouble(addresses: Iterable[Address], hello: bytes) -> str:
    """Why none of these servers answers; empty as soon as one does.

    Args:
        addresses: at most ``MAX_ADDRESSES`` are looked at.
        hello: a request that any server of this kind answers; empty if a connection is enough.
    """
    looked_at = list(addresses)[:MAX_ADDRESSES]
    pool = ThreadPoolExecutor(MAX_ADDRESSES, "network")
    looks = {pool.submit(_trouble, address, hello): address for address in looked_at}
    pool.shutdown(wait=False)
    if not looks or not all(look.result() for look in as_completed(looks)):
        return ""
    return "; ".join(f"{address}: {look.result()}" for look, address in looks.items())


def connection_fault(error: BaseException) -> str:
    """Why a client's connection failed: the socket's error; empty if the cause is none of that.

    It is the first error of a socket in the chain, and quotes nothing that a client wrote.
    """
    cause: BaseException | None = error
    while cause is not None:
        if isinstance(cause, OSError) and _is_of_a_socket(cause):
            return _described(cause)
        cause = cause.__cause__ or cause.__context__
    return ""


def _is_of_a_socket(error: OSError) -> bool:
    is_named = isinstance(error, TimeoutError | ssl.SSLError) or error.strerror is not None
    return is_named and error.filename is None and type(error).__module__ in _OWN_ERRORS


def _described(error: OSError) -> str:
    match error:
        case socket.gaierror():
            return f"no such host ({error.strerror})"
        case ssl.SSLCertVerificationError():
            return f"its certificate is not trusted ({error.verify_message})"
        case ssl.SSLError() if error.reason in _NO_TLS_REASONS:
            return NO_TLS
        case TimeoutError():
            return "no answer in time"
    return f"{error.strerror or error}".lower()


def _trouble(address: Address, hello: bytes) -> str:
    try:
        plain = socket.create_connection((address.host, address.port), PATIENCE)
    except TimeoutError:
        return f"silent: no connection within {PATIENCE:g} s"
    except OSError as error:
        return _described(error)
    with plain:
        return _handshake(plain, address) if address.tls else _unanswered(plain, hello)


def _handshake(plain: socket.socket, address: Address) -> str:
    # Not to trust the server, but to see whether it speaks TLS: nothing of worth is sent.
    context = ssl.create_default_context()
    context.check_hostname = False
    context.verify_mode = ssl.CERT_NONE
    try:
        with context.wrap_socket(plain, server_hostname=address.host):
            # The server may require a client certificate before it answers: a completed handshake
            # is all that is checked.
            return ""
    except TimeoutError:
        return "accepts connections, but does not answer a TLS handshake"
    except OSError:
        return NO_TLS


def _unanswered(plain: socket.socket, hello: bytes) -> str:
    answer = b""
    if not hello:
        return ""
    try:
        plain.sendall(hello)
        answer = plain.recv(2)
    except TimeoutError:
        return "accepts connections, but does not answer"
    except OSError:
        pass
    if answer == _TLS_ALERT:
        return "speaks TLS, which this client is not configured for"
    if answer == _HTTP and not hello.startswith(b"HEAD "):
        return "is an HTTP server"
    with suppress(OSError):
        plain.shutdown(socket.SHUT_RDWR)
    return "" if answer else "closes connections at once"


def warn_of_plain_http(url: str) -> None:
    """Log once that a login is sent to this server without encryption; not for this machine."""
    parts = urlsplit(url)
    if parts.scheme == "http" and not _is_loopback(parts.hostname or ""):
        _warn_of(f"{parts.hostname}:{parts.port or 80}")


@cache
def _warn_of(server: str) -> None:
    log.warning(
        "login sent without encryption, anyone on the way can read it: use https",
        extra={"server": server},
    )


def _is_loopback(host: str) -> bool:
    try:
        return ip_address(host).is_loopback
    except ValueError:
        return host == "localhost"
