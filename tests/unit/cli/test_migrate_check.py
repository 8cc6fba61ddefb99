"""``landfall migrate check``: on a file store, with files under the names of Secor and Connect."""

import gzip
import json
from collections.abc import Mapping, Sequence
from pathlib import Path
from types import MappingProxyType

import pytest
import yaml

from landfall.api.contract import ExitCode
from landfall.cli import main
from landfall.formats import Block
from landfall.formats.sequencefile import SequenceFileFormat
from landfall.ledger.offsets import TopicPartition
from landfall.pipeline.records import filled
from landfall.store.file import FileStore
from tests.support.ledger.sample_ledger import GROUP, SampleLedger

TP, OTHER = TopicPartition("clicks", 0), TopicPartition("clicks", 1)


UNKNOWN = "no old object has them: check if they had records"


class Migrated:
    """A root with objects of Secor, and a group that lands beside them."""

    def __init__(self, folder: Path) -> None:
        self.root = folder / "root"
        self.file = folder / "group.yaml"
        self.root.mkdir()
        self.write()

    def write(
        self,
        generation: int = 2,
        kafka: Mapping[str, object] = MappingProxyType({}),
        output: Mapping[str, object] = MappingProxyType({}),
    ) -> None:
        source = {"bootstrapServers": "localhost:1", "topics": ["clicks"], **kafka}
        spec = {
            "generation": generation,
            "source": {"kafka": source},
            "output": {"url": f"file://{self.root}", "existingObjects": "Keep", **output},
        }
        document = {
            "apiVersion": "landfall.dev/v1alpha1",
            "kind": "ConsumerGroup",
            "metadata": {"name": GROUP, "namespace": "tests"},
            "spec": spec,
        }
        self.file.write_text(yaml.safe_dump(document))

    def old(self, name: str, body: bytes) -> None:
        path = self.root / name
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_bytes(body)

    def secor(
        self,
        tp: TopicPartition,
        start: int,
        offsets: Sequence[int],
        dt: str = "1",
        generation: int = 1,
    ) -> None:
        self.old(name(tp.partition, start, dt, generation), sequence_file(tp, offsets))

    def ledger(self, **starts: int) -> SampleLedger:
        sample = SampleLedger(FileStore(self.root), body=by_secor, extension=".gz")
        sample.open(generation=2)
        for name, start in starts.items():
            sample.add(TopicPartition("clicks", int(name.removeprefix("p"))), start=start)
        return sample

    def check(self, *more: str) -> int:
        url = f"file://{self.root}"
        return main(["migrate", "check", str(self.file), "--from", url, *more])


def name(partition: int, start: int, dt: str = "1", generation: int = 1) -> str:
    return f"clicks/dt={dt}/{generation}_{partition}_{start:020}.gz"


def by_secor(offsets: Sequence[int]) -> bytes:
    return sequence_file(TP, offsets)


def sequence_file(tp: TopicPartition, offsets: Sequence[int]) -> bytes:
    encoder = SequenceFileFormat.of({"compression": "Record", "codec": "Deflate"}).encoder()
    values = [b"%d" % offset for offset in offsets]
    return encoder.encode(Block(filled(tp, list(offsets), values))) + encoder.finish()


@pytest.fixture
def migrated(tmp_path: Path) -> Migrated:
    return Migrated(tmp_path)


def test_files_of_secor_and_a_ledger_are_joined(
    migrated: Migrated, capsys: pytest.CaptureFixture[str]
) -> None:
    migrated.secor(TP, 0, range(10))
    migrated.secor(TP, 10, [10, 12, 13], "1")
    migrated.secor(TP, 10, [11, 14], "2")
    migrated.secor(OTHER, 3, [3, 4, 5])
    migrated.ledger(p0=15, p1=6)

    assert migrated.check() == ExitCode.OK
    assert capsys.readouterr().out.splitlines() == [
        f"clicks/0: last old 14 in {name(0, 10, '2')}; first new 15, not landed yet: joined",
        f"clicks/1: last old 5 in {name(1, 3)}; first new 6, not landed yet: joined",
    ]


def test_a_gap_and_an_overlap_are_faults(
    migrated: Migrated, capsys: pytest.CaptureFixture[str]
) -> None:
    migrated.secor(TP, 0, range(10))
    migrated.secor(OTHER, 0, range(10))
    migrated.ledger(p0=12, p1=8)
    new = "first new"

    assert migrated.check() == ExitCode.FAULT
    assert capsys.readouterr().out.splitlines() == [
        f"clicks/0: last old 9 in {name(0, 0)}; {new} 12, not landed yet: gap 10..11 ({UNKNOWN})",
        f"clicks/1: last old 9 in {name(1, 0)}; {new} 8, not landed yet: overlap 8..9",
    ]


def test_the_first_new_object_is_named_and_objects_of_landfall_are_not_old_ones(
    migrated: Migrated, capsys: pytest.CaptureFixture[str]
) -> None:
    migrated.secor(TP, 0, range(10))
    sample = migrated.ledger(p0=10)
    sample.commit(sample.land(TP, 10, 20))
    sample.commit(sample.land(TP, 20, 30))

    new = "clicks/dt=2026-11-21/2_0_00000000000000000010.gz"
    assert migrated.check() == ExitCode.OK
    assert capsys.readouterr().out == (
        f"clicks/0: last old 9 in {name(0, 0)}; first new 10 in {new}: joined\n"
    )
    sample.open(generation=3)
    migrated.write(generation=3)
    assert migrated.check() == ExitCode.OK
    assert migrated.check("--last", "2") == ExitCode.FAULT


