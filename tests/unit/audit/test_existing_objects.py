"""Audits of an output root in which another program has landed before."""

from pathlib import Path

import pytest

from landfall.api.spec import Output
from landfall.ledger.offsets import TopicPartition
from landfall.store.file import FileStore
from landfall_audit.buckets import open_bucket
from landfall_audit.ledger.inventory import Inventory
from tests.support.audit.audited_spec import for_auditor
from tests.support.ledger.sample_ledger import GROUP, SampleLedger

TP = TopicPartition("clicks", 0)


@pytest.mark.parametrize(
    ("keeps_existing", "generation", "unrelated", "unnamed"),
    [(True, 0, 1, 0), (True, 1, 0, 1), (False, 0, 0, 1)],
)
def test_objects_of_generations_before_the_ledgers_first_belong_to_another_program(
    tmp_path: Path, keeps_existing: bool, generation: int, unrelated: int, unnamed: int
) -> None:
    sample = SampleLedger(FileStore(tmp_path)).open().add(TP)
    sample.commit(sample.land(TP, 0, 10))
    key = f"clicks/dt=2026-11-21/{generation}_0_00000000000000000500.json"
    (tmp_path / key).write_bytes(b"left")

    inventory = Inventory(
        open_bucket(for_auditor(Output(url=f"file://{tmp_path}"))),
        GROUP,
        keeps_existing=keeps_existing,
    )

    assert inventory.unrelated == unrelated
    assert list(inventory.unnamed()) == [(key, 4)] * unnamed


def test_nothing_is_left_out_where_no_ledger_says_which_generation_was_first(
    tmp_path: Path,
) -> None:
    key = "clicks/dt=2026-11-21/0_0_00000000000000000500.json"
    (tmp_path / key).parent.mkdir(parents=True)
    (tmp_path / key).write_bytes(b"left")

    inventory = Inventory(
        open_bucket(for_auditor(Output(url=f"file://{tmp_path}"))), GROUP, keeps_existing=True
    )

    assert list(inventory.unnamed()) == [(key, 4)]
