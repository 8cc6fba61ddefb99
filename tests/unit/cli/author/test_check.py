"""``landfall check``: all faults of group files at once, each with its place."""

import json
import os
import shutil
import socket
from collections.abc import Callable, Iterator
from pathlib import Path
from string import Template

import pytest
import yaml

from landfall.api.contract import ExitCode
from landfall.cli import main
from tests.support.kubernetes.groups import changed, document

EXAMPLES = Path(__file__).resolve().parents[4] / "examples"
WRONG = {
    "spec.source.kafka.bootstrapServers": "127.0.0.1:9",
    "spec.source.kafka.properties": {"security.protcol": "PLAINTEXT"},
    "spec.decode": {"format": "Csv", "options": {"header": True, "colums": ["a"]}},
    "spec.transforms": [
        {"use": "Select", "options": {"field": ["a"]}},
        {"use": "Mask", "options": {"colums": ["b"]}},
    ],
    "spec.output.options": {"rowGroups": 3},
    "spec.output.format": "Parquet",
    "spec.publish": [
        {"name": "done", "type": "Success", "options": {"nam": "_DONE"}},
        {"name": "dag", "type": "Airflow", "options": {}},
    ],
}


KEYS = {"credentialsSecretRef": {"name": "keys"}}
OF_REGISTRY = {"secretRef": {"name": "keys"}}
SELECT = {"use": "Select", "options": {"field": ["a"]}}
KAFKA_AND_STORE = ["spec.source.kafka.bootstrapServers", "spec.output.url"]


def publisher(kind: str, **options: object) -> dict[str, object]:
    """The fields of a group in S3 with a publisher whose Secret is ``keys``."""
    entry = {"name": "p", "type": kind, "secretRef": {"name": "keys"}, "options": options}
    decode = {"decode": {"format": "Json"}} if kind in {"Glue", "BigQuery"} else {}
    return {"output.url": "s3://l/c", "publish": [entry], **decode}


@pytest.fixture
def written(tmp_path: Path) -> Callable[..., Path]:
    """Writes a group that lands in a folder: ``written(path=value, …)``."""

    def write(fields: dict[str, object], name: str = "group.yaml") -> Path:
        made = changed(document(), "spec.output.url", f"file://{tmp_path}/landed")
        for path, value in fields.items():
            made = changed(made, path, value)
        file = tmp_path / name
        file.write_text(yaml.safe_dump(made))
        return file

    return write


def test_all_faults_of_a_file_are_printed_a_line_each(
    written: Callable[..., Path], capsys: pytest.CaptureFixture[str]
) -> None:
    file = written(WRONG)

    assert main(["check", "--offline", str(file)]) == ExitCode.USAGE

    lines = capsys.readouterr().out.splitlines()
    assert [line.partition(": ")[2].partition(": ")[0] for line in lines] == [
        "spec.output.options",
        "spec.transforms[0].options",
        "spec.transforms[1].options",
        "spec.decode.options",
        "spec.source.kafka.properties.security.protcol",
        "spec.publish[0].options",
        "spec.publish[1].options",
    ]
    assert all(line.startswith(f"{file}: ") for line in lines)
    assert "unknown option field, did you mean fields?" in lines[1]


def test_a_file_that_is_no_group_does_not_hide_the_next_one(
    written: Callable[..., Path], capsys: pytest.CaptureFixture[str]
) -> None:
    torn = written({"spec.output.formt": "Json", "spec.sources": {}}, "torn.yaml")
    wrong = written({"spec.decode.format": "Jsn"}, "wrong.yaml")

    assert main(["check", "--offline", str(torn), str(wrong)]) == ExitCode.USAGE

    lines = capsys.readouterr().out.splitlines()
    assert [line.partition(": ")[0] for line in lines] == [str(torn)] * 2 + [str(wrong)]


def test_variables_that_are_unset_hide_no_other_fault(
    written: Callable[..., Path], capsys: pytest.CaptureFixture[str]
) -> None:
    fields = {
        "spec.output.url": "${NOWHERE_ROOT}",
        "spec.source.kafka.bootstrapServers": "${NOWHERE_KAFKA}",
        "spec.output.formt": "Json",
    }

    assert main(["check", "--offline", str(written(fields))]) == ExitCode.USAGE

    out = capsys.readouterr().out
    assert out.count("\n") == 3
    assert all(name in out for name in ("NOWHERE_ROOT", "NOWHERE_KAFKA", "formt"))


