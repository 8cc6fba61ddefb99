"""The resources that a worker keeps between tasks."""

from pathlib import Path
from typing import ClassVar

import pytest

from landfall import native
from landfall.api.spec import parse_group
from landfall.errors import Reason, Stalled
from landfall.ledger.offsets import OffsetRange, Slice, TopicPartition
from landfall.ledger.task_results import FailedSlice
from landfall.task import Batch, worker
from landfall.task.worker import land_bin

SLICES = [Slice(TopicPartition("clicks", p), OffsetRange(0, 10)) for p in range(3)]


def test_a_spec_that_cannot_be_used_fails_every_slice_with_its_reason() -> None:
    group = parse_group(
        {
            "apiVersion": "landfall.dev/v1alpha1",
            "kind": "ConsumerGroup",
            "metadata": {"name": "g"},
            "spec": {
                "source": {"kafka": {"bootstrapServers": "nobody:1", "topicPattern": ".*"}},
                "output": {"url": "file:///nowhere", "format": "no_such_module:Papyrus"},
            },
        }
    )

    results = land_bin(Batch(group, "token"), SLICES)

    assert [result.piece for result in results] == SLICES
    for result in results:
        assert isinstance(result, FailedSlice)
        assert isinstance(result.error, Stalled)
        assert result.error.reason is Reason.SPEC_INVALID
        assert "Papyrus" in str(result.error)


class Reader:
    """Keeps the properties that it was made with."""

    made: ClassVar[list[dict[str, str]]] = []

    def __init__(self, properties: dict[str, str], timeout: object) -> None:  # noqa: ARG002  # KafkaReader's parameters
        self.made.append(properties)
        self.last_read: dict[object, object] = {}

    def expect(self, slices: object) -> None:
        """Nothing is read."""

    def close(self) -> None:
        """Nothing is open."""


def test_a_rotated_kafka_secret_is_in_force_from_the_next_bin_on(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(worker, "KafkaReader", Reader)
    monkeypatch.setenv("LANDFALL_SECRETS", str(tmp_path))
    password = tmp_path / "kafka" / "sasl.password"
    password.parent.mkdir()
    kafka = {"bootstrapServers": "k:1", "topics": ["a"], "propertiesSecretRef": {"name": "kafka"}}
    group = parse_group(
        {
            "apiVersion": "landfall.dev/v1alpha1",
            "kind": "ConsumerGroup",
            "metadata": {"name": "g"},
            "spec": {"source": {"kafka": kafka}, "output": {"url": tmp_path.as_uri()}},
        }
    )

    for text in ("old", "old", "new"):
        password.write_text(text)
        land_bin(Batch(group, "token"), [])

    assert [made["sasl.password"] for made in Reader.made] == ["old", "new"]


def test_an_executor_whose_switch_is_misspelled_fails_every_slice_with_the_reason(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setenv(native.VARIABLE, "disabled")
    native.hot_path.cache_clear()
    monkeypatch.setattr(worker, "_cached", [])
    group = parse_group(
        {
            "apiVersion": "landfall.dev/v1alpha1",
            "kind": "ConsumerGroup",
            "metadata": {"name": "g"},
            "spec": {
                "source": {"kafka": {"bootstrapServers": "nobody:1", "topicPattern": ".*"}},
                "output": {"url": "file:///nowhere", "format": "Text"},
            },
        }
    )
    try:
        results = land_bin(Batch(group, "token"), SLICES)
    finally:
        native.hot_path.cache_clear()

    for result in results:
        assert isinstance(result, FailedSlice)
        assert isinstance(result.error, Stalled)
        assert "spec.executor: environment variable LANDFALL_NATIVE" in str(result.error)
