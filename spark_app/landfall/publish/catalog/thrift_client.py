"""Calls of a Hive metastore over Thrift, and the meaning of its errors.

A connection is opened on demand, and again after every error, to the first address that answers.
Thrift's own protocol is used without SASL and without TLS.
"""

import struct
import time
from collections.abc import Callable, Sequence
from typing import Any, TypeVar

from landfall.errors import DestinationAway, DestinationDenied, Reason, Stalled
from landfall.publish.catalog import TableName

Answer = TypeVar("Answer")
Address = tuple[str, int]

_MAX_BYTES = 256 * 2**20
"""Limit of an answer's texts and lists; a server that is no metastore may announce more."""
_IDLE_SECONDS = 30.0
"""The age after which a connection is not reused: a proxy may have dropped it."""
_GARBAGE = (EOFError, ValueError, TypeError, AttributeError, IndexError, KeyError, struct.error)
"""Exceptions of Thrift's generated code for a malformed answer, in addition to its own errors."""
_DENIED = (
    "AccessControlException",
    "Permission denied",
    "not authorized",
    "AuthorizationException",
)


class Refused(Exception):  # noqa: N818  # the name is the state
    """The metastore answers that it failed; whether a user must act is unknown."""


class ThriftClient:
    """Calls a metastore. For one thread at a time."""

    def __init__(self, addresses: Sequence[Address], timeout_seconds: float) -> None:
        """Connect to nothing yet."""
        self._addresses = addresses
        self._timeout_seconds = timeout_seconds
        self._transport: Any = None
        self._client: Any = None
        self._used = 0.0

    def ask(self, name: TableName, call: Callable[[Any], Answer]) -> Answer:
        """Call a method of the generated client.

        Raises:
            AlreadyExistsException, NoSuchObjectException: of the generated client, for the caller.
            Refused: MetaException, which a metastore raises for very different things.
            Stalled: the request does not fit the existing objects.
            DestinationAway: it does not answer, or not as a metastore.
        """
        from pymetastore.hive_metastore import ttypes  # noqa: PLC0415  # an extra
        from thrift.Thrift import TApplicationException, TException  # noqa: PLC0415

        try:
            return call(self._connected())
        except (ttypes.AlreadyExistsException, ttypes.NoSuchObjectException):
            raise
        except ttypes.MetaException as error:
            if any(word in str(error.message) for word in _DENIED):
                raise DestinationDenied(f"Hive metastore: table {name}: {error.message}") from None
            raise Refused(f"Hive metastore: table {name}: {error.message}") from None
        except (
            ttypes.InvalidObjectException,
            ttypes.InvalidOperationException,
            ttypes.InvalidInputException,
        ) as error:
            raise Stalled(
                Reason.DESTINATION_CONFLICT, f"table {name}: the metastore refuses: {error.message}"
            ) from None
        except TApplicationException as error:
            self.close()
            if error.type == TApplicationException.UNKNOWN_METHOD:
                raise Stalled(
                    Reason.DESTINATION_CONFLICT, f"Hive metastore is too old or too new: {error}"
                ) from None
            raise DestinationAway(f"Hive metastore: {error}") from None
        except (TException, OSError, *_GARBAGE) as error:
            self.close()
            raise DestinationAway(f"Hive metastore: {_text(error)}") from None

    def close(self) -> None:
        """Close the connection; the next call makes a new one."""
        if self._transport is not None:
            self._transport.close()
        self._transport = self._client = None

    def _connected(self) -> Any:
        from pymetastore.hive_metastore import ThriftHiveMetastore  # noqa: PLC0415  # an extra
        from thrift.protocol import TBinaryProtocol  # noqa: PLC0415
        from thrift.transport import TSocket, TTransport  # noqa: PLC0415

        if time.monotonic() - self._used > _IDLE_SECONDS:
            self.close()
        self._used = time.monotonic()
        last: TTransport.TTransportException | None = None
        for host, port in () if self._client is not None else self._addresses:
            socket = TSocket.TSocket(host, port)
            socket.setTimeout(self._timeout_seconds * 1000)
            transport = TTransport.TBufferedTransport(socket)
            try:
                transport.open()
            except TTransport.TTransportException as error:
                last = error
                continue
            protocol = TBinaryProtocol.TBinaryProtocol(
                transport, string_length_limit=_MAX_BYTES, container_length_limit=_MAX_BYTES
            )
            self._transport, self._client = transport, ThriftHiveMetastore.Client(protocol)
            break
        if self._client is None:
            assert last is not None, "there is at least one address"
            raise last
        return self._client


def _text(error: Exception) -> str:
    return str(getattr(error, "message", None) or error) or type(error).__name__