def test_a_first_new_object_that_is_gone_or_damaged_is_a_fault(
    migrated: Migrated, capsys: pytest.CaptureFixture[str]
) -> None:
    migrated.secor(TP, 0, range(10))
    sample = migrated.ledger(p0=10)
    sample.commit(sample.land(TP, 10, 20))
    new = migrated.root / "clicks/dt=2026-11-21/2_0_00000000000000000010.gz"

    new.write_bytes(by_secor([12, 13]))
    assert migrated.check() == ExitCode.FAULT
    assert "has offset 12 first, and the ledger records 10)" in capsys.readouterr().out
    new.write_bytes(by_secor([10])[:-1])
    assert migrated.check() == ExitCode.FAULT
    assert f"unreadable ({new.relative_to(migrated.root)}: cannot be" in capsys.readouterr().out
    new.unlink()
    assert migrated.check() == ExitCode.FAULT
    assert "10.gz: the ledger names it, and the store does not have it)" in capsys.readouterr().out


@pytest.mark.parametrize("generation", [2, 3])
def test_a_generation_that_is_not_above_all_of_secor_is_a_fault(
    migrated: Migrated, generation: int, capsys: pytest.CaptureFixture[str]
) -> None:
    migrated.secor(TP, 0, range(10), generation=generation)
    migrated.write(kafka={"startingOffsets": {"offsets": {"clicks": {"0": 10}}}})
    line = (
        f"clicks/0: last old ?; first new 10, not landed yet: wrong generation "
        f"({name(0, 0, generation=generation)} has generation {generation}: "
        "generation must be above it, not 2)\n"
    )

    assert migrated.check() == ExitCode.FAULT
    assert capsys.readouterr().out == line
    migrated.ledger(p0=10)
    assert migrated.check() == ExitCode.FAULT
    assert capsys.readouterr().out == line


def test_in_a_root_of_its_own_secor_may_have_any_generation(
    migrated: Migrated, tmp_path: Path
) -> None:
    migrated.secor(TP, 0, range(10), generation=7)
    migrated.write(
        output={"url": f"file://{tmp_path / 'new'}"},
        kafka={"startingOffsets": {"offsets": {"clicks": {"0": 10}}}},
    )

    assert migrated.check() == ExitCode.OK


def test_before_the_first_start_the_group_says_where_it_will_begin(
    migrated: Migrated, capsys: pytest.CaptureFixture[str]
) -> None:
    migrated.secor(TP, 0, range(10))
    migrated.secor(OTHER, 0, range(10))
    migrated.write(kafka={"startingOffsets": {"offsets": {"clicks": {"0": 10}}}})

    assert migrated.check("--json") == ExitCode.FAULT
    first, second = map(json.loads, capsys.readouterr().out.splitlines())
    assert (first["partition"], first["result"], first["first_new"]) == (0, "joined", 10)
    assert (second["partition"], second["result"]) == (1, "not begun")


def test_rows_without_offsets_are_counted(
    migrated: Migrated, capsys: pytest.CaptureFixture[str]
) -> None:
    migrated.old("clicks/dt=1/1_0_00000000000000000000.gz", gzip.compress(b"a\nb\n"))
    migrated.old("clicks/dt=2/1_0_00000000000000000000", b"c\n")
    migrated.ledger(p0=3)

    assert migrated.check("--format", "Text") == ExitCode.OK
    assert "joined (the format stores no offsets" in capsys.readouterr().out


def test_objects_of_connect_are_found_by_their_names(migrated: Migrated) -> None:
    for partition, rows in (("0", b"{}\n{}\n"), ("1", b"{}\n")):
        name = f"clicks/partition={partition}/clicks+{partition}+0000000010.json"
        migrated.old(name, rows)
    migrated.ledger(p0=12, p1=11)

    assert migrated.check("--format", "Json") == ExitCode.OK


def test_what_cannot_be_read_is_a_fault_that_names_the_object(
    migrated: Migrated, capsys: pytest.CaptureFixture[str]
) -> None:
    migrated.old("clicks/dt=1/1_0_00000000000000000000", b"no sequence file")
    migrated.ledger(p0=3)

    assert migrated.check() == ExitCode.FAULT
    out = capsys.readouterr().out
    assert "unreadable (clicks/dt=1/1_0_00000000000000000000: cannot be read as Seq" in out


def test_without_old_objects_or_a_beginning_nothing_is_checked(
    migrated: Migrated, capsys: pytest.CaptureFixture[str]
) -> None:
    migrated.secor(TP, 0, range(10))
    assert migrated.check() == ExitCode.NOTHING
    assert "there is no ledger" in capsys.readouterr().err

    migrated.ledger(p0=10)
    assert migrated.check("--last", "0") == ExitCode.NOTHING
    assert "no object of Secor up to generation 0" in capsys.readouterr().err


def test_a_wrong_url_or_format_is_a_usage_error(migrated: Migrated) -> None:
    url = ["migrate", "check", str(migrated.file), "--from", "ftp://x"]
    migrated.ledger(p0=10)

    assert main(url) == ExitCode.USAGE
    migrated.secor(TP, 0, range(10))
    assert migrated.check("--format", "Csv") == ExitCode.USAGE
