"""A pod of another namespace that reaches every port, in a network that enforces no policy."""

import base64
import json
import os
import secrets
import struct
from collections.abc import Iterator

import psutil
import pytest

from landfall.api.contract import CONTROL_PORT, EXECUTORS_PATH, HTTP_PORT, OPEN_PATH, YIELD_PATH
from landfall_operator.objects.pod_templates import BLOCK_PORT, DRIVER_PORT
from tests.hostile.peers import SlowClients, exchange, status_code
from tests.hostile.world import World

pytestmark = [pytest.mark.full, pytest.mark.timeout(900, func_only=True)]

PARTY = "Neighbour pod"
CONNECTIONS = 400
THREADS = 80
"""The most threads that slow clients may add to a driver."""
BLOCK_BYTES = 64 << 20
"""The most bytes that a peer without credentials may add to a JVM."""


def request(method: str, path: str, *headers: str, body: bytes = b"") -> bytes:
    lines = [f"{method} {path} HTTP/1.1", "Host: x", f"Content-Length: {len(body)}", *headers]
    return "\r\n".join([*lines, "", ""]).encode() + body


def test_slow_connections_to_a_driver(world: World) -> None:
    driver = world.driver
    process = psutil.Process(driver.popen.pid)

    with world.attack(
        PARTY, "slow connections to a driver", f"{CONNECTIONS} that send a byte a second, to 8080"
    ) as attack:
        before = process.num_threads()
        clients = SlowClients(driver.address, HTTP_PORT, CONNECTIONS)
        try:
            left = clients.drip(5)
            assert process.num_threads() - before < THREADS
            answered = exchange(driver.address, HTTP_PORT, request("GET", "/healthcheck"))
            assert status_code(answered) == 200
            left = clients.drip(10)
        finally:
            clients.close()
        assert left < THREADS
        attack.saw(f"the probe is answered; after 15 s, fewer than {THREADS} are still open")


def test_slow_connections_to_the_control_port(world: World) -> None:
    driver = world.driver

    with world.attack(
        PARTY, "slow connections to the control port", f"{CONNECTIONS} that send a byte a second"
    ) as attack:
        clients = SlowClients(driver.address, CONTROL_PORT, CONNECTIONS)
        try:
            left = clients.drip(5)
            # The operator's commands go through: ``world.attack`` changes the group meanwhile.
            world.check_operator(attack)
        finally:
            clients.close()
        assert left < THREADS
        attack.saw("the operator's command arrives while they are open")


def made_up(world: World) -> Iterator[tuple[str, list[str]]]:
    """Credentials that a pod can make up or has."""
    own = world.cluster.as_account(world.make_tenant().namespace, "default").configuration
    token = str(own.api_key["authorization"])
    key = base64.b64encode(secrets.token_bytes(64)).decode()
    yield "none", []
    yield "an empty token", ["Authorization: Bearer "]
    yield "a guess", ["Authorization: Bearer token", f"Authorization: Bearer {key}"]
    yield "another scheme", [f"Authorization: Basic {base64.b64encode(b'a:b').decode()}"]
    yield "the token of its ServiceAccount", [f"Authorization: {token}"]
    yield "control characters", ["Authorization: Bearer \x00\x1b[2J"]
    yield "a megabyte", [f"Authorization: Bearer {'x' * 60_000}"]
    yield "no text", ["Authorization: Bearer \xff\xfe"]
    for name in ("Signature", "X-Landfall-Signature", "Landfall-Signature", "Landfall-Time"):
        yield (
            f"a signature of its own in {name}",
            [f"{name}: {key}", f"Authorization: Ed25519 {key}"],
        )


def test_commands_without_credentials(world: World) -> None:
    driver = world.driver
    wanted = world.honest.status()["replicas"]
    epoch = world.honest.ledger().epoch
    bodies = {
        EXECUTORS_PATH: {"wanted": 900},
        YIELD_PATH: {"to": "g9-forged"},
        OPEN_PATH: {},
        "/control/retry": {"who": "me", "why": "x"},
        "/control/../status": {},
    }

    with world.attack(
        PARTY,
        "commands to somebody else's driver",
        "every control path with credentials that a pod can make up or has: none, guesses, the"
        " token of its account, signatures of its own",
    ) as attack:
        codes = set()
        for name, headers in made_up(world):
            for path, body in bodies.items():
                sent = request("POST", path, *headers, body=json.dumps(body).encode())
                code = status_code(exchange(driver.address, CONTROL_PORT, sent))
                codes.add(code)
                attack.check(code in {400, 401, 403, 431}, f"{code} for {path} with {name}")
        attack.saw(f"answered {', '.join(map(str, sorted(codes)))}")
        status = json.loads(
            exchange(driver.address, HTTP_PORT, request("GET", "/status", "Connection: close"))
            .partition(b"\r\n\r\n")[2]
        )  # fmt: skip
        attack.check(status["workers"]["wanted"] == wanted, "another number of executors")
        attack.check(status["phase"] == "Running", "a driver that has handed over")
        attack.check(world.honest.ledger().epoch == epoch, "another owner of the lane")


