"""The resources that a worker keeps between tasks."""

from pathlib import Path
from typing import ClassVar

import pytest

from landfall import native
from landfall.api.spec import parse_group
from landfall.errors import Reason, Stalled
from landfall.ledger.entries import Entry
from landfall.ledger.offsets import OffsetRange, Slice, TopicPartition
from landfall.ledger.records import Add
from landfall.ledger.task_results import FailedSlice, LandedSlice
from landfall.store.file import FileStore
from landfall.task import Batch, worker
from landfall.task.worker import land_bin
from tests.support.driver.slice_landing import TP, click
from tests.support.ledger.landed_group import SEQUENCE_FILES, Backup
from tests.support.ledger.sample_ledger import GROUP

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


def test_a_topic_of_another_group_that_was_created_again_is_read_from_the_next_bin_on(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(worker, "_cached", [])
    root, out = tmp_path / "backup", tmp_path / "out"
    log = {TP: [click(offset) for offset in range(40)]}
    landed = Backup(log, {**SEQUENCE_FILES, "url": root.as_uri()}, store=FileStore(root))
    landed.land(0, 40).settle()
    group = parse_group(
        {
            "apiVersion": "landfall.dev/v1alpha1",
            "kind": "ConsumerGroup",
            "metadata": {"name": "g"},
            "spec": {
                "source": {"landed": {"group": GROUP, "url": root.as_uri(), "topics": ["clicks"]}},
                "output": {"url": out.as_uri(), "format": "Text", "codec": "None"},
            },
        }
    )

    def rows(end: int) -> list[bytes]:
        (result,) = land_bin(Batch(group, "token"), [Slice(TP, OffsetRange(0, end))])
        assert isinstance(result, LandedSlice), result
        (object_,) = result.objects
        store = FileStore(out)
        store.complete(object_.upload)
        body = store.read(object_.key) or b""
        store.delete_slots([object_.key])
        return body.splitlines()

    assert rows(40) == [value for _, value in log[TP]]
    landed.sample.drop(TP)
    landed.open(generation=2)
    entry = Entry(TP, "new", 0)
    landed.sample.append(lambda h: Add(header=h, entries=(entry,)))
    landed.log[TP] = [(offset, click(90 - offset)[1]) for offset in range(20)]
    landed.land(0, 20).settle()

    assert rows(20) == [value for _, value in landed.log[TP]]
