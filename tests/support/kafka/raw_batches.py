"""Produces records that no client library would: batches encoded here and sent over a socket.

Kafka's clients reject header names that are not UTF-8 and timestamps before 1970, but a broker
accepts them, so topics can contain them. Produce requests have version 3, record batches version 2,
without compression.
"""

import socket
import struct
from collections.abc import Iterable, Sequence
from dataclasses import dataclass

from tests.support.kafka.broker import SECONDS, Broker
from tests.support.waiting import eventually

_CASTAGNOLI = 0x82F63B78
_NO_LEADER_YET = {3, 5, 6}
"""The errors of a broker while the topic is being created."""


@dataclass(frozen=True)
class RawRecord:
    """A record as bytes; ``timestamp`` in milliseconds, of any sign, -1 for none."""

    value: bytes | None
    key: bytes | None = None
    timestamp: int = -1
    headers: Sequence[tuple[bytes, bytes | None]] = ()


def produce_raw(
    broker: Broker, topic: str, records: Iterable[RawRecord], partition: int = 0
) -> None:
    """Append records, each in its own batch, so that each can have any timestamp."""
    host, _, port = str(broker).rpartition(":")
    with socket.create_connection((host, int(port)), SECONDS) as connection:
        for number, record in enumerate(records):
            request = _request(topic, partition, _batch(record))

            def sent(number: int = number, request: bytes = request) -> int:
                _send(connection, number, request)
                return _answered(connection, topic)

            error = eventually(sent, lambda error: error not in _NO_LEADER_YET)
            assert error == 0, f"{record!r:.200}: Kafka's error {error}"


def _request(topic: str, partition: int, batch: bytes) -> bytes:
    no_transaction, acks, wait = (
        b"\xff\xff",
        struct.pack(">h", -1),
        struct.pack(">i", SECONDS * 1000),
    )
    one = struct.pack(">i", 1)
    data = one + _string(topic) + one + struct.pack(">ii", partition, len(batch)) + batch
    return no_transaction + acks + wait + data


def _send(connection: socket.socket, number: int, body: bytes) -> None:
    produce, version = 0, 3
    whole = struct.pack(">hhi", produce, version, number) + _string("raw") + body
    connection.sendall(struct.pack(">i", len(whole)) + whole)


def _answered(connection: socket.socket, topic: str) -> int:
    answer = _exactly(connection, struct.unpack(">i", _exactly(connection, 4))[0])
    # correlation, topics, name, partitions, partition: the error comes next
    return int(struct.unpack_from(">h", answer, 4 + 4 + 2 + len(topic) + 4 + 4)[0])


def _exactly(connection: socket.socket, count: int) -> bytes:
    taken = b""
    while len(taken) < count:
        more = connection.recv(count - len(taken))
        assert more, "Kafka closed the connection"
        taken += more
    return taken


def _string(text: str) -> bytes:
    return struct.pack(">h", len(text)) + text.encode()


def _batch(record: RawRecord) -> bytes:
    body = _record(record)
    create_time, last_delta, nobody = 0, 0, struct.pack(">qhi", -1, -1, -1)
    times = struct.pack(">qq", record.timestamp, record.timestamp)
    checked = (
        struct.pack(">hi", create_time, last_delta) + times + nobody + struct.pack(">i", 1) + body
    )
    tail = struct.pack(">ibI", -1, 2, _crc32c(checked)) + checked
    return struct.pack(">qi", 0, len(tail)) + tail


def _record(record: RawRecord) -> bytes:
    headers = b"".join(_bytes(name) + _bytes(value) for name, value in record.headers)
    attributes, deltas = b"\0", _varint(0) * 2
    body = (
        attributes
        + deltas
        + _bytes(record.key)
        + _bytes(record.value)
        + _varint(len(record.headers))
        + headers
    )
    return _varint(len(body)) + body


def _bytes(value: bytes | None) -> bytes:
    return _varint(-1) if value is None else _varint(len(value)) + value


def _varint(number: int) -> bytes:
    """Zigzag, seven bits at a time, the lowest first."""
    left, out = (number << 1) ^ (number >> 63), bytearray()
    while left > 127:
        out.append(left & 127 | 128)
        left >>= 7
    return bytes((*out, left))


def _table() -> list[int]:
    found = []
    for byte in range(256):
        crc = byte
        for _ in range(8):
            crc = crc >> 1 ^ _CASTAGNOLI * (crc & 1)
        found.append(crc)
    return found


_TABLE = _table()


def _crc32c(body: bytes) -> int:
    crc = 0xFFFFFFFF
    for byte in body:
        crc = _TABLE[(crc ^ byte) & 255] ^ crc >> 8
    return crc ^ 0xFFFFFFFF
