from collections.abc import Callable, Collection, Mapping
from dataclasses import dataclass, field
from datetime import datetime, timedelta
from pathlib import Path

import pytest
import yaml
from msgspec.structs import replace

from landfall import ledger
from landfall.api.contract import ExitCode
from landfall.cli import main
from landfall.cli.group_store import GroupStore
from landfall.cli.look import status
from landfall.cli.look.status import PartitionProgress, PublisherProgress, read_progress
from landfall.errors import LandfallError, Retry, SourceAway
from landfall.ledger.offsets import TopicPartition
from landfall.source import Bound, FoundOffsets, FoundTopics, Topic, Watermarks
from tests.support.kubernetes.groups import document
from tests.support.ledger.sample_ledger import replace_header
from tests.support.publishers.played_publisher import PLAYED
from tests.unit.cli.conftest import TP, Landed

Make = Callable[[str], Landed]


@dataclass
class FixedLog:
    """Returns these watermarks; None stands for a broker that cannot be reached."""

    marks: Mapping[TopicPartition, Watermarks] | None
    high: int = 0
    unavailable: Mapping[TopicPartition, LandfallError] = field(default_factory=dict)

    def offsets(self, tps: Collection[TopicPartition], bound: Bound) -> FoundOffsets:
        if self.marks is None:
            raise Retry("broker away")
        here = {tp: self.marks[tp] for tp in tps if tp in self.marks}
        found = {
            tp: self.high if bound is Bound.HIGH_WATERMARK else m.end for tp, m in here.items()
        }
        return FoundOffsets(found, self.unavailable)


@pytest.fixture
def opened(landed: Make) -> GroupStore:
    return GroupStore.of(Path(landed("Json").file))


def test_lag_is_the_end_offset_minus_the_checkpoint(opened: GroupStore) -> None:
    progress = read_progress(opened, FixedLog({TP: Watermarks(0, 17)}))  # type: ignore[arg-type]

    assert progress.partitions == (PartitionProgress("clicks", 0, 10, 17, 7, 0),)
    assert (progress.lag_records, progress.totals.landed, progress.epoch, progress.slots) == (
        7,
        10,
        1,
        3,
    )
    state = opened.lane.read()
    assert progress.anchor == f"1/2:{state.tip}"


def test_a_deleted_topic_has_no_known_lag(opened: GroupStore) -> None:
    progress = read_progress(opened, FixedLog({}))  # type: ignore[arg-type]

    assert progress.partitions == (PartitionProgress("clicks", 0, 10, None, None),)


def test_without_kafka_the_ledger_still_has_its_totals(opened: GroupStore) -> None:
    progress = read_progress(opened, FixedLog(None))  # type: ignore[arg-type]

    assert (progress.lag_records, progress.source_error, progress.totals.commits) == (
        None,
        "broker away",
        1,
    )


@pytest.mark.parametrize(
    ("marks", "text"),
    [
        ({TP: Watermarks(0, 10)}, "shop: caught up, 10 records in 1 object, last commit 1h ago"),
        ({TP: Watermarks(0, 17)}, "shop: 7 records to land, 10 records in 1 object, last commit "),
        ({}, "shop: lag unknown, 10 records"),
        (None, "shop: lag unknown, 10 records"),
    ],
)
def test_the_first_line_sums_up(
    marks: Mapping[TopicPartition, Watermarks] | None, text: str, opened: GroupStore
) -> None:
    progress = read_progress(opened, FixedLog(marks))  # type: ignore[arg-type]
    assert progress.last_commit
    later = datetime.fromisoformat(progress.last_commit) + timedelta(hours=1)

    assert text in status.summary(progress, later)


def test_records_of_an_open_transaction_are_no_lag(opened: GroupStore) -> None:
    log = FixedLog({TP: Watermarks(0, 17)}, high=40)

    progress = read_progress(opened, log)  # type: ignore[arg-type]

    assert progress.partitions == (PartitionProgress("clicks", 0, 10, 17, 7, 23),)


def test_a_topic_partition_without_a_leader_says_so(opened: GroupStore) -> None:
    log = FixedLog({}, unavailable={TP: SourceAway("clicks/0: no leader")})

    progress = read_progress(opened, log)  # type: ignore[arg-type]

    assert progress.partitions[0].unavailable == "clicks/0: no leader"
    assert progress.source_error is None


