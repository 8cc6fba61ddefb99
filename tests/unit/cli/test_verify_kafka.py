from collections.abc import Callable, Iterator
from dataclasses import dataclass, field
from pathlib import Path

import pytest

from landfall.api.contract import ExitCode
from landfall.checks.payloads import Compared
from landfall.cli import main
from landfall.cli.group_store import GroupStore
from landfall.cli.verify import examine
from landfall.errors import Reason, Stalled
from landfall.ledger.offsets import Slice
from landfall.pipeline.records import Records, filled
from tests.unit.cli.conftest import TP, Landed


@dataclass
class Kafka:
    """Holds what was landed, but for these payloads; what expired is gone."""

    other: dict[int, bytes] = field(default_factory=dict)
    expired_before: int = 0

    def read(self, piece: Slice) -> Iterator[Records]:
        if piece.offsets.start < self.expired_before:
            raise Stalled(Reason.DATA_LOSS, "expired")
        offsets = list(range(piece.offsets.start, piece.offsets.end))
        yield filled(TP, offsets, [self.other.get(o, b'{"o":%d}' % o) for o in offsets])


@pytest.fixture(params=["Json", "SequenceFile"])
def opened(request: pytest.FixtureRequest, landed: Callable[[str], Landed]) -> GroupStore:
    made = landed(request.param)
    made.book.commit(made.book.land(TP, 10, 25)).applied()
    return GroupStore.of(Path(made.file))


def test_the_same_payloads_are_the_same(opened: GroupStore) -> None:
    verified = examine(opened, reader=Kafka())

    assert (verified.compared, verified.is_whole) == (Compared(25), True)


def test_a_changed_payload_is_missing_and_foreign(opened: GroupStore) -> None:
    verified = examine(opened, reader=Kafka({12: b"{}"}))

    assert (verified.compared, verified.is_whole) == (Compared(25, missing=1, foreign=1), False)


def test_what_kafka_lost_is_counted_apart(opened: GroupStore) -> None:
    verified = examine(opened, reader=Kafka(expired_before=5))

    assert (verified.compared, verified.is_whole) == (Compared(15, slices_gone=1), True)


def test_a_line_break_in_json_is_the_space_that_was_written(
    landed: Callable[[str], Landed],
) -> None:
    made = landed("Json")
    made.object.write_bytes(made.object.read_bytes().replace(b'{"o":3}', b'{ "o":3}'))
    made.book.applied()

    verified = examine(GroupStore.of(Path(made.file)), reader=Kafka({3: b'{\n"o":3}'}))

    assert verified.compared == Compared(10)


def test_groups_that_land_other_bytes_are_refused(
    landed: Callable[[str], Landed], capsys: pytest.CaptureFixture[str]
) -> None:
    made = landed("Json")
    file = Path(made.file)
    file.write_text(f"{file.read_text()}  transforms: [{{use: 'some.module:Step'}}]\n")

    assert main(["verify", made.file, "--kafka"]) == ExitCode.USAGE
    assert "transforms and typed columns" in capsys.readouterr().err
