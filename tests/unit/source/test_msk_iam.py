"""Tokens for Amazon MSK's IAM are those of Amazon's own signer, and ``oauth_cb`` names them."""

import base64
from datetime import UTC, datetime
from urllib.parse import parse_qs, urlsplit

import pytest
from confluent_kafka import Consumer

from landfall.errors import Reason, Stalled
from landfall.source.clients import PythonClient, open_client
from landfall.source.kafka_errors import ErrorTracker
from landfall.source.msk_iam import token
from landfall.source.properties import create_client

NAMED = {
    "bootstrap.servers": "nobody:1",
    "group.id": "g",
    "security.protocol": "SASL_SSL",
    "sasl.mechanism": "OAUTHBEARER",
}


@pytest.fixture(autouse=True)
def _credentials(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("AWS_ACCESS_KEY_ID", "AKIDEXAMPLE")
    monkeypatch.setenv("AWS_SECRET_ACCESS_KEY", "wJalrXUtnFEMI/K7MDENG")
    monkeypatch.setenv("AWS_SESSION_TOKEN", "session/token")
    monkeypatch.delenv("AWS_REGION", raising=False)


def test_a_token_is_a_signed_url_of_the_action_connect() -> None:
    before = datetime.now(UTC).timestamp()

    text, expires = token("region=eu-central-1")

    url = urlsplit(base64.urlsafe_b64decode(text + "=" * (-len(text) % 4)).decode())
    query = {name: values[0] for name, values in parse_qs(url.query).items()}
    assert (url.scheme, url.netloc, url.path) == ("https", "kafka.eu-central-1.amazonaws.com", "/")
    assert query["Action"] == "kafka-cluster:Connect"
    assert query["X-Amz-Credential"].endswith("/eu-central-1/kafka-cluster/aws4_request")
    assert query["X-Amz-Expires"] == "900"
    assert query["X-Amz-Security-Token"] == "session/token"
    assert query["User-Agent"] == "landfall"
    assert len(query["X-Amz-Signature"]) == 64
    assert 899 <= expires - before <= 905


def test_the_region_may_be_that_of_the_environment(monkeypatch: pytest.MonkeyPatch) -> None:
    with pytest.raises(ValueError, match="expected region="):
        token("")
    monkeypatch.setenv("AWS_REGION", "us-east-2")

    text, _ = token("")

    assert b"kafka.us-east-2.amazonaws.com" in base64.urlsafe_b64decode(text + "==")


@pytest.mark.parametrize(
    ("name", "message"),
    [
        ("no.such:function", "cannot import 'no.such:function'"),
        ("landfall.source.msk_iam:nothing", "cannot import"),
        ("landfall.source.msk_iam", "expected package.module:function"),
        ("landfall.source.msk_iam:_SECONDS", "expected package.module:function"),
    ],
)
def test_a_name_that_is_no_function_is_refused(name: str, message: str) -> None:
    with pytest.raises(Stalled, match=message) as refused:
        create_client(Consumer, {**NAMED, "oauth_cb": name})

    assert refused.value.reason is Reason.SPEC_INVALID
    assert "spec.source.kafka.properties.oauth_cb" in str(refused.value)


def test_a_client_with_a_function_is_of_confluent_kafka() -> None:
    properties = {**NAMED, "oauth_cb": "landfall.source.msk_iam:token"}

    client = open_client({**properties, "sasl.oauthbearer.config": "region=x"}, ErrorTracker())

    assert isinstance(client, PythonClient)
    client.close()
