"""Secrets that would be sent over plain HTTP."""

import logging
from pathlib import Path
from typing import Any

import pytest
import yaml

from landfall.api.contract import ExitCode
from landfall.api.plain_http import plain_http
from landfall.api.spec import parse_group
from landfall.cli import main
from landfall.driver.process.run import RunOptions, run_group
from tests.support.kubernetes.groups import document

SECRET = {"name": "login"}
WARNING = "its secret is sent to http://server:1 without encryption; use https"


def registry(url: str, **more: Any) -> dict[str, Any]:
    return {"urls": ["https://other:1", url], **more}


def avro(url: str, **more: Any) -> dict[str, Any]:
    return {"decode__format": "Avro", "decode__registry": registry(url, **more)}


def hook(url: str, **more: Any) -> dict[str, Any]:
    return {"publish": [{"name": "a", "type": "Webhook", "options": {"url": url}, **more}]}


def blobs(url: str, **more: Any) -> dict[str, Any]:
    output = {"url": "abfss://c@a.dfs.core.windows.net/x", "azure": {"endpoint": url, **more}}
    return {"output": {**output, "format": "Json"}}


def files(url: str, **more: Any) -> dict[str, Any]:
    gcs = {"endpoint": url, **more}
    return {"source": {"files": [{"topic": "in", "url": "gs://b/in", "gcs": gcs}]}}


IN_CREDENTIALS = {"credentialsSecretRef": SECRET}
PLACES = [
    (avro, {"secretRef": SECRET}, "spec.decode.registry.urls"),
    (hook, {"secretRef": SECRET}, "spec.publish[0].options.url"),
    (blobs, IN_CREDENTIALS, "spec.output.azure.endpoint"),
    (files, IN_CREDENTIALS, "spec.source.files[0].gcs.endpoint"),
]


def fields(**spec: Any) -> list[tuple[str, str]]:
    return [*plain_http(parse_group(document(**spec)).spec)]


@pytest.mark.parametrize(
    ("make", "secret", "field"), PLACES, ids=["registry", "hook", "azure", "gcs"]
)
def test_a_secret_over_plain_http_is_warned_of(make: Any, secret: Any, field: str) -> None:
    assert fields(**make("http://server:1", **secret)) == [(field, WARNING)]
    assert fields(**make("https://server:1", **secret)) == []
    assert fields(**make("http://127.0.0.1:1", **secret)) == []
    assert fields(**make("http://[::1]:1", **secret)) == []
    assert fields(**make("http://localhost.example", **secret)) != []
    assert fields(**make("http://server:1")) == []


def test_keys_and_topics_have_registries_of_their_own() -> None:
    key = {"format": "Avro", "registry": registry("http://server:1", secretRef=SECRET)}
    topics = [{"pattern": "b", "decode": {"key": key}}]

    assert fields(decode__format="Json", topics=topics) == [
        ("spec.topics[0].decode.key.registry.urls", WARNING)
    ]


def test_a_signed_request_shows_no_secret() -> None:
    output = {"url": "s3://b", "format": "Json"}
    s3 = {"endpoint": "http://server:1", **IN_CREDENTIALS}

    assert fields(output={**output, "s3": s3}) == []


def test_run_and_explain_warn(
    tmp_path: Path,
    caplog: pytest.LogCaptureFixture,
    capsys: pytest.CaptureFixture[str],
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    (tmp_path / "secrets/login").mkdir(parents=True)
    (tmp_path / "secrets/login/token").write_text("t")
    monkeypatch.setenv("LANDFALL_SECRETS", str(tmp_path / "secrets"))
    spec = document(**hook("http://server:1", secretRef=SECRET), state="Suspended")
    file = tmp_path / "group.yaml"
    file.write_text(yaml.safe_dump(spec))

    with caplog.at_level(logging.WARNING):
        assert run_group(parse_group(spec), RunOptions()) == ExitCode.OK
    assert main(["explain", str(file), "clicks"]) == ExitCode.OK

    assert [getattr(record, "why", "") for record in caplog.records][:1] == [WARNING]
    assert f"# warning: spec.publish[0].options.url: {WARNING}" in capsys.readouterr().out
