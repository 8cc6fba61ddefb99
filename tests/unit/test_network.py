"""Each way in which a server can fail to answer has its own words; the servers are real sockets."""

import socket
import threading
from collections.abc import Iterator
from contextlib import ExitStack, contextmanager

import pytest

from landfall import network
from landfall.network import Address, connection_fault, trouble

HELLO = b"hello"


@pytest.fixture(autouse=True)
def _patience(monkeypatch: pytest.MonkeyPatch) -> None:
    """A server that answers does so in time, however busy the machine is."""
    monkeypatch.setattr(network, "PATIENCE", 60)


@pytest.fixture
def impatient(_patience: None, monkeypatch: pytest.MonkeyPatch) -> None:
    """For what never comes."""
    monkeypatch.setattr(network, "PATIENCE", 0.2)


@contextmanager
def listening(backlog: int = 8) -> Iterator[socket.socket]:
    with socket.create_server(("127.0.0.1", 0), backlog=backlog) as server:
        yield server


@contextmanager
def answering(reply: bytes) -> Iterator[int]:
    """The port of a server that reads once, replies and closes."""

    def serve() -> None:
        while True:
            try:
                connection, _ = server.accept()
            except OSError:
                return
            with connection:
                connection.settimeout(5)
                connection.recv(1000)
                connection.sendall(reply)

    with listening() as server:
        threading.Thread(target=serve, daemon=True).start()
        yield server.getsockname()[1]
        server.shutdown(socket.SHUT_RDWR)


def trouble_at(port: int, *, tls: bool = False, host: str = "127.0.0.1") -> str:
    return trouble([Address(host, port, tls)], HELLO)


def test_a_server_that_answers_is_no_trouble() -> None:
    with answering(b"welcome") as port:
        assert trouble_at(port) == ""


def test_a_refused_connection_is_named_with_its_address() -> None:
    with listening() as server:
        port = server.getsockname()[1]

    assert trouble_at(port) == f"127.0.0.1:{port}: connection refused"


def test_an_unknown_host_is_named() -> None:
    assert trouble_at(9092, host="nosuch.invalid").startswith("nosuch.invalid:9092: no such host (")


@pytest.mark.usefixtures("impatient")
def test_a_server_that_accepts_and_says_nothing() -> None:
    with listening() as server:
        port = server.getsockname()[1]

        assert trouble_at(port) == (f"127.0.0.1:{port}: accepts connections, but does not answer")
        assert trouble_at(port, tls=True).endswith("but does not answer a TLS handshake")


@pytest.mark.usefixtures("impatient")
def test_a_server_that_drops_packets_is_silent() -> None:
    with listening(backlog=0) as server, ExitStack() as waiting:
        for _ in range(4):  # until the backlog is full, and the kernel answers no more
            client = waiting.enter_context(socket.socket())
            client.setblocking(False)
            client.connect_ex(server.getsockname())

        assert ": silent: no connection within 0.2 s" in trouble_at(server.getsockname()[1])


def test_tls_on_a_plain_port_and_the_other_way_round() -> None:
    with answering(b"HTTP/1.1 400 Bad Request\r\n\r\n") as port:
        assert trouble_at(port, tls=True).endswith(
            "does not speak TLS, which this client is configured for"
        )
    with answering(b"\x15\x03\x01\x00\x02\x02\x46") as port:
        assert trouble_at(port).endswith("speaks TLS, which this client is not configured for")


def test_a_server_that_hangs_up() -> None:
    with answering(b"") as port:
        assert trouble_at(port).endswith("closes connections at once")


@pytest.mark.timeout(120)
def test_one_server_that_answers_is_enough_and_the_others_are_not_waited_for(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setattr(network, "PATIENCE", 3600)
    with answering(b"welcome") as port, listening() as silent:
        others = [Address("127.0.0.1", 1), Address("127.0.0.1", silent.getsockname()[1])]

        assert trouble([*others, Address("127.0.0.1", port)], HELLO) == ""


@pytest.mark.parametrize(
    ("address", "text"), [(Address("::1", 1), "[::1]:1"), (Address("a", 1), "a:1")]
)
def test_an_address_is_written_as_in_yaml(address: Address, text: str) -> None:
    assert str(address) == text


@pytest.mark.parametrize(
    ("url", "count"),
    [
        ("http://registry:8081/api", 1),
        ("http://10.0.0.7", 1),
        ("https://registry", 0),
        ("http://localhost:8081", 0),
        ("http://127.0.0.1:1", 0),
        ("http://[::1]:8081", 0),
    ],
)
def test_a_login_without_encryption_is_warned_of_once(
    url: str, count: int, caplog: pytest.LogCaptureFixture
) -> None:
    network._warn_of.cache_clear()

    for _ in range(3):
        network.warn_of_plain_http(url)

    said = [record for record in caplog.records if "without encryption" in record.message]
    assert len(said) == count


def test_an_http_server_is_no_broker() -> None:
    with answering(b"HTTP/1.1 400 Bad Request\r\n\r\n") as port:
        address = Address("127.0.0.1", port)

        assert trouble([address], HELLO) == f"{address}: is an HTTP server"
        assert trouble([address], b"HEAD / HTTP/1.1\r\n\r\n") == ""


def test_the_first_error_of_a_socket_in_a_chain_says_why() -> None:
    client = RuntimeError("http://kim:secret@h/")
    client.__cause__ = OSError("http://kim:secret@h/")
    refused = client.__cause__.__context__ = ConnectionRefusedError(111, "Connection refused")
    refused.__context__ = TimeoutError("timed out")  # what was handled before

    assert connection_fault(client) == "connection refused"
    file = FileNotFoundError(2, "No such file or directory", "/etc/key")
    assert connection_fault(file) == ""
    assert connection_fault(RuntimeError("http://kim:secret@h/")) == ""


def test_the_text_of_a_clients_own_error_is_not_quoted() -> None:
    class ClientError(OSError):
        pass

    assert connection_fault(ClientError("http://kim:secret@h/")) == ""
