"""The resources that a worker keeps between tasks."""

from landfall.api.spec import parse_group
from landfall.errors import Reason, Stalled
from landfall.ledger.offsets import OffsetRange, Slice, TopicPartition
from landfall.ledger.task_results import FailedSlice
from landfall.task import Batch
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