def test_a_good_file_is_ok_and_offline_asks_nothing(
    written: Callable[..., Path], capsys: pytest.CaptureFixture[str], tmp_path: Path
) -> None:
    file = written({})

    assert main(["check", "--offline", str(file)]) == ExitCode.OK

    assert capsys.readouterr().out == f"{file}: ok (no server asked)\n"
    assert not (tmp_path / "landed").exists()


def test_a_broker_and_a_registry_that_do_not_answer_may_come_back(
    written: Callable[..., Path], capsys: pytest.CaptureFixture[str], tmp_path: Path
) -> None:
    with socket.socket() as taken:
        taken.bind(("127.0.0.1", 0))  # and listens to nobody
        address = f"127.0.0.1:{taken.getsockname()[1]}"
        file = written(
            {
                "spec.source.kafka.bootstrapServers": address,
                "spec.decode": {"format": "Avro", "registry": {"urls": [f"http://{address}"]}},
                "spec.publish": [
                    {"name": "hook", "type": "Webhook", "options": {"url": f"http://{address}"}}
                ],
            }
        )

        assert main(["check", str(file), "-o", "json"]) == ExitCode.UNAVAILABLE

    faults = json.loads(capsys.readouterr().out)["faults"]
    assert [(fault["reason"], fault["message"].partition(": ")[0]) for fault in faults] == [
        ("SourceUnavailable", "spec.source.kafka.bootstrapServers"),
        ("SchemaRegistryUnavailable", "spec.decode.registry"),
        ("Unavailable", "spec.publish[0].options.url"),
    ]
    assert all(fault["may_pass"] for fault in faults)
    assert f"{address}: connection refused" in faults[0]["message"]
    assert [path for path in (tmp_path / "landed").rglob("*") if path.is_file()] == []


@pytest.fixture
def refusing() -> Iterator[str]:
    """An address where nothing listens."""
    with socket.socket() as taken:
        taken.bind(("127.0.0.1", 0))
        yield f"127.0.0.1:{taken.getsockname()[1]}"


def fields_of(capsys: pytest.CaptureFixture[str], file: Path, *options: str) -> list[str]:
    """The fields that ``check`` names, one for each fault."""
    capsys.readouterr()
    main(["check", str(file), "-o", "json", *options])
    faults = json.loads(capsys.readouterr().out)["faults"]
    return [fault["message"].partition(": ")[0] for fault in faults]


def test_wrong_options_hide_no_server(
    written: Callable[..., Path], capsys: pytest.CaptureFixture[str], refusing: str, tmp_path: Path
) -> None:
    owner = tmp_path / "landed" / "_landfall" / "owner.json"
    owner.parent.mkdir(parents=True)
    owner.write_text('{"owner": "default/another"}')
    file = written(
        {
            "spec.source.kafka.bootstrapServers": refusing,
            "spec.decode": {"format": "Avro", "registry": {"urls": [f"http://{refusing}"]}},
            "spec.transforms": [SELECT],
            "spec.publish": [
                {
                    "name": "hook",
                    "type": "Webhook",
                    "options": {"url": f"http://{refusing}", "x": 1},
                }
            ],
        }
    )

    assert fields_of(capsys, file) == [
        "spec.transforms[0].options",
        "spec.publish[0].options",
        "spec.source.kafka.bootstrapServers",
        "spec.output.url",
        "spec.decode.registry",
        "spec.publish[0].options.url",
    ]


@pytest.mark.parametrize(
    ("wrong", "silent"),
    [
        ({"spec.source.kafka.properties": {"security.protcol": "SSL"}}, "spec.source"),
        ({"spec.output.url": "s3://l/c", "spec.output.s3": KEYS}, "spec.output"),
        (
            {"spec.decode": {"format": "Avro", "registry": {"urls": ["http://r"], **OF_REGISTRY}}},
            "spec.decode",
        ),
    ],
    ids=["kafka", "store", "registry"],
)
def test_a_server_is_not_asked_with_what_is_known_to_be_wrong(
    written: Callable[..., Path],
    capsys: pytest.CaptureFixture[str],
    monkeypatch: pytest.MonkeyPatch,
    refusing: str,
    wrong: dict[str, object],
    silent: str,
    tmp_path: Path,
) -> None:
    monkeypatch.setenv("LANDFALL_SECRETS", str(tmp_path / "none"))
    file = written({"spec.source.kafka.bootstrapServers": refusing, **wrong})

    found = fields_of(capsys, file)

    assert sum(field.startswith(silent) for field in found) == 1
    assert ("spec.source.kafka.bootstrapServers" in found) == (silent != "spec.source")


