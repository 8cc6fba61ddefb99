"""Calls of stores are counted by kind of store, operation and outcome."""

import pytest

from landfall.api.spec import Output
from landfall.errors import Retry
from landfall.lane.stores import with_ledger
from landfall.objects import UploadLost
from landfall.store.measured import StoreCalls, measured
from landfall.store.memory import CallFault, MemoryStore, Operation, Scripted
from tests.support.stores.every_store import uploaded


def test_calls_are_counted_and_timed() -> None:
    calls = StoreCalls()
    store = measured(MemoryStore(), ["s3"], calls)
    store.create("slots/0", b"first")
    store.create("slots/0", b"second")
    assert [found.key for found in store.list_after("slots/")] == ["slots/0"]
    upload = uploaded(store, "orders/1", [b"one ", b"object"])
    store.complete(upload)
    with store.open("orders/1") as stream:
        assert stream.read() == b"one object"
    with pytest.raises(FileNotFoundError):
        store.open("orders/2")

    assert calls.copy().counts == {
        ("s3", "create", "ok"): 2,
        ("s3", "list", "ok"): 1,
        ("s3", "begin", "ok"): 1,
        ("s3", "put_part", "ok"): 2,
        ("s3", "complete", "ok"): 1,
        ("s3", "open", "ok"): 1,
        ("s3", "open", "failed"): 1,
    }
    assert calls.seconds.keys() == {(kind, name) for kind, name, _ in calls.counts}
    assert all(seconds >= 0 for seconds in calls.seconds.values())


def test_a_refusal_and_a_missing_answer_are_different_outcomes() -> None:
    calls = StoreCalls()
    memory = MemoryStore(plan=Scripted({Operation.CREATE: [CallFault.THROTTLED]}))
    store = measured(memory, ["gcs"], calls)
    with pytest.raises(Retry):
        store.create("slots/0", b"first")
    upload = uploaded(store, "orders/1")
    store.abort("orders/1", upload.upload_id)
    with pytest.raises(UploadLost):
        store.complete(upload)

    assert calls.counts["gcs", "create", "unavailable"] == 1
    assert calls.counts["gcs", "complete", "failed"] == 1


def test_each_of_two_stores_has_its_own_kind() -> None:
    calls = StoreCalls()
    store = measured(with_ledger(MemoryStore(), MemoryStore()), ["hdfs", "azure"], calls)

    store.create("_landfall/clicks/0/0000000000/0000000000.json", b"{}")
    store.complete(uploaded(store, "orders/1"))

    assert calls.counts["azure", "create", "ok"] == 1
    assert calls.counts["hdfs", "complete", "ok"] == 1


@pytest.mark.parametrize(
    ("url", "kind"),
    [
        ("s3://logs", "s3"),
        ("abfss://logs@account.dfs.core.windows.net", "azure"),
        ("gs://logs", "gcs"),
        ("hdfs://host:8020/logs", "hdfs"),
        ("file:///logs", "file"),
    ],
)
def test_the_kind_of_a_store_is_that_of_its_section(url: str, kind: str) -> None:
    assert Output.model_validate({"url": url}).kind == kind
    assert Output.model_validate({"url": url, "store": "a:B"}).kind == "custom"
