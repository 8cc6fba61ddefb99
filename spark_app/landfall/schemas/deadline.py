"""A pool of HTTP connections whose whole exchange ends at a deadline.

Time-outs of urllib3 and of sockets begin again with each byte, so that a server that sends one now
and then, in its handshake, its headers or its body, holds a worker for as long as it likes. Here a
timer cuts the connection during any wait.
"""

import socket
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from threading import Event, Timer
from typing import Any

import urllib3
from urllib3.connection import HTTPConnection, HTTPSConnection
from urllib3.connectionpool import HTTPConnectionPool, HTTPSConnectionPool


@contextmanager
def pool_until(seconds: float, **options: Any) -> Iterator[urllib3.PoolManager]:
    """Give a pool for one request, all of whose connections are cut after so many seconds.

    Args:
        seconds: how long it may take.
        options: of ``urllib3.PoolManager``.

    Raises:
        urllib3.exceptions.TimeoutError: it took longer; headers that were cut would pass for whole.
    """
    opened: list[socket.socket] = []

    class Http(HTTPConnection):
        def _new_conn(self) -> socket.socket:
            return _noted(super()._new_conn(), opened)

    class Https(HTTPSConnection):
        def _new_conn(self) -> socket.socket:
            return _noted(super()._new_conn(), opened)

    class HttpPool(HTTPConnectionPool):
        ConnectionCls = Http

    class HttpsPool(HTTPSConnectionPool):
        ConnectionCls = Https

    expired = Event()

    def cut() -> None:
        expired.set()
        for connection in opened:
            with suppress(OSError):
                connection.shutdown(socket.SHUT_RDWR)

    timer = Timer(seconds, cut)
    timer.daemon = True
    timer.start()
    try:
        with urllib3.PoolManager(**options) as pool:
            pool.pool_classes_by_scheme = {"http": HttpPool, "https": HttpsPool}
            yield pool
        if expired.is_set():
            raise urllib3.exceptions.TimeoutError(f"no whole answer within {seconds:g} s")
    finally:
        timer.cancel()
        for connection in opened:
            connection.close()


def _noted(opened: socket.socket, among: list[socket.socket]) -> socket.socket:
    # A second handle: TLS takes the first one away from its object.
    among.append(opened.dup())
    return opened
