from collections.abc import Callable, Iterator
from dataclasses import dataclass, field
from pathlib import Path

import pytest

from landfall.api.contract import ExitCode
from landfall.checks.payloads import Comparison
from landfall.cli import main
from landfall.cli.group_store import GroupStore
from landfall.cli.objects.verify import examine
from landfall.errors import Reason, Stalled
from landfall.ledger.entries import Entry
from landfall.ledger.offsets import Slice
from landfall.ledger.records import Add
from landfall.pipeline.records import Records, filled
from tests.support.ledger.sample_ledger import SampleLedger
from tests.unit.cli.conftest import TP, Landed


@dataclass
class Kafka:
    """Holds what was landed, except these payloads and the expired offsets."""

    other: dict[int, bytes] = field(default_factory=dict)
    expired_before: int = 0

    def read(self, slice_: Slice) -> Iterator[Records]:
        if slice_.offsets.start < self.expired_before:
            raise Stalled(Reason.DATA_LOSS, "expired")
        offsets = list(range(slice_.offsets.start, slice_.offsets.end))
        yield filled(TP, offsets, [self.other.get(o, b'{"o":%d}' % o) for o in offsets])


@pytest.fixture(params=["Json", "SequenceFile"])
def opened(request: pytest.FixtureRequest, landed: Callable[[str], Landed]) -> GroupStore:
    made = landed(request.param)
    made.sample.commit(made.sample.land(TP, 10, 25)).applied()
    return GroupStore.of(Path(made.file))


def test_equal_payloads_are_whole(opened: GroupStore) -> None:
    result = examine(opened, reader=Kafka())

    assert (result.comparison, result.is_whole) == (Comparison(25), True)


def test_a_changed_payload_is_missing_and_foreign(opened: GroupStore) -> None:
    result = examine(opened, reader=Kafka({12: b"{}"}))

    assert (result.comparison, result.is_whole) == (Comparison(25, missing=1, foreign=1), False)


def test_expired_slices_are_counted_separately(opened: GroupStore) -> None:
    result = examine(opened, reader=Kafka(expired_before=5))

    assert (result.comparison, result.is_whole) == (Comparison(15, slices_gone=1), True)


def test_ranges_of_a_topic_that_was_created_again_are_gone(opened: GroupStore) -> None:
    sample = SampleLedger(opened.store, extension=".json")
    sample.state = opened.lane.read()
    sample.open(generation=2).drop(TP)
    entry = Entry(TP, "new", 0)
    sample.append(lambda h: Add(header=h, entries=(entry,)))
    sample.shown()

    result = examine(opened, reader=Kafka({3: b"of another topic"}), topic_ids={"clicks": "new"})

    assert (result.comparison, result.is_whole) == (Comparison(slices_gone=2), True)


def test_what_kafka_had_lost_is_compared_with_what_another_group_landed(
    landed: Callable[[str], Landed],
) -> None:
    made = landed("Json")
    made.sample.commit(made.sample.land(TP, 10, 15, read_from="backup")).applied()
    opened, kafka = GroupStore.of(Path(made.file)), Kafka(expired_before=30)

    assert examine(opened, reader=kafka).comparison == Comparison(slices_gone=2)
    assert examine(opened, reader=kafka, backup=Kafka()).comparison == Comparison(5, slices_gone=1)
    wrong = examine(opened, reader=kafka, backup=Kafka({12: b"{}"})).comparison
    assert wrong == Comparison(5, missing=1, foreign=1, slices_gone=1)


def test_a_line_break_in_json_equals_the_space_that_was_written(
    landed: Callable[[str], Landed],
) -> None:
    made = landed("Json")
    made.object.write_bytes(made.object.read_bytes().replace(b'{"o":3}', b'{ "o":3}'))
    made.sample.applied()

    result = examine(GroupStore.of(Path(made.file)), reader=Kafka({3: b'{\n"o":3}'}))

    assert result.comparison == Comparison(10)


@pytest.mark.parametrize(
    "spec",
    [
        "decode: {format: Json}\n  transforms: [{use: 'some.module:Step'}]",
        "decode: {format: Json, columns: [{name: a, type: Int64}]}",
        "decode: {format: MessagePack}",
    ],
)
def test_groups_that_land_other_bytes_are_refused(
    landed: Callable[[str], Landed], capsys: pytest.CaptureFixture[str], spec: str
) -> None:
    made = landed("Json")
    file = Path(made.file)
    file.write_text(f"{file.read_text()}  {spec}\n")

    assert main(["verify", made.file, "--kafka"]) == ExitCode.USAGE
    assert "land other bytes than Kafka holds" in " ".join(capsys.readouterr().err.split())


def test_objects_are_read_by_the_entry_of_their_topic(
    landed: Callable[[str], Landed], capsys: pytest.CaptureFixture[str]
) -> None:
    made = landed("SequenceFile")
    made.sample.applied()
    file = Path(made.file)
    entry = "{pattern: clicks, output: {format: SequenceFile, codec: None}}"
    spec = file.read_text().replace("format: SequenceFile, codec: None", "format: Text")
    file.write_text(f"{spec}  topics: [{entry}]\n")

    result = examine(GroupStore.of(file), reader=Kafka())

    assert (result.comparison, result.is_whole) == (Comparison(10), True)
    assert main(["cat", made.file, made.first.objects[0].upload.key]) == ExitCode.OK
    assert capsys.readouterr().out.splitlines()[0] == '0\t{"o":0}'
    assert main(["locate", made.file, "clicks", "0", "7"]) == ExitCode.OK
    assert "row 8 of 10" in capsys.readouterr().out


def test_only_topics_whose_payloads_are_changed_are_refused(
    landed: Callable[[str], Landed], capsys: pytest.CaptureFixture[str]
) -> None:
    made = landed("Json")
    made.sample.applied()
    file = Path(made.file)
    steps = "transforms: [{use: 'some.module:Step'}]"
    file.write_text(f"{file.read_text()}  topics: [{{pattern: other, {steps}}}]\n")

    assert main(["verify", made.file, "--kafka"]) == ExitCode.USAGE
    assert "land other bytes than Kafka holds" in " ".join(capsys.readouterr().err.split())
