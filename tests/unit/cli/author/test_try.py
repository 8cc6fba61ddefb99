"""``landfall try``: records from a file or from Kafka, and what is printed of them."""

import io
import json
from collections.abc import Iterator
from dataclasses import dataclass, field
from pathlib import Path

import pytest

from landfall.api.contract import ExitCode
from landfall.cli import main
from landfall.cli.author.try_records import RecordFile, Wish, from_log
from landfall.errors import Reason, Stalled
from landfall.ledger.offsets import OffsetRange, Slice, TopicPartition
from landfall.pipeline.records import Records, filled
from landfall.source import Bound, FoundOffsets, FoundTopics, Topic

GROUP = """
apiVersion: landfall.dev/v1alpha1
kind: ConsumerGroup
metadata: {name: shop}
spec:
  source: {kafka: {bootstrapServers: "127.0.0.1:1", topics: [clicks, logs]}}
  decode: {format: Json, timestamp: {field: at}}
  output: {url: "file:///nowhere/at/all", format: Json}
  topics:
    - pattern: clicks
      transforms:
        - {use: Filter, options: {drop: 'page == "/health"'}}
        - {use: Mask, options: {fields: [mail], kind: Mail}}
"""
CLICKS = """\
{"at": 0, "page": "/a", "mail": "ann@x"}
{"at": 0, "page": "/health"}
{"at": "soon"}
[bold]oops
"""


@pytest.fixture
def file(tmp_path: Path) -> str:
    written = tmp_path / "group.yaml"
    written.write_text(GROUP)
    (tmp_path / "clicks").write_text(CLICKS)
    return str(written)


def tried(file: str, capsys: pytest.CaptureFixture[str], *options: str) -> str:
    clicks = str(Path(file).parent / "clicks")
    code = main(["try", file, "--topic", "clicks", "--file", clicks, *options])
    assert code == ExitCode.OK
    return capsys.readouterr().out


@pytest.mark.parametrize("millis", [253_402_300_800_000, 2**62, 2**63 - 1])
@pytest.mark.parametrize("options", [[], ["--json"]], ids=["text", "json"])
def test_a_timestamp_may_be_of_any_year(
    file: str, capsys: pytest.CaptureFixture[str], millis: int, options: list[str]
) -> None:
    lines = [{"value": {"at": 0}, "timestamp": of} for of in (millis, 0)]
    (Path(file).parent / "clicks").write_text("\n".join(map(json.dumps, lines)))

    shown = tried(file, capsys, "--input", "json", *options)

    assert f"{millis} ms" in shown
    assert "1970-01-01T00:00:00.000Z" in shown


def test_records_are_shown_stage_by_stage(file: str, capsys: pytest.CaptureFixture[str]) -> None:
    shown = tried(file, capsys, "--timestamp", "2026-11-21T04:00:00Z")

    assert (
        shown
        == """\
clicks/0 offset 0  2026-11-21T04:00:00.000Z
  payload                     {"at": 0, "page": "/a", "mail": "ann@x"}
  decode                      at=0  page="/a"
  transforms[0] Filter        as before
  transforms[1] Mask          {"at":0,"page":"/a","mail":"***@x"}
  lands in                    clicks/dt=1970-01-01/1_0_*.json.gz

clicks/0 offset 1  2026-11-21T04:00:00.000Z
  payload                     {"at": 0, "page": "/health"}
  decode                      at=0  page="/health"
  left out                    by transforms[0] Filter

clicks/0 offset 2  2026-11-21T04:00:00.000Z
  payload                     {"at": "soon"}
  decode                      at="soon"  page=null
  transforms[0] Filter        as before
  transforms[1] Mask          {"at":"soon"}
  dead letter                 route: timestamp: expected a number or ISO-8601 text, got 'soon'

clicks/0 offset 3  2026-11-21T04:00:00.000Z
  payload                     [bold]oops
  dead letter                 decode: json: Expected `object`, got `array`

4 records: 1 would land in 1 output partition, 1 left out, 2 dead letters
"""
    )