def test_how_far_each_publisher_is(
    landed: Make, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    made = landed("Json")
    made.sample.shown()
    document = yaml.safe_load(Path(made.file).read_text())
    document["spec"]["publish"] = [
        {"name": name, "type": PLAYED, "options": {"path": str(tmp_path / name)}}
        for name in ("one", "two")
    ]
    Path(made.file).write_text(yaml.safe_dump(document))
    main(["publish", made.file, "one"])
    made.sample.commit(made.sample.land(TP, 10, 12))
    capsys.readouterr()

    opened = GroupStore.of(Path(made.file))
    progress = read_progress(opened, FixedLog({TP: Watermarks(0, 12)}))  # type: ignore[arg-type]

    assert progress.publishers == (
        PublisherProgress("one", PLAYED, 3, 1),
        PublisherProgress("two", PLAYED, -1, 5),
    )
    status._show(progress, by_topic_partition=False)
    said = capsys.readouterr().out
    assert [line.split()[-2:] for line in said.splitlines() if PLAYED in line] == [
        ["3", "1"],
        ["-1", "5"],
    ]


def test_a_publisher_that_cannot_be_built_hides_nothing_else(landed: Make) -> None:
    made = landed("Json")
    document = yaml.safe_load(Path(made.file).read_text())
    document["spec"]["publish"] = [{"name": "one", "type": PLAYED, "options": {"paht": "x"}}]
    Path(made.file).write_text(yaml.safe_dump(document))

    opened = GroupStore.of(Path(made.file))
    progress = read_progress(opened, FixedLog({TP: Watermarks(0, 12)}))  # type: ignore[arg-type]

    assert "spec.publish[0].options.path: needed" in progress.publishers[0].error
    assert progress.lag_records == 2


def test_up_to_when_topics_are_complete(landed: Make, capsys: pytest.CaptureFixture[str]) -> None:
    group = landed("Json")
    made = group.sample
    made.commit(replace(made.land(TP, 10, 12), latest_ms=1_800_003_600_000))
    horizon = ledger.Horizon("clicks", 1_800_000_000_000)
    made.append(
        lambda h: ledger.Finalize(
            header=replace_header(h, h.seq - 1),
            delay=3_600_000,
            looked=1_900_000_000_000,
            entries=(horizon,),
        )
    )
    opened = GroupStore.of(Path(group.file))
    progress = read_progress(opened, FixedLog({TP: Watermarks(0, 12)}))  # type: ignore[arg-type]
    status._show(progress, by_topic_partition=False)

    assert progress.complete_until == {"clicks": "2027-01-15T08:00:00+00:00"}
    assert "2027-01-15T08:00:00+00:00" in capsys.readouterr().out


@pytest.mark.parametrize("command", ["status", "audit", "fsck", "verify"])
def test_a_store_that_refuses_is_named_by_every_command(
    tmp_path: Path,
    command: str,
    capsys: pytest.CaptureFixture[str],
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setenv("AWS_ACCESS_KEY_ID", "a")
    monkeypatch.setenv("AWS_SECRET_ACCESS_KEY", "b")
    s3 = {"endpoint": "http://127.0.0.1:9", "pathStyle": True, "maxAttempts": 1}
    file = tmp_path / "group.yaml"
    file.write_text(yaml.safe_dump(document(output={"url": "s3://logs/root", "s3": s3})))

    assert main([command, str(file)]) == ExitCode.UNAVAILABLE
    assert ": 127.0.0.1:9: connection refused" in capsys.readouterr().err


@dataclass
class NewLog(FixedLog):
    """Has these topics, and no offset is asked for."""

    names: tuple[str, ...] = ()

    def topics(self, known: Collection[str] = ()) -> FoundTopics:
        del known
        return FoundTopics(tuple(Topic(name, "", 1) for name in self.names), {})


@pytest.mark.parametrize(
    ("names", "code"), [(("clicks",), ExitCode.OK), (("click",), ExitCode.STALLED)]
)
def test_a_new_group_whose_topic_is_not_there_says_so(
    names: tuple[str, ...],
    code: ExitCode,
    tmp_path: Path,
    monkeypatch: pytest.MonkeyPatch,
    capsys: pytest.CaptureFixture[str],
) -> None:
    """Before, three calm lines and exit code 0 were all that was known of a misspelt topic."""
    file = tmp_path / "new.yaml"
    file.write_text(yaml.safe_dump(document(output__url=f"file://{tmp_path}/out")))
    log = NewLog({}, names=names)
    monkeypatch.setattr("landfall.landed.opening.open_log", lambda *_: log)

    assert main(["status", str(file)]) == code

    said = capsys.readouterr()
    assert "nothing landed yet" in said.out
    assert ("there is no topic clicks" in said.err) is (code is ExitCode.STALLED)