def test_bodies_without_credentials(world: World) -> None:
    driver = world.driver

    tried = "a body of a gigabyte, chunks, headers without end"

    with world.attack(PARTY, "huge requests to a driver", tried) as attack:
        before = psutil.Process(driver.popen.pid).memory_info().rss
        for head in (
            b"POST /control/executors HTTP/1.1\r\nContent-Length: 1073741824\r\n\r\n",
            b"POST /control/executors HTTP/1.1\r\nTransfer-Encoding: chunked\r\n\r\n40000000\r\n",
            b"POST /control/executors HTTP/1.1\r\nContent-Length: -1\r\n\r\n",
            b"GET /" + b"x" * 10_000_000,
            b"GET / HTTP/1.1\r\n" + b"X: y\r\n" * 100_000,
        ):
            for port in (CONTROL_PORT, HTTP_PORT):
                answered = exchange(driver.address, port, head, b"x" * 1_000_000, seconds=15)
                attack.check(
                    status_code(answered) in {0, 400, 401, 404, 414, 431, 501},
                    f"{status_code(answered)} for {head[:40]!r}",
                )
        grown = psutil.Process(driver.popen.pid).memory_info().rss - before
        assert grown < BLOCK_BYTES
        attack.saw("refused before the body is read; the driver's memory does not grow")


SENDER = b"\x00"
NAME = struct.pack(">H", 17) + b"HeartbeatReceiver"
ADDRESS = b"\x01" + struct.pack(">H", 1) + b"h" + struct.pack(">I", 1)
SERIALIZED = b"\xac\xed\x00\x05t\x00\x06forged"  # Java's form of the text "forged"


def rpc_frame(body: bytes, request_id: int = 7) -> bytes:
    """An RpcRequest of Spark's transport: length, type, id, size of the body, body."""
    head = struct.pack(">bqi", 3, request_id, len(body))
    return struct.pack(">q", 8 + len(head) + len(body)) + head + body


def test_sparks_ports(world: World) -> None:
    driver = world.driver
    (java,) = (p for p in driver.processes() if p.name() == "java")
    frames = {
        "a message for the driver, as Java serializes objects": [
            rpc_frame(SENDER + ADDRESS + NAME + SERIALIZED)
        ],
        "random bytes": [os.urandom(100_000)],
        "a frame of 2 GiB": [struct.pack(">q", 2**31 - 1) + b"\x03"],
        "a frame of 8 EiB": [struct.pack(">q", 2**62)],
        "a negative frame": [struct.pack(">q", -1)],
        "a handshake of its own": [rpc_frame(b"\xea" + os.urandom(300))],
        "a fetch of a block": [struct.pack(">qbqi", 30, 0, 1, 0)],
    }

    with world.attack(
        PARTY, "Spark's RPC and block ports without the secret", "; ".join(frames)
    ) as attack:
        before = java.memory_info().rss
        for name, parts in frames.items():
            for port in (DRIVER_PORT, BLOCK_PORT):
                answered = exchange(driver.address, port, *parts, seconds=3)
                attack.check(
                    b"forged" not in answered and b"Unsupported" not in answered
                    and b"ClassCast" not in answered,
                    f"an answer to {name}: {answered[:200]!r}",
                )  # fmt: skip
        assert java.is_running()
        assert java.memory_info().rss - before < BLOCK_BYTES
        attack.saw("nothing that was sent is read as a message: authentication comes first")
        attack.check("forged" not in driver.said, "a message that the driver read")


def test_the_operators_port(world: World) -> None:
    address, port = world.operator._address.removeprefix("http://").split(":")
    process = psutil.Process(world.operator.popen.pid)

    with world.attack(
        PARTY,
        "the operator's port",
        f"{CONNECTIONS} slow connections, huge headers and bodies, other methods",
    ) as attack:
        before = process.num_fds()
        clients = SlowClients(address, int(port), CONNECTIONS)
        try:
            clients.drip(5)
            assert world.operator.ask("/healthz")[0] == 200
            for sent in (
                b"POST /metrics HTTP/1.1\r\nHost: x\r\nContent-Length: 1073741824\r\n\r\n",
                b"GET / HTTP/1.1\r\n" + b"X: " + b"y" * 10_000_000,
                request("DELETE", "/healthz"),
                request("GET", "/../../etc/passwd"),
            ):
                code = status_code(exchange(address, int(port), sent, b"x" * 1_000_000, seconds=5))
                attack.check(code in {0, 400, 404, 405, 413}, f"{code} for {sent[:40]!r}")
            clients.drip(15)
            left = process.num_fds() - before
        finally:
            clients.close()
        assert left < CONNECTIONS
        attack.saw("probes are answered; what may be read are metrics with the names of groups")
        secret = world.s3.env["AWS_SECRET_ACCESS_KEY"]
        attack.check(secret not in world.operator.ask("/metrics")[1], "a key of the store")


def test_what_a_driver_shows(world: World) -> None:
    driver = world.driver
    secret = world.s3.env["AWS_SECRET_ACCESS_KEY"].encode()

    with world.attack(
        PARTY, "reading", "every page of a driver, with paths and queries that lead elsewhere"
    ) as attack:
        for path in (
            *("/status", "/metrics", "/healthcheck", "/status?summary=true", "/", "/control"),
            *("/../../etc/passwd", "/%2e%2e/%2e%2e/etc/passwd", "//x", "/env", "/debug"),
        ):
            page = exchange(driver.address, HTTP_PORT, request("GET", path), seconds=3)
            attack.check(secret not in page, f"a key of the store from {path}")
            attack.check(b"root:" not in page, f"a file of the pod from {path}")
            attack.check(b'"ts": ' not in page, f"a payload from {path}")
        attack.saw(
            "names of topics, offsets and rates, which anybody may read unless the chart narrows it"
        )