@pytest.mark.parametrize(
    ("wrong", "expected"),
    [
        (
            {"spec.uploadPolicy.maxage": "5m", "spec.transforms": [SELECT]},
            ["spec.uploadPolicy.maxage", "spec.transforms[0].options", *KAFKA_AND_STORE],
        ),
        ({"spec.replicas": "${NOWHERE_REPLICAS}"}, ["spec.replicas", *KAFKA_AND_STORE]),
        ({"spec.decode.format": 3}, ["spec.decode.format", *KAFKA_AND_STORE]),
        ({"spec.output.formt": "Json"}, ["spec.output.formt", KAFKA_AND_STORE[0]]),
        ({"spec.source.kafka.topic": "a"}, ["spec.source.kafka.topic", KAFKA_AND_STORE[1]]),
        (
            {"spec.ledger": {"ulr": "s3://l/l"}},
            ["spec.ledger.url", "spec.ledger.ulr", KAFKA_AND_STORE[0]],
        ),
        (  # whether the step fits records is not known without the decoder's columns
            {"spec.decode": {"format": "Json", "timestmap": 1}, "spec.transforms": [SELECT]},
            ["spec.decode.timestmap", *KAFKA_AND_STORE],
        ),
        ({"kind": "ConsumerGruop"}, ["kind"]),
    ],
    ids=["policy", "variable", "decode", "output", "source", "ledger", "stages", "kind"],
)
def test_a_wrong_section_hides_no_other_one(
    written: Callable[..., Path],
    capsys: pytest.CaptureFixture[str],
    refusing: str,
    wrong: dict[str, object],
    expected: list[str],
    tmp_path: Path,
) -> None:
    owner = tmp_path / "landed" / "_landfall" / "owner.json"
    owner.parent.mkdir(parents=True)
    owner.write_text('{"owner": "default/another"}')
    file = written({"spec.source.kafka.bootstrapServers": refusing, **wrong})

    assert fields_of(capsys, file) == expected
    assert fields_of(capsys, file, "--offline") == [
        field for field in expected if field not in KAFKA_AND_STORE
    ]


def test_the_output_root_of_another_group_is_a_fault(
    written: Callable[..., Path], capsys: pytest.CaptureFixture[str], tmp_path: Path
) -> None:
    owner = tmp_path / "landed" / "_landfall" / "owner.json"
    owner.parent.mkdir(parents=True)
    owner.write_text('{"owner": "default/another"}')
    feed = {"files": [{"topic": "hits", "url": f"file://{tmp_path}/in"}]}
    (tmp_path / "in").mkdir()

    assert main(["check", str(written({"spec.source": feed}))]) == ExitCode.USAGE

    assert "belongs to default/another" in capsys.readouterr().out


def test_run_refuses_the_same_faults_before_it_looks_for_java(
    written: Callable[..., Path],
    capsys: pytest.CaptureFixture[str],
    monkeypatch: pytest.MonkeyPatch,
    tmp_path: Path,
) -> None:
    java = tmp_path / "bin" / "java"
    java.parent.mkdir()
    java.write_text(f"#!/bin/sh\ntouch {tmp_path}/started\nexec sleep 60\n")
    java.chmod(0o755)
    monkeypatch.setenv("PATH", f"{java.parent}{os.pathsep}{os.environ['PATH']}")
    monkeypatch.delenv("JAVA_HOME", raising=False)
    assert shutil.which("java") == str(java)
    file = written(WRONG)
    main(["check", "--offline", str(file)])
    checked = capsys.readouterr().out.splitlines()

    assert main(["run", str(file)]) == ExitCode.USAGE

    refused = capsys.readouterr().err
    assert all(line.removeprefix(f"{file}: ") in refused for line in checked)
    assert not (tmp_path / "started").exists()


@pytest.mark.parametrize(
    "example",
    [
        path
        for path in sorted(EXAMPLES.rglob("*.yaml"))
        if "kind: ConsumerGroup" in path.read_text()
    ],
    ids=lambda path: str(path.relative_to(EXAMPLES)),
)
def test_every_example_is_right(
    example: Path,
    capsys: pytest.CaptureFixture[str],
    monkeypatch: pytest.MonkeyPatch,
    tmp_path: Path,
) -> None:
    servers = {
        "LANDFALL_KAFKA": "127.0.0.1:9092",
        "LANDFALL_S3": "http://127.0.0.1:9000",
        "LANDFALL_SCHEMA_REGISTRY": "http://127.0.0.1:8081",
    }
    for name, value in servers.items():
        monkeypatch.setenv(name, value)
    (tmp_path / "s3").mkdir()
    for key in ("AWS_ACCESS_KEY_ID", "AWS_SECRET_ACCESS_KEY"):
        (tmp_path / "s3" / key).write_text("x")
    monkeypatch.setenv("LANDFALL_SECRETS", str(tmp_path))
    # Where its page runs it.
    is_in_root = "examples/" in example.read_text()
    monkeypatch.chdir(EXAMPLES.parent if is_in_root else example.parent)
    file = tmp_path / example.name
    file.write_text(Template(example.read_text()).safe_substitute(servers))  # as the demo does

    assert main(["check", "--offline", str(file)]) == ExitCode.OK, capsys.readouterr().out


