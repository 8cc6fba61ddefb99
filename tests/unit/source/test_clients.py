"""Both clients refuse and fail alike; what they read is compared on a real Kafka."""

import pytest
from confluent_kafka import KafkaException, TopicPartition

from landfall import native
from landfall.errors import Stalled
from landfall.native import HotPath, hot_path
from landfall.source.clients import Client, NativeClient, PythonClient, open_client
from landfall.source.kafka_errors import ErrorTracker
from tests.support.driver.hot_paths import BOTH, NATIVE, fresh_hot_path, needs_native

NOBODY: dict[str, object] = {
    "bootstrap.servers": "127.0.0.1:1",
    "group.id": "g",
    "enable.auto.commit": False,
    "log_level": 0,
}
both = pytest.mark.parametrize("path", BOTH)


def opened(path: HotPath, **properties: object) -> Client:
    named = {name.replace("_", "."): value for name, value in properties.items()}
    return open_client({**NOBODY, **named}, ErrorTracker(), path)


@both
@pytest.mark.parametrize(
    ("properties", "message"),
    [
        ({"no_such": "x"}, "spec.source.kafka.properties.no.such: librdkafka has no such property"),
        (
            {"fetch_wait_max_ms": "999999999"},
            "spec.source.kafka.properties.fetch.wait.max.ms: must be a number from 0 to 300000",
        ),
        (
            {"check_crcs": "perhaps"},
            "spec.source.kafka.properties.check.crcs: must be true or false",
        ),
    ],
)
def test_properties_are_refused_alike(
    path: HotPath, properties: dict[str, object], message: str
) -> None:
    with pytest.raises(Stalled) as refused:
        opened(path, **properties)

    assert str(refused.value).startswith(message)


@both
def test_an_unreachable_broker_is_reported_once_somebody_listens(path: HotPath) -> None:
    errors = ErrorTracker()
    client = open_client(NOBODY, errors, path)

    with pytest.raises(KafkaException, match=r"_TRANSPORT.*Failed to get metadata"):
        client.list_topics("t", 0.2)
    client.poll(0)
    fetched = client.fetch(10)
    client.close()

    assert not fetched
    assert errors.cause.endswith("Connection refused")


@both
def test_a_topic_partition_that_is_not_assigned_cannot_be_sought(path: HotPath) -> None:
    client = opened(path)

    with pytest.raises(KafkaException, match="Failed to seek to offset 5") as failed:
        client.seek(TopicPartition("t", 0, 5))
    client.close()

    assert failed.value.args[0].code() != 0


@both
def test_a_closed_client_says_so(path: HotPath) -> None:
    client = opened(path)
    client.close()

    with pytest.raises(RuntimeError, match="Consumer closed"):
        client.assign([TopicPartition("t", 0, 0)])


@needs_native
def test_what_only_confluent_kafka_does_is_left_to_it() -> None:
    assert isinstance(opened(NATIVE), NativeClient)
    with pytest.raises(Stalled):
        opened(NATIVE, plugin_library_paths="no-such-plugin")
    assert isinstance(opened(HotPath(None, None, "")), PythonClient)


@needs_native
def test_rows_that_are_not_there_are_an_error() -> None:
    nothing = NATIVE.module.Messages()

    with pytest.raises(IndexError, match="0:1 of 0 messages"):
        nothing.part(0, 1)


@needs_native
def test_no_messages_make_empty_columns() -> None:
    nothing = NATIVE.module.Messages()

    assert (len(nothing), nothing.headers(), nothing.leader_epoch()) == (0, [], None)
    assert bytes(nothing.offsets()) == b""
    assert [len(nothing.values()[1]), nothing.values()[3]] == [4, 0]


def test_the_extension_can_be_switched_off() -> None:
    with fresh_hot_path() as patched:
        patched.setenv(native.VARIABLE, "off")
        hot_path.cache_clear()
        assert str(hot_path()) == "pure Python (LANDFALL_NATIVE is off)"
        assert hot_path().name == "python"


@pytest.mark.parametrize("word", ["", "on", "Yes", "1", "true"])
def test_words_that_leave_the_extension_on(word: str, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv(native.VARIABLE, word)

    assert hot_path.__wrapped__().name == NATIVE.name


@pytest.mark.parametrize("word", ["disabled", "none", "off ", "ja"])
def test_a_word_that_is_not_known_switches_nothing(
    word: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv(native.VARIABLE, word)

    with pytest.raises(ValueError, match="LANDFALL_NATIVE: must be on or off, got"):
        hot_path.__wrapped__()


def test_without_the_extension_pure_python_runs() -> None:
    with fresh_hot_path() as patched:
        patched.delenv(native.VARIABLE, raising=False)
        patched.setitem(__import__("sys").modules, "landfall_native", None)
        hot_path.cache_clear()
        assert hot_path().module is None
        assert hot_path().name == "python"
