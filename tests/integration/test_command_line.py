"""The commands as a user runs them, with real Kafka, real S3 and local Spark."""

import json
import re
import subprocess
import sys
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import pytest

from landfall.api.contract import ExitCode
from landfall.cli import main
from tests.support.audit.independent_audit import data_keys, events
from tests.support.kafka.broker import Message
from tests.support.landing.group import Scene

pytestmark = pytest.mark.xdist_group("spark")

LANDFALL = str(Path(sys.executable).parent / "landfall")


@dataclass(frozen=True)
class CommandLine:
    """Runs commands on one group file."""

    file: str
    capsys: pytest.CaptureFixture[str]

    def __call__(self, command: str, *arguments: str) -> tuple[int, str]:
        self.capsys.readouterr()
        code = main([command, self.file, *arguments])
        return code, self.capsys.readouterr().out

    def json(self, command: str, *arguments: str) -> tuple[int, Any]:
        code, text = self(command, *arguments, "--json")
        return code, json.loads(text)

    def fate(self, topic: str, offset: int) -> str:
        return str(self.json("locate", topic, "0", str(offset))[1]["fate"])


def test_a_group_is_landed_checked_and_its_damage_found(
    scene: Scene, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    topic = scene.topic()
    scene.kafka.produce(topic, [*events(range(500)), Message(b"no JSON")])
    scene.kafka.produce_transaction(topic, events(range(900, 950)), commit=False)
    scene.kafka.produce(topic, events(range(500, 600)))
    group = scene.file(tmp_path, output={"format": "SequenceFile"}, badRecords={"maxRatio": 0.01})
    landfall = CommandLine(str(group), capsys)

    ran = subprocess.run(
        [LANDFALL, "run", landfall.file, "--until-caught-up", "--master", "local[2]"],
        capture_output=True,
        text=True,
        check=False,
    )

    assert ran.returncode == ExitCode.OK, ran.stderr
    assert ran.stderr.startswith("hot path: ")
    assert "600 records landed, 1 dead letter, 0 to go" in ran.stderr
    _assert_everything_is_sound(landfall)
    assert {offset: landfall.fate(topic, offset) for offset in (499, 500, 501, 600, 652)} == {
        499: "landed",
        500: "dead-lettered",
        501: "no-record",  # a record of the aborted transaction
        600: "landed",
        652: "not-landed",
    }
    _assert_record_is_located(landfall, topic, 499)
    _assert_damage_is_found(landfall, scene)


def test_servers_topics_and_url_alone_land_any_payload(
    scene: Scene, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    topic = scene.topic()
    payloads = [b"text", b"\xff\x00\n", b"{}", b""]
    scene.kafka.produce(topic, [Message(payload) for payload in payloads])
    file = tmp_path / "group.yaml"
    file.write_text(
        f"""
        apiVersion: landfall.dev/v1alpha1
        kind: ConsumerGroup
        metadata: {{name: backup}}
        spec:
          source: {{kafka: {{bootstrapServers: "{scene.kafka}", topics: [{topic}]}}}}
          output: {{url: "{tmp_path.as_uri()}/landed"}}
        """
    )
    landfall = CommandLine(str(file), capsys)

    ran = subprocess.run(
        [LANDFALL, "run", str(file), "--until-caught-up", "--master", "local[1]"],
        capture_output=True,
        text=True,
        check=False,
    )

    assert ran.returncode == ExitCode.OK, ran.stderr
    (landed,) = (tmp_path / "landed" / topic).rglob("*.seq")
    key = str(landed.relative_to(tmp_path / "landed"))
    rows = landfall("cat", key, "--json")[1].splitlines()
    assert [json.loads(row)["offset"] for row in rows] == [0, 1, 2, 3]
    assert landfall("audit")[0] == ExitCode.OK


def test_try_shows_the_last_records_behind_which_an_aborted_transaction_lies(
    scene: Scene, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    topic = scene.topic()
    scene.kafka.produce_transaction(topic, events(range(3)))
    scene.kafka.produce_transaction(topic, events(range(900, 950)), commit=False)
    landfall = CommandLine(str(scene.file(tmp_path)), capsys)

    shown = {
        options: landfall("try", "--topic", topic, "--json", *options)[1].splitlines()
        for options in [("--limit", "2"), ("--offset", "1"), ("--limit", "9")]
    }

    assert [[json.loads(line)["offset"] for line in lines] for lines in shown.values()] == [
        [1, 2],
        [1, 2],
        [0, 1, 2],
    ]


def _assert_everything_is_sound(landfall: CommandLine) -> None:
    code, status = landfall.json("status")
    assert (code, status["lag_records"], status["unapplied_commits"]) == (ExitCode.OK, 0, 0)
    assert (status["totals"]["landed"], status["totals"]["dead_lettered"]) == (600, 1)
    code, verified = landfall.json("verify", "--kafka")
    assert (code, verified["found"], verified["kafka"]["records"]) == (ExitCode.OK, 601, 601)
    assert landfall("fsck", "--deep")[0] == ExitCode.OK


def _assert_record_is_located(landfall: CommandLine, topic: str, offset: int) -> None:
    (found,) = landfall.json("locate", topic, "0", str(offset))[1]["objects"]
    row = landfall("cat", found["url"])[1].splitlines()[found["row"] - 1]
    assert row.startswith(f"{offset}\t")
    assert json.loads(row.split("\t")[1])["id"] == offset


def _assert_damage_is_found(landfall: CommandLine, scene: Scene) -> None:
    first, second, *_ = data_keys(scene.bucket)
    scene.bucket.server.client.delete_object(Bucket=scene.bucket.name, Key=first)
    scene.bucket.write(second, b"other bytes")

    code, text = landfall("fsck")
    assert (code, re.findall(r"(I\d+) +BROKEN", text)) == (ExitCode.FAULT, ["I5", "I6"])
    code, verified = landfall.json("verify")
    assert (code, verified["whole"], len(verified["faults"])) == (ExitCode.FAULT, False, 2)
