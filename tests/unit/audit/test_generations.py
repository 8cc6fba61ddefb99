"""Audits of what one generation landed."""

from collections.abc import Sequence
from pathlib import Path

import pytest

from landfall.api.spec import parse_group
from landfall.driver.core.stored_specs import store_spec
from landfall.formats import Block
from landfall.formats.parquet import ParquetFormat
from landfall.ledger.names import object_names
from landfall.ledger.records import Replay
from landfall.ledger.task_results import LandedSlice, ObjectKind, ReplayedSlice
from landfall.store.file import FileStore
from landfall.task import Batch
from landfall.task.dead_letter_reader import DeadLetterReader, measure
from landfall.task.landing import land
from landfall_audit import Unchecked
from tests.support.audit.audited_group import TP, Landed, message
from tests.support.audit.audited_payloads import AuditedPayloads, declared, payloads
from tests.support.audit.auditor_fakes import GeneratedLog, of_messages
from tests.support.ledger.sample_ledger import GROUP, LANE
from tests.unit.audit.test_inspection import ASKED, replay


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
    encoder = ParquetFormat.of({}).encoder()
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


def test_a_generation_is_compared_by_the_spec_that_it_landed_by(tmp_path: Path) -> None:
    """Today's group file reads the field in another unit, which is no fault of what landed."""
    column = {"name": "at", "type": "Timestamp"}
    made = AuditedPayloads(
        tmp_path / "root",
        payloads(b'{"at": 1763683200}'),
        **declared("Json", {**column, "unit": "Seconds"}),
    )
    landed = made.landed
    stored = store_spec(FileStore(landed.root), landed.group, LANE)
    landed.group = landed.with_decode(format="Json", columns=[{**column, "unit": "Milliseconds"}])

    by_todays = made.audit().results["clicks", 0].corrupted
    landed.sample.open(spec=stored)
    by_its_own = made.audit()

    assert by_todays == 1
    assert by_its_own.is_whole
    assert by_its_own.results["clicks", 0].unchecked == {}


@pytest.mark.parametrize("output", [{}, {"format": "Orc"}])
def test_what_was_replayed_is_compared_by_the_spec_that_replayed_it(
    tmp_path: Path, output: dict[str, str]
) -> None:
    """A column was too narrow: that is mended, the generation raised, and the rest replayed."""
    narrow, wide = ({"name": "n", "type": type_} for type_ in ("Int32", "Int64"))
    texts = (b'{"n": 1}', b'{"n": 1099511627776}', b'{"n": 3}')
    made = AuditedPayloads(tmp_path / "root", payloads(*texts), **declared("Json", narrow))
    landed, store = made.landed, FileStore(tmp_path / "root")
    landed.sample.open(spec=store_spec(store, landed.group, LANE))
    whole = landed.with_decode(format="Json", columns=[wide]).model_dump(
        mode="json", by_alias=True, exclude_defaults=True
    )
    spec = {**whole["spec"], "generation": 2, "output": {**whole["spec"]["output"], **output}}
    landed.group = parse_group({**whole, "spec": spec})
    landed.sample.open(generation=2, spec=store_spec(store, landed.group, LANE))
    (key,) = (o.key for o in made.slice.objects if o.kind is ObjectKind.DEAD_LETTERS)
    letters = measure(store, key, object_names.origin(GROUP, key))
    batch = Batch(landed.group, "token-r", dead_letters=((letters.piece, key),))
    reader = DeadLetterReader(store, {letters.piece: key})
    (again,) = land(batch, [letters.piece], reader, store)
    assert isinstance(again, LandedSlice), again
    slice_ = ReplayedSlice(key, letters.piece, 1, again.objects, 1, 0, 0)
    landed.sample.append(
        lambda h: Replay(header=h, token="token-r", slices=(slice_,), decision=ASKED)
    )
    for object_ in again.objects:
        store.complete(object_.upload)
    landed.sample.applied()

    found = made.audit()

    assert ([*map(str, found.faults)], found.is_whole) == ([], True)
    assert found.results["clicks", 0].unchecked == {}
    made.in_kafka(payloads(texts[0], b'{"n": 1099511627777}', texts[2]))
    assert made.audit().results["clicks", 0].corrupted == 1
