"""Which server S3 requests go to, by which proxy, and who pays for them."""

from collections import Counter
from pathlib import Path
from typing import Any

import pytest

from landfall.api.spec import S3, AssumeRole, SecretRef
from landfall.errors import StoreAway, StoreDenied
from landfall.store.s3.client import endpoint_of, proxy_of, s3_client
from landfall.store.s3.store import S3Store
from tests.support.stores.scripted import Answer, scripted
from tests.support.stores.scripted_s3 import OK, Script

pytestmark = pytest.mark.usefixtures("keys")


class _NotSentError(Exception):
    """A request was ready to be sent."""


def url_of(**settings: Any) -> str:
    """The URL of a request, which is not sent."""
    client = s3_client(S3(region="us-west-2", max_attempts=1, **settings), Counter())

    def stop(request: Any, **_: Any) -> None:
        raise _NotSentError(request.url)

    client.meta.events.register("before-send.s3", stop)
    with pytest.raises(_NotSentError) as stopped:
        client.get_object(Bucket="logs", Key="a")
    return str(stopped.value)


@pytest.mark.parametrize(
    ("settings", "url", "endpoint"),
    [
        ({}, "https://logs.s3.us-west-2.amazonaws.com/a", None),
        (
            {"use_fips": True},
            "https://logs.s3-fips.us-west-2.amazonaws.com/a",
            "https://s3-fips.us-west-2.amazonaws.com",
        ),
        (
            {"use_dual_stack": True},
            "https://logs.s3.dualstack.us-west-2.amazonaws.com/a",
            "https://s3.dualstack.us-west-2.amazonaws.com",
        ),
        (
            {"use_fips": True, "use_dual_stack": True},
            "https://logs.s3-fips.dualstack.us-west-2.amazonaws.com/a",
            "https://s3-fips.dualstack.us-west-2.amazonaws.com",
        ),
        (
            {"use_fips": True, "path_style": True},
            "https://s3-fips.us-west-2.amazonaws.com/logs/a",
            "https://s3-fips.us-west-2.amazonaws.com",
        ),
    ],
)
def test_endpoints_of_aws(settings: dict[str, Any], url: str, endpoint: str | None) -> None:
    assert url_of(**settings) == url
    assert endpoint_of(S3(region="us-west-2", **settings)) == endpoint


