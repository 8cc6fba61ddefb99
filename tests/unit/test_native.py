"""Which librdkafka the extension calls, and what sends a process back to pure Python."""

import subprocess
import sys
from importlib.machinery import EXTENSION_SUFFIXES, ModuleSpec
from pathlib import Path

import confluent_kafka
import pytest

from landfall import native
from landfall.native import HotPath, hot_path
from tests.support.driver.hot_paths import NATIVE, needs_native

pytestmark = needs_native

CHOOSE = """
import confluent_kafka
from landfall.native import hot_path
from landfall.source.clients import NativeClient, open_client
from landfall.source.kafka_errors import ErrorTracker

properties = {"bootstrap.servers": "127.0.0.1:1", "group.id": "g", "log_level": 0}
client = open_client(properties, ErrorTracker())
assert isinstance(client, NativeClient), hot_path()
client.close()
assert hot_path().librdkafka.version == confluent_kafka.libversion()[0]
mapped = {line.split()[-1] for line in open("/proc/self/maps") if "librdkafka" in line}
assert len(mapped) == 1, mapped
"""


@pytest.mark.skipif(sys.platform != "linux", reason="reads /proc")
def test_libraries_that_lie_about_are_not_opened(tmp_path: Path) -> None:
    libraries = tmp_path / "confluent_kafka.libs"
    libraries.mkdir()
    (libraries / "librdkafka-00000000.so.1").write_bytes(b"no library")

    code = f"import sys; sys.path.insert(0, {str(tmp_path)!r})\n{CHOOSE}"
    ran = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=False)

    assert ran.returncode == 0, ran.stderr


def chosen(monkeypatch: pytest.MonkeyPatch, client: Path | None) -> HotPath:
    """The hot path where confluent-kafka is installed in a folder, or not at all."""
    monkeypatch.delenv(native.VARIABLE, raising=False)
    spec = None if client is None else ModuleSpec("confluent_kafka", None, is_package=True)
    if spec is not None:
        spec.submodule_search_locations = [str(client)]
    monkeypatch.setattr(native, "find_spec", lambda _: spec)
    return hot_path.__wrapped__()


def test_no_confluent_kafka_is_a_reason_for_pure_python(monkeypatch: pytest.MonkeyPatch) -> None:
    assert chosen(monkeypatch, None).why == "confluent-kafka is not installed"


def test_a_package_without_its_module_is_a_reason_for_pure_python(
    monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    assert chosen(monkeypatch, tmp_path).why == "confluent-kafka is not installed"


def test_a_module_that_cannot_be_opened_is_a_reason_for_pure_python(
    monkeypatch: pytest.MonkeyPatch, tmp_path: Path, caplog: pytest.LogCaptureFixture
) -> None:
    (tmp_path / f"cimpl{EXTENSION_SUFFIXES[0]}").write_bytes(b"no library")

    path = chosen(monkeypatch, tmp_path)

    assert path.name == "python"
    assert path.why.startswith("librdkafka: ")
    assert str(tmp_path) in path.why
    assert [record.message for record in caplog.records] == ["landfall-native not loaded"]


def test_a_missing_function_is_a_reason_for_pure_python(
    monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    other = Path(NATIVE.module.__file__).with_name("landfall_native.abi3.so")
    (tmp_path / f"cimpl{EXTENSION_SUFFIXES[0]}").symlink_to(other)

    assert "rd_kafka_" in chosen(monkeypatch, tmp_path).why


def test_another_librdkafka_than_the_one_loaded_is_a_reason_for_pure_python(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.delenv(native.VARIABLE, raising=False)
    opened = NATIVE.librdkafka.version
    assert opened == confluent_kafka.libversion()[0]
    monkeypatch.setattr(confluent_kafka, "libversion", lambda: ("1.0.0", 0))

    assert hot_path.__wrapped__().why == (
        f"librdkafka {opened} opened, confluent-kafka loaded 1.0.0"
    )


def test_an_older_extension_is_a_reason_for_pure_python(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.delenv(native.VARIABLE, raising=False)
    monkeypatch.delattr(NATIVE.module, "Librdkafka")

    assert "Librdkafka" in hot_path.__wrapped__().why
