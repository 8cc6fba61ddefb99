"""``landfall files take`` and what follows it, as a shell script uses it."""

import argparse
import json
from datetime import timedelta
from pathlib import Path

import pytest
import yaml

from landfall.api.contract import ExitCode
from landfall.api.spec import parse_group
from landfall.cli import main
from landfall.cli.parser import parser
from landfall.cli.values import duration
from landfall.driver.core.in_process import InProcessRunner
from landfall.driver.process.run import RunOptions, drive
from landfall.lane.stores import open_stores


@pytest.fixture
def group(tmp_path: Path) -> str:
    """The file of a group whose driver has found two files in a folder."""
    (tmp_path / "in").mkdir()
    for name in ("a.json", "b.json"):
        (tmp_path / "in" / name).write_text("{}\n")
    feed = {"topic": "hits", "url": f"file://{tmp_path}/in", "process": "External"}
    document = {
        "apiVersion": "landfall.dev/v1alpha1",
        "kind": "ConsumerGroup",
        "metadata": {"name": "scene"},
        "spec": {
            "source": {"files": [{**feed, "settle": "1ms"}]},
            "output": {"url": f"file://{tmp_path}/out"},
            "tuning": {"pollInterval": "5ms"},
        },
    }
    path = tmp_path / "group.yaml"
    path.write_text(yaml.safe_dump(document))
    of = parse_group(document)
    options = RunOptions(until_caught_up=True, http_port=0)
    assert drive(of, open_stores(of.spec), InProcessRunner(), options) is ExitCode.OK
    return str(path)


def test_a_script_takes_files_and_says_what_became_of_them(
    group: str, capsys: pytest.CaptureFixture[str]
) -> None:
    assert main(["files", "take", group, "hits", "--limit", "1", "--json"]) == ExitCode.OK
    taken = json.loads(capsys.readouterr().out)
    (file,) = taken["files"]
    assert (file["name"], file["attempt"], file["size"]) == ("a.json", 1, 3)
    assert Path(file["url"].removeprefix("file://")).read_text() == "{}\n"
    lease = str(taken["lease"])

    assert main(["files", "extend", group, lease, "--lease", "2h"]) == ExitCode.OK
    assert main(["files", "done", group, lease, "b.json"]) == ExitCode.REFUSED
    assert "has no file b.json" in capsys.readouterr().err
    assert main(["files", "done", group, lease, "a.json"]) == ExitCode.OK
    assert main(["files", "done", group, lease]) == ExitCode.REFUSED
    assert f"lease {lease} is over" in capsys.readouterr().err


def test_nothing_to_take_is_no_error(group: str, capsys: pytest.CaptureFixture[str]) -> None:
    assert main(["files", "take", group, "hits"]) == ExitCode.OK
    lease = capsys.readouterr().out.split("lease ")[1].split(",")[0]

    assert main(["files", "take", group, "hits", "--json"]) == ExitCode.OK
    assert json.loads(capsys.readouterr().out) == {"lease": None, "until": "", "files": []}
    assert main(["files", "failed", group, lease, "--number", "0", "--why", "x"]) == ExitCode.OK
    assert main(["files", "return", group, lease]) == ExitCode.OK
    assert main(["files", "take", group, "hits"]) == ExitCode.OK
    assert "b.json" in capsys.readouterr().out


def test_asking_again_under_an_id_prints_the_same(
    group: str, capsys: pytest.CaptureFixture[str]
) -> None:
    command = ["files", "take", group, "hits", "--limit", "1", "--id", "run-7", "--json"]

    assert main(command) == ExitCode.OK
    first = capsys.readouterr().out
    assert main(command) == ExitCode.OK
    assert capsys.readouterr().out == first


@pytest.mark.parametrize(
    ("words", "problem"),
    [
        (["done", "GROUP", "x"], "x: not the number of a lease"),
        (["take", "GROUP", "hits", "a.json"], "take names a feed, and no files: a.json"),
        (["take", "GROUP", "hits", "--limit", "1001"], "1 to 1000 files of it: 1001"),
        (["take", "GROUP", "hits", "--lease", "40d"], "a lease of 3456000 seconds"),
        (["take", "hits"], "name the group's file"),
    ],
)
def test_a_wrong_command_line_says_what_is_wrong(
    group: str, words: list[str], problem: str, capsys: pytest.CaptureFixture[str]
) -> None:
    argv = [group if word == "GROUP" else word for word in words]

    assert main(["files", *argv]) == ExitCode.USAGE
    assert problem in " ".join(capsys.readouterr().err.split())


@pytest.mark.parametrize("command", ["take", "done", "failed", "return", "extend"])
def test_every_command_has_an_example(command: str, capsys: pytest.CaptureFixture[str]) -> None:
    with pytest.raises(SystemExit):
        parser().parse_args(["files", command, "--help"])

    assert f"examples:\n  landfall files {command} " in capsys.readouterr().out


def test_times_have_units() -> None:
    assert duration("90s") == timedelta(seconds=90)
    assert duration("2d") == timedelta(days=2)
    for wrong in ("", "0s", "5", "1w", "-1h"):
        with pytest.raises(argparse.ArgumentTypeError):
            duration(wrong)
