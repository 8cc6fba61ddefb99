"""Asks the other drivers of a group whether one of them works on the lane.

A drained node sends its driver SIGTERM, and the replacement starts while that driver still commits
what it has in flight. If the replacement opened the lane at once, that work would be repeated. So
it asks first. The ledger alone decides who lands; a wrong answer here only costs time.
"""

import http.client
import logging
import socket

from landfall import untrusted_json
from landfall.api.contract import HTTP_PORT, DriverPhase

log = logging.getLogger(__name__)

PATIENCE_SECONDS = 3.0
"""How long one driver may take to answer; one that hangs does not count as working."""
MAX_ANSWER_BYTES = 1 << 20
WORKING = frozenset({DriverPhase.RECOVERING, DriverPhase.RUNNING, DriverPhase.DRAINING})
"""Phases of a driver that owns the lane and makes progress."""


def is_any_working(name: str, port: int = HTTP_PORT) -> bool:
    """Return whether a driver at one of the addresses of ``name`` owns the lane and makes progress.

    False if the name has no address, and for every driver that is gone, hangs or is stuck. This
    process may be among the addresses: it does not own the lane while it asks.
    """
    try:
        found = socket.getaddrinfo(name, port, type=socket.SOCK_STREAM)
    except OSError as error:
        log.warning("drivers of the group not found", extra={"host": name, "why": str(error)})
        return False
    return any(_works(str(address[0]), port) for *_, address in found)


def _works(host: str, port: int) -> bool:
    connection = http.client.HTTPConnection(host, port, timeout=PATIENCE_SECONDS)
    try:
        connection.request("GET", "/healthcheck")
        answer = connection.getresponse()
        healthy = answer.status == http.client.OK
        return (
            healthy and untrusted_json.decode(answer.read(MAX_ANSWER_BYTES)).get("phase") in WORKING
        )
    except (OSError, http.client.HTTPException, ValueError, AttributeError):
        return False  # gone, or not a driver
    finally:
        connection.close()
