"""The auditor logs in as the group file and Secrets say; no message has a value of a Secret."""

import re
from collections.abc import Callable, Mapping
from datetime import timedelta
from pathlib import Path
from typing import Any

import pytest
from azure.core.credentials import AzureNamedKeyCredential, AzureSasCredential
from botocore.awsrequest import AWSPreparedRequest, AWSResponse

from landfall_audit.buckets import open_bucket
from landfall_audit.errors import AuditReason, AuditRetry, AuditStalled, AuditStoreDenied
from landfall_audit.login import s3 as login_s3
from landfall_audit.login.azure import _credential
from landfall_audit.login.kafka import kafka_properties
from landfall_audit.login.s3 import s3_client, translate_errors
from landfall_audit.spec import AuditedGroup, OutputSection, S3Section

Secrets = Callable[..., None]
KEYS = {"AWS_ACCESS_KEY_ID": "key-1", "AWS_SECRET_ACCESS_KEY": "hush"}


@pytest.fixture
def secret(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Secrets:
    monkeypatch.setenv("LANDFALL_SECRETS", str(tmp_path))
    monkeypatch.setenv("AWS_EC2_METADATA_DISABLED", "true")
    for name in ("AWS_ACCESS_KEY_ID", "AWS_SECRET_ACCESS_KEY", "AWS_PROFILE"):
        monkeypatch.delenv(name, raising=False)

    def save(name: str, values: Mapping[str, str]) -> None:
        folder = tmp_path / name
        folder.mkdir(exist_ok=True)
        for key, value in values.items():
            (folder / key).write_text(f"{value}\n")

    return save


class NoBody:
    """The body of an answer that has none."""

    def stream(self) -> list[bytes]:
        return []


def access(**fields: Any) -> S3Section:
    return S3Section.model_validate({"endpoint": "http://127.0.0.1:1", "maxAttempts": 1, **fields})


def sent(settings: S3Section) -> list[AWSPreparedRequest]:
    """The requests that a client sends for one object; none reaches a server."""
    client, requests = s3_client(settings), list[AWSPreparedRequest]()

    def answer(request: AWSPreparedRequest, **_: Any) -> AWSResponse:
        requests.append(request)
        return AWSResponse(request.url, 200, {"Content-Length": "0"}, NoBody())

    client.meta.events.register("before-send.s3", answer)
    client.head_object(Bucket="logs", Key="a")
    return requests


# ------------------------------------------------------------------------------------- S3


def test_keys_of_a_secret_sign_requests(secret: Secrets) -> None:
    secret("s3", KEYS)

    (request,) = sent(access(credentialsSecretRef={"name": "s3"}, pathStyle=True, region="eu-1"))

    assert request.url == "http://127.0.0.1:1/logs/a"
    signed = request.headers["Authorization"]
    signed = signed.decode() if isinstance(signed, bytes) else signed
    assert re.search(r"Credential=key-1/\d+/eu-1/s3/", signed)


def test_keys_that_were_rotated_are_read_again(
    secret: Secrets, monkeypatch: pytest.MonkeyPatch
) -> None:
    # Keys are read again a quarter of an hour before they are taken for invalid.
    monkeypatch.setattr(login_s3, "_LIFETIME", timedelta(minutes=12))
    secret("s3", KEYS)
    client = s3_client(access(credentialsSecretRef={"name": "s3"}))
    credentials: Any = client._request_signer._credentials  # type: ignore[attr-defined]
    assert credentials.get_frozen_credentials().access_key == "key-1"

    secret("s3", {**KEYS, "AWS_ACCESS_KEY_ID": "key-2"})

    assert credentials.get_frozen_credentials().access_key == "key-2"


def test_who_pays_is_said(secret: Secrets) -> None:
    secret("s3", KEYS)

    (request,) = sent(access(credentialsSecretRef={"name": "s3"}, requesterPays=True))

    assert request.headers["x-amz-request-payer"] in {"requester", b"requester"}


def test_the_login_of_a_proxy_is_in_the_secret(
    secret: Secrets, monkeypatch: pytest.MonkeyPatch
) -> None:
    secret("proxy", {"PROXY_USER": "me@x", "PROXY_PASSWORD": "hu:sh"})
    for name, value in KEYS.items():
        monkeypatch.setenv(name, value)

    client = s3_client(access(credentialsSecretRef={"name": "proxy"}, proxy="http://proxy:3128"))

    assert client.meta.config.proxies["http"] == "http://me%40x:hu%3Ash@proxy:3128"  # type: ignore[attr-defined]


def test_fips_and_dual_stack_choose_an_endpoint_of_aws(secret: Secrets) -> None:
    secret("s3", KEYS)
    settings = S3Section.model_validate(
        {
            "credentialsSecretRef": {"name": "s3"},
            "region": "us-east-1",
            "useFips": True,
            "useDualStack": True,
        }
    )

    assert "fips.dualstack" in s3_client(settings).meta.endpoint_url


def test_a_role_needs_credentials(secret: Secrets) -> None:
    role = {"roleArn": "arn:aws:iam::1:role/x"}

    with pytest.raises(
        AuditStoreDenied, match="no credentials to assume role arn:aws:iam::1:role/x"
    ):
        s3_client(access(assumeRole=role, region="us-east-1"))


def test_a_server_that_is_not_there_is_tried_again_later(secret: Secrets) -> None:
    secret("s3", KEYS)
    client = s3_client(access(credentialsSecretRef={"name": "s3"}, connectTimeout="1s"))

    with (
        pytest.raises(AuditRetry, match=r"^list s3://logs: ") as failed,
        translate_errors("list", "s3://logs"),
    ):
        client.list_objects_v2(Bucket="logs")

    assert not isinstance(failed.value, AuditStoreDenied)
    assert "hush" not in str(failed.value)


# ---------------------------------------------------------------------------- all stores

PLACES = {
    "s3": "s3://logs/x",
    "azure": "abfss://logs@acme.dfs.core.windows.net/x",
    "gcs": "gs://logs/x",
    "hdfs": "hdfs://namenode:8020/x",
}


def place(section: str, **fields: Any) -> OutputSection:
    own = {"credentialsSecretRef": {"name": "login"}, **fields}
    return OutputSection.model_validate({"url": PLACES[section], section: own})


@pytest.mark.parametrize("section", PLACES)
def test_a_secret_that_is_not_there_is_named(section: str, secret: Secrets) -> None:
    with pytest.raises(AuditStalled, match="secret 'login'") as stalled:
        open_bucket(place(section))

    assert stalled.value.reason is AuditReason.SPEC_INVALID


@pytest.mark.parametrize("section", ["s3", "azure", "gcs"])
def test_a_secret_without_its_keys_is_named(section: str, secret: Secrets) -> None:
    secret("login", {"other": "hush"})

    with pytest.raises(AuditStalled, match="secret 'login' lacks ") as stalled:
        open_bucket(place(section))

    assert "hush" not in str(stalled.value)


def test_a_principal_needs_its_keytab(secret: Secrets) -> None:
    secret("login", {"core-site.xml": "<configuration/>"})

    with pytest.raises(AuditStalled, match=r"there is no .*/login/keytab"):
        open_bucket(place("hdfs", principal="me@ACME"))


def test_a_key_of_google_that_is_none_is_not_quoted(secret: Secrets) -> None:
    secret("login", {"key.json": '{"private_key": "hush"'})

    with pytest.raises(AuditStalled, match="is not the key file of a service account") as stalled:
        open_bucket(place("gcs"))

    assert "hush" not in str(stalled.value)


@pytest.mark.parametrize(
    ("values", "kind"),
    [
        ({"AZURE_STORAGE_KEY": "aHVzaA=="}, AzureNamedKeyCredential),
        ({"AZURE_STORAGE_SAS_TOKEN": "?sig=hush"}, AzureSasCredential),
    ],
)
def test_the_credentials_of_azure(values: Mapping[str, str], kind: type, secret: Secrets) -> None:
    secret("login", values)

    bucket: Any = open_bucket(place("azure"))

    assert bucket.client.url.startswith("https://acme.blob.core.windows.net/logs")
    assert isinstance(_credential(place("azure").azure, "acme"), kind)


def test_no_token_is_sent_without_tls(secret: Secrets) -> None:
    application = ("AZURE_TENANT_ID", "AZURE_CLIENT_ID", "AZURE_CLIENT_SECRET")
    secret("login", dict.fromkeys(application, "11111111-1111-1111-1111-111111111111"))

    with pytest.raises(AuditStoreDenied, match="is not https, which tokens need"):
        open_bucket(place("azure", endpoint="http://127.0.0.1:1/acme"))


# ---------------------------------------------------------------------------------- Kafka


def group(**kafka: Any) -> AuditedGroup:
    return AuditedGroup.model_validate(
        {
            "apiVersion": "landfall.dev/v1alpha1",
            "kind": "ConsumerGroup",
            "metadata": {"name": "shop"},
            "spec": {
                "source": {"kafka": {"bootstrapServers": "kafka:9092", **kafka}},
                "output": {"url": "file:///out"},
            },
        }
    )


def test_properties_of_the_secret_count_more_than_the_spec(secret: Secrets) -> None:
    secret("kafka", {"properties": "a.b=1\n# no\nsasl.password=hush\n", "c.d": "2"})
    made = group(properties={"a.b": 0, "e": True, "f": None}, propertiesSecretRef={"name": "kafka"})

    assert kafka_properties(made) == {
        "a.b": "1",
        "c.d": "2",
        "e": "true",
        "sasl.password": "hush",
        "bootstrap.servers": "kafka:9092",
        "group.id": "default.shop",
    }


def test_a_line_that_is_no_property_is_named_by_its_number(secret: Secrets) -> None:
    secret("kafka", {"properties": "a=1\nhush\n"})

    with pytest.raises(AuditStalled, match="line 2: not key=value") as stalled:
        kafka_properties(group(propertiesSecretRef={"name": "kafka"}))

    assert "hush" not in str(stalled.value)


def test_the_function_that_gives_tokens_is_imported() -> None:
    assert (
        kafka_properties(group(properties={"oauth_cb": "json:dumps"}))["oauth_cb"].__name__
        == "dumps"
    )
    with pytest.raises(AuditStalled, match=r"oauth_cb: cannot import 'no\.such:thing'"):
        kafka_properties(group(properties={"oauth_cb": "no.such:thing"}))