@pytest.mark.parametrize(
    ("fields", "keys", "message"),
    [
        (
            {"output.url": "s3://l/c", "output.s3": {"credentialsSecretRef": {"name": "keys"}}},
            {"AWS_ACCESS_KEY_ID": "a"},
            "spec.output.s3.credentialsSecretRef: secret 'keys' lacks AWS_SECRET_ACCESS_KEY",
        ),
        (
            {
                "output.url": "s3://l/c",
                "output.s3": {
                    "proxy": "http://proxy:3128",
                    "credentialsSecretRef": {"name": "keys"},
                },
            },
            {"PROXY_USER": "me", "AWS_SECRET_ACCESS_KEY": "b"},
            "spec.output.s3.credentialsSecretRef: secret 'keys' lacks AWS_ACCESS_KEY_ID",
        ),
        (
            {"output.url": "gs://l/c", "output.gcs": {"credentialsSecretRef": {"name": "keys"}}},
            {"key.jsn": "{}"},
            "spec.output.gcs.credentialsSecretRef: secret 'keys' lacks key.json",
        ),
        (
            {
                "output.url": "abfss://c@a.dfs.core.windows.net/x",
                "output.azure": {"credentialsSecretRef": {"name": "keys"}},
            },
            {"AZURE_TENANT_ID": "t", "AZURE_CLIENT_ID": "c"},
            (
                "spec.output.azure.credentialsSecretRef: secret 'keys' has neither "
                "AZURE_STORAGE_KEY nor AZURE_STORAGE_SAS_TOKEN, and lacks AZURE_CLIENT_SECRET"
            ),
        ),
        (
            {"ledger": {"url": "s3://l/l", "s3": {"credentialsSecretRef": {"name": "keys"}}}},
            {},
            (
                "spec.ledger.s3.credentialsSecretRef: secret 'keys' lacks AWS_ACCESS_KEY_ID "
                "and AWS_SECRET_ACCESS_KEY"
            ),
        ),
        (
            {
                "decode": {
                    "format": "Avro",
                    "registry": {"urls": ["http://r:8081"], "secretRef": {"name": "keys"}},
                }
            },
            {"user": "me"},
            (
                "spec.decode.registry.secretRef: secret 'keys' has none of token, username, "
                "tls.crt, ca.crt"
            ),
        ),
        (
            publisher("Glue", database="d"),
            {"AWS_ACCESS_KEY_ID": "a"},
            "spec.publish[0].secretRef: secret 'keys' lacks AWS_SECRET_ACCESS_KEY",
        ),
        (
            publisher("BigQuery", project="p", dataset="d"),
            {"key.json": "{}"},
            "spec.publish[0].secretRef: secret 'keys' lacks credentials.json",
        ),
        (
            publisher("Airflow", url="http://a:8080"),
            {"user": "me"},
            (
                "spec.publish[0].secretRef: secret 'keys' has none of token, username, "
                "tls.crt, ca.crt"
            ),
        ),
        (
            publisher("Webhook", url="http://a:8080"),
            {"key": "me"},
            (
                "spec.publish[0].secretRef: secret 'keys' has none of secret, secret-old, token, "
                "tls.crt, ca.crt"
            ),
        ),
    ],
)
def test_a_missing_key_of_a_secret_is_named_with_its_field(
    written: Callable[..., Path],
    tmp_path: Path,
    monkeypatch: pytest.MonkeyPatch,
    capsys: pytest.CaptureFixture[str],
    fields: dict[str, object],
    keys: dict[str, str],
    message: str,
) -> None:
    monkeypatch.setenv("LANDFALL_SECRETS", str(tmp_path / "secrets"))
    (tmp_path / "secrets" / "keys").mkdir(parents=True)
    for key, value in keys.items():
        (tmp_path / "secrets" / "keys" / key).write_text(value)
    file = written({f"spec.{path}": value for path, value in fields.items()})

    assert main(["check", "--offline", str(file)]) == ExitCode.USAGE

    assert capsys.readouterr().out == f"{file}: {message}\n"
