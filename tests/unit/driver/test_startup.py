"""Which servers a group waits for, and when it is said why they do not answer."""

import socket
import threading
from dataclasses import replace
from datetime import UTC, datetime
from pathlib import Path

import pytest
import stamina

from landfall.api.spec import Feed, Output
from landfall.driver.core.deps import REPEATED_AFTER, record_failure
from landfall.driver.process.run import REPEAT_SECONDS, RetryLog, RunOptions, run_group
from landfall.driver.process.startup import (
    DELAY,
    Servers,
    check_hot_path,
    check_secrets,
    explain_later,
    explained,
    kafka_servers,
    store_servers,
)
from landfall.errors import Reason, SourceAway, Stalled, StoreAway
from landfall.native import VARIABLE, hot_path
from landfall.network import PATIENCE, Address
from landfall.store.memory import MemoryStore
from tests.support.driver.fakes import FakeLog, FakeRunner, driver, group

NOBODY = Servers("nobody", (Address("127.0.0.1", 1),), b"hello")


@pytest.mark.parametrize(
    ("servers", "protocol", "expected"),
    [
        ("a:1,b:2", None, (Address("a", 1), Address("b", 2))),
        ("a:1", "SASL_SSL", (Address("a", 1, tls=True),)),
        ("a:1", "ssl", (Address("a", 1, tls=True),)),
        ("a:1", "SASL_PLAINTEXT", (Address("a", 1),)),
        ("SSL://a:1, [::1]:2", None, (Address("a", 1, tls=True), Address("::1", 2))),
    ],
)
def test_brokers_are_those_of_the_spec(
    servers: str, protocol: str | None, expected: tuple[Address, ...]
) -> None:
    kafka = {
        "bootstrapServers": servers,
        "topics": ["t"],
        "properties": {"security.protocol": protocol} if protocol else {},
    }

    assert kafka_servers(group(source={"kafka": kafka})).addresses == expected


@pytest.mark.parametrize(
    ("url", "endpoint", "expected"),
    [
        ("s3://b", "http://h:9000", (Address("h", 9000),)),
        ("s3://b", "https://h", (Address("h", 443, tls=True),)),
        ("s3://b", None, ()),
        ("file:///x", None, ()),
    ],
)
def test_the_store_is_at_its_endpoint(
    url: str,
    endpoint: str | None,
    expected: tuple[Address, ...],
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    for name in ("http_proxy", "HTTP_PROXY", "https_proxy", "HTTPS_PROXY"):
        monkeypatch.delenv(name, raising=False)
    output = Output.model_validate({"url": url, "s3": {"endpoint": endpoint}})

    assert store_servers(output).addresses == expected


def test_behind_a_proxy_nothing_is_looked_at(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("http_proxy", "http://proxy:3128")
    monkeypatch.setenv("no_proxy", "")
    output = Output.model_validate({"url": "s3://b", "s3": {"endpoint": "http://h:9000"}})

    assert store_servers(output).addresses == ()


def test_what_takes_long_is_explained() -> None:
    said: list[tuple[str, str]] = []
    is_said = threading.Event()

    def report(name: str, why: str) -> None:
        said.append((name, why))
        is_said.set()

    with explained(NOBODY, report, delay=0):
        assert is_said.wait(30)

    assert said == [("nobody", "127.0.0.1:1: connection refused")]


def test_it_is_explained_again_until_the_server_answers() -> None:
    said: list[str] = []
    is_repeated = threading.Event()

    def report(_: str, why: str) -> None:
        said.append(why)
        if len(said) == 3:
            is_repeated.set()

    with socket.socket() as taken:
        taken.bind(("127.0.0.1", 0))
        servers = Servers("it", (Address("127.0.0.1", taken.getsockname()[1]),), b"hello")
        done = explain_later(servers, report, delay=0, repeat=0.01)
        assert is_repeated.wait(30)
        taken.listen()
        threading.Thread(target=lambda: taken.accept()[0].sendall(b"here"), daemon=True).start()
        (explains,) = (t for t in threading.enumerate() if t.name == "explain")
        explains.join(60)

    assert not explains.is_alive()
    assert not done.is_set()


def test_what_is_done_at_once_is_not_explained() -> None:
    said: list[str] = []
    before = {*threading.enumerate()}

    with explained(NOBODY, lambda *words: said.extend(words), delay=3600):
        (explains,) = (t for t in {*threading.enumerate()} - before if t.name == "explain")
    explains.join(60)

    assert not explains.is_alive()
    assert said == []


def test_the_explanation_comes_within_ten_seconds() -> None:
    assert DELAY + 2 * PATIENCE < 10


def test_retries_of_one_kind_are_logged_once_a_minute(caplog: pytest.LogCaptureFixture) -> None:
    now = [0.0]
    logged = RetryLog(lambda: now[0])

    def retry(error: Exception) -> None:
        logged(
            stamina.instrumentation.RetryDetails(
                name="x",
                args=(),
                kwargs={},
                retry_num=1,
                wait_for=1.0,
                waited_so_far=0.0,
                caused_by=error,
            )
        )

    for error in (StoreAway("put slot-1"), StoreAway("put slot-2"), SourceAway("topics")):
        retry(error)
    now[0] = REPEAT_SECONDS
    retry(StoreAway("put slot-3"))

    whys = [vars(record)["why"] for record in caplog.records]
    assert whys == ["put slot-1", "topics", "put slot-3"]


def test_a_failure_that_goes_on_is_counted_each_time_and_logged_once_a_minute(
    caplog: pytest.LogCaptureFixture,
) -> None:
    now = [datetime(2026, 11, 21, tzinfo=UTC)]
    store = MemoryStore()
    made = driver(group(), store, FakeLog({}), FakeRunner(store)).deps
    deps = replace(made, clock=lambda: now[0])

    for message in ("a", "a", "b", "b"):
        record_failure(deps, "SourceUnavailable", SourceAway(message))
    now[0] += REPEATED_AFTER
    record_failure(deps, "SourceUnavailable", SourceAway("b"))

    whys = [vars(record)["why"] for record in caplog.records]
    assert (whys, deps.counters.failures) == (["a", "b", "b"], 5)


def test_the_secret_of_a_feed_must_be_there(
    monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    monkeypatch.setenv("LANDFALL_SECRETS", str(tmp_path))
    gcs = {"credentialsSecretRef": {"name": "files"}}
    feed = Feed.model_validate({"topic": "t", "url": "gs://logs/in", "gcs": gcs})
    with pytest.raises(Stalled, match="no secret 'files'"):
        check_secrets([feed])

    (tmp_path / "files").mkdir()
    with pytest.raises(
        Stalled, match=r"spec\.source\.files\[0\]\.gcs.*: secret 'files' lacks key\.json"
    ):
        check_secrets([feed], "spec.source.files[0]")

    (tmp_path / "files" / "key.json").write_text("{}")

    check_secrets([feed])


def test_a_switch_of_the_extension_that_is_misspelled_stalls_at_the_start(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setenv(VARIABLE, "disabled")
    hot_path.cache_clear()
    try:
        with pytest.raises(Stalled, match="LANDFALL_NATIVE: must be on or off") as caught:
            run_group(group(), RunOptions())
        with pytest.raises(Stalled, match="got 'disabled'"):
            check_hot_path()
    finally:
        hot_path.cache_clear()

    assert caught.value.reason is Reason.SPEC_INVALID
