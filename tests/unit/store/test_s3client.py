"""Who the S3 client says it is, and for how long it believes it."""

from collections import Counter
from datetime import UTC, datetime, timedelta
from pathlib import Path
from typing import Any

import pytest

from landfall import __version__
from landfall.api.spec import S3, AssumeRole, SecretRef
from landfall.errors import StoreDenied
from landfall.store.s3.client import s3_client
from landfall.store.s3.store import S3Store
from tests.support.stores.scripted import Answer, error, scripted


@pytest.fixture(autouse=True)
def no_aws(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    for name in ("AWS_ACCESS_KEY_ID", "AWS_SECRET_ACCESS_KEY", "AWS_SESSION_TOKEN", "AWS_PROFILE"):
        monkeypatch.delenv(name, raising=False)
    monkeypatch.setenv("AWS_EC2_METADATA_DISABLED", "true")
    monkeypatch.setenv("AWS_SHARED_CREDENTIALS_FILE", str(tmp_path / "credentials"))
    monkeypatch.setenv("AWS_CONFIG_FILE", str(tmp_path / "config"))
    monkeypatch.setenv("LANDFALL_SECRETS", str(tmp_path))


def write_secret(folder: Path, **values: str) -> None:
    (folder / "s3").mkdir(exist_ok=True)
    for name, value in values.items():
        (folder / "s3" / name).write_text(value)


def signed_as(client: Any) -> str:
    """The access key a request is signed with."""
    url: str = client.generate_presigned_url("get_object", {"Bucket": "logs", "Key": "a"})
    return (
        url.partition("X-Amz-Credential=")[2].partition("%2F")[0]
        or url.partition("AWSAccessKeyId=")[2].partition("&")[0]
    )


def client_of(**settings: Any) -> Any:
    return s3_client(S3(endpoint="http://127.0.0.1:1", path_style=True, **settings), Counter())


def test_without_anything_said_the_environment_is_asked(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("AWS_ACCESS_KEY_ID", "from-environment")
    monkeypatch.setenv("AWS_SECRET_ACCESS_KEY", "x")

    assert signed_as(client_of()) == "from-environment"


def test_a_profile_is_taken(tmp_path: Path) -> None:
    (tmp_path / "credentials").write_text(
        "[other]\naws_access_key_id = from-profile\naws_secret_access_key = x\n"
    )

    assert signed_as(client_of(profile="other")) == "from-profile"


def test_a_secret_comes_before_the_environment(
    monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    monkeypatch.setenv("AWS_ACCESS_KEY_ID", "from-environment")
    monkeypatch.setenv("AWS_SECRET_ACCESS_KEY", "x")
    write_secret(tmp_path, AWS_ACCESS_KEY_ID="from-secret\n", AWS_SECRET_ACCESS_KEY="x")

    assert signed_as(client_of(credentials_secret_ref=SecretRef(name="s3"))) == "from-secret"


def test_a_rotated_secret_is_taken_up(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    monkeypatch.setattr(
        "landfall.store.s3.client.SECRET_LIFETIME", timedelta(minutes=1)
    )  # within botocore's renewal time
    write_secret(tmp_path, AWS_ACCESS_KEY_ID="first", AWS_SECRET_ACCESS_KEY="x")
    client = client_of(credentials_secret_ref=SecretRef(name="s3"))
    before = signed_as(client)

    write_secret(tmp_path, AWS_ACCESS_KEY_ID="second")

    assert (before, signed_as(client)) == ("first", "second")


def test_a_secret_without_its_keys_is_named_and_not_shown(tmp_path: Path) -> None:
    write_secret(tmp_path, AWS_ACCESS_KEY_ID="hidden", password="hidden")
    store = S3Store(
        "logs", "", S3(endpoint="http://127.0.0.1:1", credentials_secret_ref=SecretRef(name="s3"))
    )

    with pytest.raises(StoreDenied, match=r"^secret 's3' lacks AWS_SECRET_ACCESS_KEY$"):
        store.read("slots/0")


def test_no_credentials_at_all_are_a_refusal() -> None:
    store = S3Store("logs", "", S3(endpoint="http://127.0.0.1:1", max_attempts=1))

    with pytest.raises(
        StoreDenied, match=r"^open s3://logs/slots/0: Unable to locate credentials$"
    ):
        store.read("slots/0")


def test_a_profile_that_is_not_there_is_a_refusal() -> None:
    with pytest.raises(StoreDenied, match="nobody"):
        S3Store("logs", "", S3(profile="nobody"))


def assumed(name: str, valid_for: timedelta) -> Answer:
    expires = (datetime.now(UTC) + valid_for).strftime("%Y-%m-%dT%H:%M:%SZ")
    return Answer(
        200,
        f"<AssumeRoleResponse><AssumeRoleResult><Credentials><AccessKeyId>{name}</AccessKeyId><SecretAccessKey>x"
        f"</SecretAccessKey><SessionToken>token</SessionToken><Expiration>{expires}</Expiration></Credentials>"
        "</AssumeRoleResult></AssumeRoleResponse>".encode(),
    )


def test_a_role_is_taken_with_the_secret_and_again_before_it_ends(
    monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    write_secret(tmp_path, AWS_ACCESS_KEY_ID="source", AWS_SECRET_ACCESS_KEY="x")
    answers = [
        assumed("first-role", timedelta(minutes=1)),
        assumed("second-role", timedelta(hours=1)),
    ]
    role = AssumeRole(
        role_arn="arn:aws:iam::1:role/lander", session_name="clicks", external_id="tenant-1"
    )

    with scripted(answers) as sts:
        monkeypatch.setenv("AWS_ENDPOINT_URL_STS", sts.endpoint)
        client = client_of(credentials_secret_ref=SecretRef(name="s3"), assume_role=role)
        names = [signed_as(client) for _ in range(3)]

    assert names == ["first-role", "second-role", "second-role"]
    assert len(sts.asked) == 2
    assert all("Credential=source/" in asked.headers["authorization"] for asked in sts.asked)


def test_a_role_without_credentials_to_take_it_with_is_a_refusal() -> None:
    role = AssumeRole(role_arn="arn:aws:iam::1:role/lander")

    with pytest.raises(
        StoreDenied, match="no credentials to assume role arn:aws:iam::1:role/lander with"
    ):
        S3Store("logs", "", S3(assume_role=role))


@pytest.mark.parametrize(
    "refusal", [error(403, "InvalidAccessKeyId"), error(400, "ExpiredToken"), Answer(403)]
)
def test_a_rotated_secret_is_read_again_when_its_key_is_refused(
    tmp_path: Path, refusal: Answer
) -> None:
    write_secret(tmp_path, AWS_ACCESS_KEY_ID="old", AWS_SECRET_ACCESS_KEY="x")
    with scripted([Answer(200, b"1"), refusal, Answer(200, b"2")]) as server:
        settings = S3(
            endpoint=server.endpoint,
            path_style=True,
            credentials_secret_ref=SecretRef(name="s3"),
            max_attempts=1,
        )
        store = S3Store("logs", "", settings)
        store.read("slots/0")
        write_secret(tmp_path, AWS_ACCESS_KEY_ID="new")

        assert store.read("slots/1") == b"2"

    keys = [asked.headers["authorization"].split("/")[0] for asked in server.asked]
    assert [key.rpartition("=")[2] for key in keys] == ["old", "old", "new"]


def test_keys_that_have_not_changed_are_not_tried_twice(tmp_path: Path) -> None:
    write_secret(tmp_path, AWS_ACCESS_KEY_ID="old", AWS_SECRET_ACCESS_KEY="x")
    with scripted([error(403, "AccessDenied")]) as server:
        secret = SecretRef(name="s3")
        settings = S3(endpoint=server.endpoint, path_style=True, credentials_secret_ref=secret)

        with pytest.raises(StoreDenied, match="AccessDenied"):
            S3Store("logs", "", settings).read("slots/0")

    assert len(server.asked) == 1


def test_requests_name_landfall_and_its_version(tmp_path: Path) -> None:
    write_secret(tmp_path, AWS_ACCESS_KEY_ID="key", AWS_SECRET_ACCESS_KEY="x")
    with scripted([Answer(200, b"1")]) as server:
        secret = SecretRef(name="s3")
        settings = S3(endpoint=server.endpoint, path_style=True, credentials_secret_ref=secret)
        S3Store("logs", "", settings).read("slots/0")

    (asked,) = server.asked
    assert asked.headers["user-agent"].startswith(f"landfall/{__version__} ")