def test_as_json_there_is_an_object_of_each_record(
    file: str, capsys: pytest.CaptureFixture[str]
) -> None:
    first, second, *_ = map(json.loads, tried(file, capsys, "--json").splitlines())

    assert (first["fate"], first["object"]) == ("Lands", "clicks/dt=1970-01-01/1_0_*.json.gz")
    assert first["stages"][0]["stage"] == "decode"
    assert first["stages"][-1]["value"] == '{"at":0,"page":"/a","mail":"***@x"}'
    assert (second["fate"], second["stage"]) == ("LeftOut", "transforms[0] Filter")


def test_only_as_many_records_as_asked_for_are_shown(
    file: str, capsys: pytest.CaptureFixture[str]
) -> None:
    assert len(tried(file, capsys, "--json", "--limit", "2").splitlines()) == 2


def test_a_group_of_several_topics_needs_one_named(
    file: str, capsys: pytest.CaptureFixture[str]
) -> None:
    assert main(["try", file]) == ExitCode.USAGE
    assert "name one by --topic" in capsys.readouterr().err


def test_a_topic_that_the_group_does_not_land_is_tried_and_said_to_be_left_out(
    file: str, capsys: pytest.CaptureFixture[str]
) -> None:
    clicks = str(Path(file).parent / "clicks")

    code = main(["try", file, "--topic", "other", "--file", clicks, "--limit", "1"])

    printed = capsys.readouterr()
    assert (code, printed.out.splitlines()[-1][:24]) == (ExitCode.OK, "1 record: 1 would land i")
    assert printed.err == ("landfall: spec.source leaves the topic out: shop does not land it\n")
    tried(file, capsys)
    assert capsys.readouterr().err == ""


def test_without_records_there_is_nothing_to_show(
    file: str, capsys: pytest.CaptureFixture[str]
) -> None:
    (Path(file).parent / "clicks").write_text("")

    code = main(["try", file, "--topic", "clicks", "--file", str(Path(file).parent / "clicks")])

    assert (code, capsys.readouterr().out) == (ExitCode.NOTHING, "no records\n")


# ------------------------------------------------------------------------------------------- files


def read(kind: str, text: bytes) -> Records:
    file = RecordFile(Path("-"), kind, 7, io.BytesIO(text))
    return file.read(TopicPartition("t", 1), 100)


def test_lines_of_text_and_of_hexadecimal_digits_are_payloads() -> None:
    text, digits = read("text", b"a\r\nb\n\nc"), read("hex", b"0a0B\n\n ff\n")

    assert text.values.to_pylist() == [b"a", b"b", b"", b"c"]
    assert digits.values.to_pylist() == [b"\n\x0b", b"", b"\xff"]
    assert text.timestamps.tolist() == [7] * 4
    assert text.offsets.tolist() == [0, 1, 2, 3]


def test_lines_of_json_are_records() -> None:
    found = read(
        "json",
        b'{"value": "a", "key": {"base64": "/w=="}, "timestamp": 9, "offset": 5}\n'
        b'{"value": {"n": 1}, "headers": {"h": "x"}, "offset": 8}\n'
        b'{"value": null, "offset": 9}\n',
    )

    assert found.values.to_pylist() == [b"a", b'{"n":1}', None]
    assert found.keys.to_pylist() == [b"\xff", None, None]
    assert found.timestamps.tolist() == [9, 7, 7]
    assert found.offsets.tolist() == [5, 8, 9]
    assert found.headers.to_pylist() == [[], [{"key": "h", "value": b"x"}], []]


@pytest.mark.parametrize(
    ("kind", "text", "message"),
    [
        ("hex", b"0a\n0g\n", "-:2: not hex: "),
        ("json", b'{"key": "a"}', "-:1: not json: "),
        ("json", b'{"value": {"base64": "?"}}', "-:1: not json: "),
        ("json", b'{"value": 1, "offset": 2}\n{"value": 1, "offset": 2}', "-: offsets must incr"),
    ],
)
def test_a_line_that_is_not_of_the_kind_is_named(kind: str, text: bytes, message: str) -> None:
    with pytest.raises(Stalled) as caught:
        read(kind, text)

    assert str(caught.value).startswith(message)


