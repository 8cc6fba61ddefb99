"""Destinations come from records: none may be in the output root of another group."""

from pathlib import Path
from typing import Any

import pyarrow.parquet as pq
import pytest

from landfall.api.contract import ExitCode
from landfall.cli import main
from landfall.errors import Reason, Retry, Stalled
from landfall.lane import claim_output_root
from landfall.ledger.names import object_names
from landfall.ledger.offsets import TopicPartition
from landfall.ledger.task_results import FailedSlice, LandedSlice
from landfall.store import Store
from landfall.store.file import FileStore
from landfall.store.memory import CallFault, MemoryStore, Operation, Scripted
from landfall.task import Batch
from landfall.task.destinations import Destinations
from landfall.task.landing import LandingDeps, land_with
from landfall.task.partitioning import Partitioners
from landfall_audit.buckets import open_bucket
from landfall_audit.ledger.inventory import Inventory
from tests.support.audit.audited_spec import for_auditor
from tests.support.driver.slice_landing import SLICE, TP, FakeReader, group
from tests.support.ledger.sample_ledger import GROUP, SampleLedger

ROUTE = {"pattern": "all", "topicPath": "db={field:app}/l={field:layer}/{topic}"}
OUTER, INNER = "logs/outer", "logs/inner"


def row(offset: int, app: str, layer: str = "raw") -> tuple[int, bytes]:
    return offset, b'{"app":"%s","layer":"%s"}' % (app.encode(), layer.encode())


ROWS = [row(100, "a"), row(101, "b"), row(102, "a"), row(103, "b", "new")]


def land(store: Store, owner: str = OUTER, **spec: Any) -> LandedSlice | FailedSlice:
    """Land the rows by a new worker."""
    made = group(**{"decode": {"format": "Json"}, "route": ROUTE, **spec})
    deps = LandingDeps(Partitioners(made.spec), store, Destinations(store, owner))
    (result,) = land_with(deps, Batch(made, "t"), [SLICE], FakeReader({TP: ROWS}))
    return result


def keys(result: LandedSlice | FailedSlice) -> list[str]:
    assert isinstance(result, LandedSlice), result
    return [o.upload.key for o in result.objects]


def test_without_claims_two_groups_would_give_one_name_twice(tmp_path: Path) -> None:
    """Both land the same topic: one into a destination, the other by its output root."""
    inner = group(decode={"format": "Json"}, route={"pattern": "all"})
    deps = LandingDeps(Partitioners(inner.spec), FileStore(tmp_path / "db=a/l=raw"))
    (by_root,) = land_with(deps, Batch(inner, "i"), [SLICE], FakeReader({TP: ROWS[:1]}))

    by_destination = keys(land(FileStore(tmp_path)))

    assert f"db=a/l=raw/{keys(by_root)[0]}" in by_destination


@pytest.mark.parametrize("root", ["db=a", "db=a/l=raw"])
def test_records_whose_destination_is_in_the_root_of_another_group_are_dead_letters(
    tmp_path: Path, root: str
) -> None:
    claim_output_root(FileStore(tmp_path / root), INNER)
    store = FileStore(tmp_path)

    result = land(store)

    assert isinstance(result, LandedSlice)
    assert (result.landed, result.dead_lettered) == (2, 2)
    assert result.errors[0] == "offset 100: route"
    letters, *data = keys(result)
    assert [key.rpartition("/clicks/")[0] for key in data] == ["db=b/l=new", "db=b/l=raw"]
    (dead,) = (o for o in result.objects if o.upload.key == letters)
    store.complete(dead.upload)
    table = pq.read_table(tmp_path / letters)
    assert table["offset"].to_pylist() == [100, 102]
    assert table["error"][0].as_py() == (f"{root} belongs to {INNER}: its output root is there")


@pytest.mark.parametrize("root", ["db=a", "db=a/l=raw", "db=b", "db=b/l=new"])
def test_no_group_gets_a_root_in_a_destination_that_is_in_use(tmp_path: Path, root: str) -> None:
    land(FileStore(tmp_path))

    with pytest.raises(Stalled, match=f"belongs to {OUTER}, not to {INNER}") as refused:
        claim_output_root(FileStore(tmp_path / root), INNER)

    assert refused.value.reason is Reason.OUTPUT_OCCUPIED
    claim_output_root(FileStore(tmp_path / "db=c"), INNER)


def test_what_a_group_has_claimed_it_lands_again_in_the_same_way(tmp_path: Path) -> None:
    store = FileStore(tmp_path)
    claim_output_root(FileStore(tmp_path / "db=a"), INNER)
    before = land(store)
    with pytest.raises(Stalled):
        claim_output_root(FileStore(tmp_path / "db=b"), INNER)

    assert keys(land(store)) == keys(before)


def test_a_group_without_destinations_claims_none() -> None:
    store = MemoryStore()

    assert isinstance(land(store, route={"pattern": "x={field:app}"}), LandedSlice)

    assert list(store.list_after("")) == []


@pytest.mark.parametrize(
    "fault", [CallFault.REQUEST_LOST, CallFault.ANSWER_LOST, CallFault.THROTTLED]
)
def test_a_slice_whose_claim_fails_is_tried_again(fault: CallFault) -> None:
    store = MemoryStore(Scripted({Operation.CREATE: [fault]}))

    failed, again = land(store), land(store)

    assert isinstance(failed, FailedSlice)
    assert isinstance(failed.error, Retry)
    assert len(keys(again)) == 3


def test_a_claim_whose_answer_was_lost_is_the_groups_own() -> None:
    store = MemoryStore(Scripted({Operation.CREATE: [CallFault.REPEATED] * 4}))

    assert len(keys(land(store))) == 3


def test_claims_are_nobodys_objects(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    store = FileStore(tmp_path / "root")
    SampleLedger(store).open().add(TopicPartition("clicks", 0))
    for folder in ("db=a", "db=a/l=b"):
        store.create(object_names.owner_key(folder), b'{"owner":"logs/shop"}')
    made = group(output={"url": f"file://{tmp_path / 'root'}", "format": "Json"})
    file = tmp_path / "group.yaml"
    file.write_text(made.model_dump_json(by_alias=True).replace('"events"', f'"{GROUP}"'))

    code = main(["fsck", str(file)])
    inventory = Inventory(open_bucket(for_auditor(made.spec.output)), GROUP)
    inventory.close()

    assert code == ExitCode.OK
    assert "0 objects do not belong to Landfall" in capsys.readouterr().out
    assert inventory.unrelated == 0