def test_without_a_field_the_environment_chooses(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("AWS_USE_FIPS_ENDPOINT", "true")

    assert url_of() == "https://logs.s3-fips.us-west-2.amazonaws.com/a"


def test_every_request_says_who_pays(script: Script) -> None:
    setting = script(OK, Answer(200, b"x"), OK, requester_pays=True)

    setting.store.create("slots/0", b"x")
    setting.store.read("slots/0")
    setting.store.put_part("data/1", "id-1", 1, b"body")

    assert [a.headers["x-amz-request-payer"] for a in setting.server.asked] == ["requester"] * 3
    assert "x-amz-request-payer" in setting.server.asked[0].headers["authorization"]


def test_nobody_pays_unasked(script: Script) -> None:
    setting = script(OK)

    setting.store.create("slots/0", b"x")

    assert "x-amz-request-payer" not in setting.server.asked[0].headers


# -------------------------------------------------------------------------------------------- proxy


def plain_store(**settings: Any) -> S3Store:
    """A store at a host that only a proxy can reach."""
    found = S3(endpoint="http://s3.invalid", path_style=True, max_attempts=1, **settings)
    return S3Store("logs", "root", found)


def test_requests_go_through_the_proxy(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("LANDFALL_SECRETS", str(tmp_path))
    (tmp_path / "proxy").mkdir()
    (tmp_path / "proxy" / "PROXY_USER").write_text("me@corp")
    (tmp_path / "proxy" / "PROXY_PASSWORD").write_text("a:b/c")

    with scripted([OK]) as proxy:
        plain_store(proxy=proxy.endpoint, credentials_secret_ref=SecretRef(name="proxy")).overwrite(
            "hint", b"x"
        )

    (asked,) = proxy.asked
    assert asked.path == "http://s3.invalid/logs/root/hint"
    assert asked.headers["proxy-authorization"] == "Basic bWVAY29ycDphOmIvYw=="  # me@corp:a:b/c
    assert "Credential=key/" in asked.headers["authorization"]  # those of the environment


def test_keys_may_be_in_the_same_secret(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("LANDFALL_SECRETS", str(tmp_path))
    (tmp_path / "both").mkdir()
    for name in ("PROXY_USER", "PROXY_PASSWORD", "AWS_ACCESS_KEY_ID", "AWS_SECRET_ACCESS_KEY"):
        (tmp_path / "both" / name).write_text(name.lower())

    with scripted([OK]) as proxy:
        plain_store(proxy=proxy.endpoint, credentials_secret_ref=SecretRef(name="both")).overwrite(
            "hint", b"x"
        )

    assert "Credential=aws_access_key_id/" in proxy.asked[0].headers["authorization"]


def test_a_proxy_without_a_login_gets_none() -> None:
    with scripted([OK]) as proxy:
        plain_store(proxy=proxy.endpoint).overwrite("hint", b"x")

    assert "proxy-authorization" not in proxy.asked[0].headers


def test_proxies_of_the_environment_are_used(monkeypatch: pytest.MonkeyPatch) -> None:
    with scripted([OK]) as proxy:
        monkeypatch.setenv("HTTP_PROXY", proxy.endpoint)
        plain_store().overwrite("hint", b"x")

    assert [asked.path for asked in proxy.asked] == ["http://s3.invalid/logs/root/hint"]


def test_no_proxy_exempts_a_server(monkeypatch: pytest.MonkeyPatch) -> None:
    with scripted([]) as proxy, scripted([OK]) as server:
        monkeypatch.setenv("HTTP_PROXY", proxy.endpoint)
        monkeypatch.setenv("NO_PROXY", "127.0.0.1")
        S3Store("logs", "root", S3(endpoint=server.endpoint, path_style=True)).overwrite(
            "hint", b"x"
        )

    assert (proxy.asked, len(server.asked)) == ([], 1)


def test_a_role_is_assumed_through_the_proxy(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("AWS_ENDPOINT_URL_STS", "http://sts.invalid")
    role = AssumeRole(role_arn="arn:aws:iam::1:role/lander")

    with scripted([]) as proxy, pytest.raises((StoreAway, StoreDenied)):
        plain_store(proxy=proxy.endpoint, assume_role=role).overwrite("hint", b"x")

    assert {asked.path for asked in proxy.asked} == {"http://sts.invalid/"}


@pytest.mark.parametrize(
    "answers", [[Answer(407)], [Answer(502, b"<html>")], []], ids=["407", "502", "hangs up"]
)
def test_no_message_shows_the_login(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, answers: list[Answer]
) -> None:
    monkeypatch.setenv("LANDFALL_SECRETS", str(tmp_path))
    (tmp_path / "proxy").mkdir()
    (tmp_path / "proxy" / "PROXY_USER").write_text("hidden-user")
    (tmp_path / "proxy" / "PROXY_PASSWORD").write_text("hidden-password")
    ref = SecretRef(name="proxy")

    with scripted(answers) as proxy, pytest.raises((StoreAway, StoreDenied)) as failed:
        plain_store(proxy=proxy.endpoint, credentials_secret_ref=ref).overwrite("hint", b"x")

    assert len(proxy.asked) == 1
    assert "overwrite s3://logs/root/hint" in str(failed.value)
    assert "hidden" not in str(failed.value)


def test_a_secret_that_is_not_there_is_a_refusal(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("LANDFALL_SECRETS", str(tmp_path))

    with pytest.raises(StoreDenied, match="no secret 'proxy'"):
        proxy_of(S3(proxy="http://proxy:3128", credentials_secret_ref=SecretRef(name="proxy")))
