"""``landfall migrate``: a group on standard output, a report on standard error, an exit code."""

import json
from pathlib import Path

import pytest
import yaml

from landfall.api.contract import ExitCode
from landfall.cli import main
from landfall_migrate.secor.keys import EXTRA_OPTIONS
from tests.support.pages.migrations import SECOR, SINK


@pytest.fixture
def secor(tmp_path: Path) -> Path:
    file = tmp_path / "secor.properties"
    file.write_text("".join(f"{key}={value}\n" for key, value in SECOR.items()))
    return file


@pytest.fixture
def sink(tmp_path: Path) -> Path:
    file = tmp_path / "sink.json"
    file.write_text(json.dumps({"name": "s3-sink", "config": SINK}))
    return file


def test_a_group_that_is_whole_is_printed_and_the_command_succeeds(
    secor: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    assert main(["migrate", "secor", str(secor)]) == ExitCode.OK

    printed = capsys.readouterr()
    assert yaml.safe_load(printed.out)["spec"]["output"]["url"] == "s3://logs/raw"
    assert "secor.s3.bucket -> output.url" in printed.err
    assert "landfall migrate check GROUP.yaml --from s3://logs/raw" in printed.err


def test_what_is_not_supported_is_a_fault_and_the_group_is_printed_all_the_same(
    secor: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    options = ["-D", "secor.s3.prefix.md5hash=true", "-Down.key=x", "--json"]

    assert main(["migrate", "secor", str(secor), *options]) == ExitCode.FAULT

    printed = capsys.readouterr()
    report = json.loads(printed.err)
    assert yaml.safe_load(printed.out)["kind"] == "ConsumerGroup"
    assert not report["complete"]
    assert {each["key"]: each["outcome"] for each in report["keys"] if "-D" in each["place"]} == {
        "secor.s3.prefix.md5hash": "not supported",
        "own.key": "unknown",
    }


def test_the_group_may_go_to_a_file(
    secor: Path, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    file = tmp_path / "group.yaml"
    more = ["--output", str(file), "--name", "clicks", "--namespace", "logs", "--generation", "7"]

    assert main(["migrate", "secor", str(secor), *more]) == ExitCode.OK

    group = yaml.safe_load(file.read_text())
    assert capsys.readouterr().out == ""
    assert group["metadata"] == {"name": "clicks", "namespace": "logs"}
    assert group["spec"]["generation"] == 7
    assert main(["explain", str(file), "clicks"]) == ExitCode.OK


def test_the_environment_counts_only_if_asked(
    secor: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.setenv("SECOR_S3_BUCKET", "other")
    monkeypatch.setenv(EXTRA_OPTIONS, "-Dsecor.generation=4")
    for options, url, generation in ((["--env"], "s3://other/raw", 5), ([], "s3://logs/raw", 2)):
        assert main(["migrate", "secor", str(secor), *options]) == ExitCode.OK

        spec = yaml.safe_load(capsys.readouterr().out)["spec"]
        assert (spec["output"]["url"], spec["generation"]) == (url, generation)


def test_offsets_begin_the_group_where_the_old_program_stopped(
    secor: Path, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    dump = tmp_path / "offsets"
    root = "/consumers/secor_backup/offsets/clicks"
    dump.write_text(f"{root}/0 100\n{root}/1 -1\n/consumers/other/offsets/clicks/0 7\n")

    assert main(["migrate", "secor", str(secor), "--offsets", str(dump)]) == ExitCode.OK

    printed = capsys.readouterr()
    kafka = yaml.safe_load(printed.out)["spec"]["source"]["kafka"]
    assert kafka["startingOffsets"] == {"offsets": {"clicks": {"0": 100}}}
    assert "no offset is committed, so these begin at their start: clicks/1" in printed.err


def test_a_connector_is_a_group(sink: Path, capsys: pytest.CaptureFixture[str]) -> None:
    command = ["migrate", "connect", str(sink)]

    assert main(command) == ExitCode.FAULT
    assert "--bootstrap-servers" in capsys.readouterr().err
    assert main([*command, "--bootstrap-servers", "kafka:9092"]) == ExitCode.OK


def test_a_connector_may_be_in_a_properties_file(tmp_path: Path) -> None:
    file = tmp_path / "sink.properties"
    file.write_text("".join(f"{key}={value}\n" for key, value in SINK.items()))

    assert main(["migrate", "connect", str(file), "--bootstrap-servers", "k:1"]) == ExitCode.OK


def test_a_connector_of_strimzi_takes_its_worker_and_variables(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    config = {k: v for k, v in SINK.items() if not k.startswith(("name", "connector", "value."))}
    connector = {
        "kind": "KafkaConnector",
        "metadata": {"name": "sink"},
        "spec": {
            "class": SINK["connector.class"],
            "config": {**config, "topics": "${TOPIC}", "s3.bucket.name": "${env:BUCKET}"},
        },
    }
    (tmp_path / "sink.yaml").write_text(yaml.safe_dump(connector))
    worker = "bootstrap.servers=k:9092\nvalue.converter=x.JsonConverter\n"
    (tmp_path / "worker.properties").write_text(f"{worker}value.converter.schemas.enable=false\n")
    monkeypatch.setenv("BUCKET", "logs")
    command = ["migrate", "connect", str(tmp_path / "sink.yaml")]
    more = ["--worker", str(tmp_path / "worker.properties"), "-D", "TOPIC=clicks", "--env"]

    assert main([*command, *more]) == ExitCode.OK

    spec = yaml.safe_load(capsys.readouterr().out)["spec"]
    assert spec["source"]["kafka"]["topics"] == ["clicks"]
    assert spec["source"]["kafka"]["bootstrapServers"] == "k:9092"
    assert (spec["output"]["url"], spec["decode"]) == ("s3://logs/topics", {"format": "Json"})


def test_a_group_with_something_open_is_refused_by_explain(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    config = {key: text for key, text in SINK.items() if not key.startswith("value.")}
    (tmp_path / "sink.json").write_text(json.dumps(config))
    file = tmp_path / "group.yaml"
    command = ["migrate", "connect", str(tmp_path / "sink.json"), "--output", str(file)]

    assert main([*command, "--bootstrap-servers", "k:1"]) == ExitCode.FAULT

    assert "format: SET-ME  # value.converter is in the worker's file" in file.read_text()
    assert "a driver refuses the group as it is: spec.decode.format" in capsys.readouterr().err
    assert main(["explain", str(file), "clicks"]) == ExitCode.USAGE
    assert "spec.decode.format: must be " in capsys.readouterr().err


def test_what_only_a_driver_refuses_is_reported(
    secor: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    parser = "secor.message.parser.class=com.pinterest.secor.parser.RegexMessageParser"
    pattern = "message.timestamp.input.pattern=no group"

    assert main(["migrate", "secor", str(secor), "-D", parser, "-D", pattern]) == ExitCode.FAULT

    assert "a driver refuses the group as it is: spec.decode.options" in capsys.readouterr().err


@pytest.mark.parametrize(
    ("name", "text", "message"),
    [
        ("secor", "a=1\ninclude=no.properties", ":2: there is no file "),
        ("secor", "a=\\uxyz0", ":1: \\u is not followed by"),
        ("connect", "{", ":1:2: invalid JSON: "),
        ("connect", "[]", ": a connector's configuration is a JSON object"),
        ("connect.yaml", "a: [", ":1: invalid YAML: "),
        ("connect.yaml", "kind: KafkaConnector", ": a KafkaConnector has metadata and spec"),
    ],
)
def test_input_that_cannot_be_read_is_named_with_its_line(
    tmp_path: Path, capsys: pytest.CaptureFixture[str], name: str, text: str, message: str
) -> None:
    file = tmp_path / f"input{Path(name).suffix}"
    file.write_text(text)

    assert main(["migrate", Path(name).stem, str(file)]) == ExitCode.USAGE
    assert f"{file}{message}" in capsys.readouterr().err


@pytest.mark.parametrize("program", ["secor", "connect"])
def test_a_file_that_is_not_there_is_a_usage_error(program: str, tmp_path: Path) -> None:
    assert main(["migrate", program, str(tmp_path / "none.json")]) == ExitCode.USAGE


def test_an_option_without_an_equals_sign_is_a_usage_error(
    secor: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    with pytest.raises(SystemExit) as ended:
        main(["migrate", "secor", str(secor), "-D", "secor.generation"])

    assert ended.value.code == ExitCode.USAGE
    assert "must be key=value" in capsys.readouterr().err
