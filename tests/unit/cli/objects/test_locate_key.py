"""``landfall locate --key``: from a key to its newest row in a table, and to its object."""

import json
from collections.abc import Callable, Sequence
from pathlib import Path
from typing import Any

import pytest
import yaml

from landfall.api.contract import ExitCode
from landfall.cli import main
from landfall.ledger.offsets import TopicPartition
from tests.support.kubernetes.groups import document
from tests.support.ledger.sample_ledger import GROUP
from tests.support.publishers.keyed import Change, Changes, listed
from tests.support.publishers.lake import CLICKS, Landed

Capture = pytest.CaptureFixture[str]


class Tables:
    """A group whose clicks are a keyed table of each type, or none."""

    def __init__(self, root: Path, changes: Changes, *, keyed: bool = True) -> None:
        self.file, self.landed, self.root = str(root / "group.yaml"), Landed(root), root
        self.landed.sample.body = changes.body
        (root / "tables").mkdir()
        mode = {"mode": "Keyed", "key": ["id"]} if keyed else {}
        catalog = {
            "type": "sql",
            "uri": f"sqlite:///{root}/catalog.db",
            "warehouse": f"file://{root}/warehouse",
        }
        options = {
            "Delta": {"table": f"file://{root}/tables/{{topic}}", **mode},
            "Iceberg": {"table": "lake.{topic}", "catalog": catalog, **mode},
        }
        described = document(
            GROUP,
            publish=[
                {"name": type_.lower(), "type": type_, "options": found}
                for type_, found in options.items()
            ],
        )
        described["spec"]["output"] = self.landed.described({})
        Path(self.file).write_text(yaml.safe_dump(described))

    def land(self, rows: int) -> None:
        self.landed.land(CLICKS, rows=rows).settle()
        assert main(["publish", self.file]) == ExitCode.OK

    def begin_again(self, changes: Changes) -> None:
        sample = self.landed.sample
        sample.drop(CLICKS).open((sample.state.generation or 1) + 1).add(CLICKS)
        sample.body = changes.body


@pytest.fixture
def said(capsys: Capture) -> Callable[[Sequence[str]], list[str]]:
    def said(words: Sequence[str]) -> list[str]:
        capsys.readouterr()
        assert main(words) == ExitCode.OK
        return capsys.readouterr().out.splitlines()

    return said


def test_a_key_leads_to_its_row_and_its_object(
    tmp_path: Path, said: Callable[[Sequence[str]], list[str]]
) -> None:
    lake = Tables(tmp_path, listed(Change(1), Change(2), Change(1, deleted=True)))
    lake.land(2)
    lake.land(1)

    delta, where, object_, iceberg, *_ = said(["locate", lake.file, "clicks", "--key", "id=2"])
    deleted = said(["locate", lake.file, "clicks", "--key", "id=1"])
    unknown = said(["locate", lake.file, "clicks", "--key", "id=3"])

    assert delta == (
        f"table file://{tmp_path}/tables/clicks, through slot 5: the newest row of key id=2 is "
        "offset 1 of clicks/0"
    )
    assert where == "clicks/0 offset 1 was landed by the COMMIT in slot 2"
    assert object_.endswith("row 2 of 2")
    assert iceberg.startswith("table lake.clicks, through slot 5: the newest row of key id=2 ")
    assert deleted[0].endswith("it deletes the key, or another program has deleted it")
    assert [line.partition(": ")[2] for line in unknown] == ["no row has key id=3"] * 2


def test_json_has_the_row_and_the_object(
    tmp_path: Path, said: Callable[[Sequence[str]], list[str]]
) -> None:
    lake = Tables(tmp_path, listed(Change(1), Change(2)))
    lake.land(2)

    (line,) = said(["locate", lake.file, "clicks", "--key", "id=2", "--json"])

    answers: list[dict[str, Any]] = json.loads(line)["tables"]
    assert [answer["newest"]["table"].rpartition("/")[2] for answer in answers] == [
        "clicks",
        "lake.clicks",
    ]
    for answer in answers:
        assert (answer["newest"]["partition"], answer["newest"]["offset"]) == (0, 1)
        assert (answer["location"]["fate"], answer["location"]["slot"]) == ("landed", 2)
        assert answer["location"]["objects"][0]["row"] == 2


def test_a_row_of_a_former_lifetime_is_not_looked_up(
    tmp_path: Path, said: Callable[[Sequence[str]], list[str]]
) -> None:
    lake = Tables(tmp_path, listed(Change(1), Change(2)))
    lake.land(2)
    lake.begin_again(listed(Change(1), Change(1)))
    lake.land(2)

    lines = said(["locate", lake.file, "clicks", "--key", "id=2"])

    assert len(lines) == 2
    assert all(
        line.endswith("it is from before clicks/0 began again, and is not looked up")
        for line in lines
    )


@pytest.mark.parametrize(
    ("keyed", "words", "message"),
    [
        (
            False,
            ["clicks", "--key", "id=1"],
            "no publisher keeps a table of clicks with mode: Keyed",
        ),
        (True, ["clicks", "--key", "id"], "--key id: expected a column and its value"),
        (True, ["clicks", "--key", "id=1", "--key", "id=2"], "--key id=2: expected a column"),
        (True, ["clicks", "0", "--key", "id=1"], "--key names no Kafka partition and no file"),
        (True, ["clicks"], "name a Kafka partition, a file of a feed, or --key"),
    ],
)
def test_a_wrong_question_is_refused(
    tmp_path: Path, capsys: Capture, keyed: bool, words: list[str], message: str
) -> None:
    lake = Tables(tmp_path, listed(Change(1)), keyed=keyed)
    lake.landed.land(TopicPartition("clicks", 0), rows=1).settle()

    assert main(["locate", lake.file, *words]) == ExitCode.USAGE

    assert message in " ".join(capsys.readouterr().err.split())