def test_a_file_that_is_not_there_is_named(file: str, capsys: pytest.CaptureFixture[str]) -> None:
    assert main(["try", file, "--topic", "t", "--file", "absent"]) == ExitCode.USAGE
    assert "absent: No such file" in capsys.readouterr().err


# ------------------------------------------------------------------------------------------- Kafka


@dataclass
class Kafka:
    """A topic with these visible offsets by Kafka partition; each starts at 10 and ends at 100."""

    visible: dict[int, list[int]]
    read_slices: list[Slice] = field(default_factory=list)

    def describe(self, names: set[str]) -> FoundTopics:
        topics = (Topic("t", "id", len(self.visible)),) if "t" in names else ()
        return FoundTopics(topics, {})

    def offsets(self, tps: tuple[TopicPartition, ...], bound: Bound) -> FoundOffsets:
        return FoundOffsets(dict.fromkeys(tps, 10 if bound is Bound.LOG_START else 100), {})

    def read(self, slice_: Slice) -> Iterator[Records]:
        self.read_slices.append(slice_)
        tp = slice_.topic_partition
        found = [o for o in self.visible[tp.partition] if o in slice_.offsets]
        for at in range(0, len(found), 4):
            chunk = found[at : at + 4]
            yield filled(tp, chunk, [b"x"] * len(chunk))


def offsets(kafka: Kafka, wish: Wish) -> list[tuple[int, int]]:
    chunks = from_log(kafka, kafka, wish)  # type: ignore[arg-type]  # what is used of both
    return [(r.topic_partition.partition, o) for r in chunks for o in r.offsets.tolist()]


def test_the_last_records_are_read() -> None:
    assert offsets(Kafka({0: list(range(10, 100))}), Wish("t", limit=5)) == [
        (0, o) for o in range(95, 100)
    ]


def test_records_are_read_from_an_offset_on() -> None:
    kafka = Kafka({0: [], 1: [12, 20, 21, 22, 23, 30]})

    assert offsets(kafka, Wish("t", 1, 15, limit=5)) == [(1, o) for o in (20, 21, 22, 23, 30)]
    assert offsets(kafka, Wish("t", 1, 3, limit=2)) == [(1, 12), (1, 20)]
    assert offsets(kafka, Wish("t", 1, 500)) == []


def test_the_next_kafka_partition_is_read_if_one_has_too_few() -> None:
    kafka = Kafka({0: [98], 1: [99], 2: [97]})

    assert offsets(kafka, Wish("t", limit=2)) == [(0, 98), (1, 99)]
    assert kafka.read_slices == [
        Slice(TopicPartition("t", 0), OffsetRange(98, 100)),
        Slice(TopicPartition("t", 1), OffsetRange(99, 100)),
    ]


def test_the_last_records_are_those_before_offsets_without_any() -> None:
    """Transactions that were aborted, and the marker behind each transaction, take offsets."""
    kafka = Kafka({0: [*range(10, 16), 80], 1: [11, 12]})

    assert offsets(kafka, Wish("t", limit=1)) == [(0, 80)]
    assert offsets(kafka, Wish("t", 1, limit=1)) == [(1, 12)]
    assert offsets(kafka, Wish("t", limit=3)) == [(0, 14), (0, 15), (0, 80)]
    assert offsets(kafka, Wish("t", limit=8)) == [(0, o) for o in (*range(10, 16), 80)] + [(1, 12)]
    assert len(offsets(kafka, Wish("t", limit=50))) == 9
    assert offsets(Kafka({0: [], 1: []}), Wish("t")) == []


@pytest.mark.parametrize(
    ("wish", "message"),
    [
        (Wish("other"), "there is no topic other"),
        (
            Wish("t", partition=7),
            "there is no partition 7: topic t has the Kafka partitions 0 to 0",
        ),
    ],
)
def test_what_does_not_exist_is_named(wish: Wish, message: str) -> None:
    with pytest.raises(Stalled) as caught:
        offsets(Kafka({0: []}), wish)

    assert (caught.value.reason, str(caught.value)) == (Reason.TOPIC_MISSING, message)
