"""Audits of what one generation landed."""

from collections.abc import Sequence
from pathlib import Path

import pytest

from landfall.audit import Unchecked
from landfall.formats import Block
from landfall.formats.parquet import Parquet
from tests.support.audited_group import TP, Landed, message
from tests.support.auditor_fakes import GeneratedLog, of_messages
from tests.unit.audit.test_inspection import replay


@pytest.fixture
def landed(tmp_path: Path) -> Landed:
    return Landed(tmp_path / "root")


def test_one_generation_can_be_audited_alone(landed: Landed) -> None:
    landed.land(0, 10)
    landed.sample.open(generation=2)
    landed.sample.commit(landed.sample.land(TP, 10, 15))

    found = landed.found(GeneratedLog(15, message), generation=2)

    assert found == {"expected": 5, "found": 5, "unchecked": {Unchecked.GENERATION: 10}}


def as_dead_letters(offsets: Sequence[int]) -> bytes:
    encoder = Parquet.of({}).encoder()
    records = of_messages(TP, [message(offset) for offset in offsets])
    return encoder.encode(Block(records)) + encoder.finish()


def test_a_generation_alone_has_its_dead_letters_also_after_a_replay(landed: Landed) -> None:
    as_text = landed.sample.body

    def body(offsets: Sequence[int]) -> bytes:
        """The two dead letters are of Parquet; what the replay makes of them is not."""
        is_letters = len(offsets) == 2 and landed.sample.state.generation == 1
        return as_dead_letters(offsets) if is_letters else as_text(offsets)

    landed.sample.body = body
    replay(landed, [3, 4])

    log = GeneratedLog(10, message)

    assert landed.found(log, generation=1) == {"expected": 10, "found": 10}
    assert landed.found(log, generation=2) == {"unchecked": {Unchecked.GENERATION: 10}}
