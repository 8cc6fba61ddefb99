"""An S3 server with users whose rights a bucket policy limits."""

import json
import re
import subprocess
from collections.abc import Callable, Mapping
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any

import boto3
import pytest
from botocore.exceptions import ClientError

from dev.servers import s3 as dev_s3
from dev.servers.s3 import S3
from dev.servers.server import Server, ServerKind
from tests.support.kafka.broker import Broker
from tests.support.landing.group import Scene
from tests.support.pages.markdown import DOCS, code
from tests.support.stores.s3 import Bucket, S3Server

PAGE = DOCS / "stores" / "s3.md"
PERSONAL_DATA = DOCS / "guides" / "personal-data.md"
_EXAMPLE = "arn:aws:s3:::logs"


def _command(
    programs: Path, home: Path, host: str, ports: tuple[int, ...]
) -> tuple[list[str], str]:
    argv, data = S3.command(programs, home, host, ports)
    users = home / "users"
    users.mkdir(exist_ok=True)
    at = argv.index("posix")
    return [*argv[:at], "--iam-dir", str(users), "--iam-cache-disable", *argv[at:]], data


S3_WITH_USERS: ServerKind = replace(S3, existing="LANDFALL_S3_WITH_USERS", command=_command)
"""The kind of this server."""


@dataclass(frozen=True)
class LimitedUser:
    """A user of a server, who has only the rights that the policy of a bucket grants."""

    name: str
    secret: str

    def create(self, endpoint: str) -> None:
        """Create the user on a server."""
        versitygw = str(dev_s3._build() / "versitygw")
        admin = ["--access", dev_s3.ACCESS_KEY, "--secret", dev_s3.SECRET_KEY]
        user = ["--access", self.name, "--secret", self.secret, "--role", "user"]
        where = ["--region", dev_s3.REGION, "--endpoint-url", endpoint]
        subprocess.run([versitygw, "admin", *admin, *where, "create-user", *user], check=True)

    def write_secret(self, folder: Path) -> None:
        """Make the user's keys a Secret in a folder of Secrets."""
        folder.mkdir()
        (folder / "AWS_ACCESS_KEY_ID").write_text(self.name)
        (folder / "AWS_SECRET_ACCESS_KEY").write_text(self.secret)

    def can_read(self, bucket: Bucket, key: str) -> bool:
        """Whether the server lets the user read an object."""
        client = boto3.client(
            "s3",
            endpoint_url=str(bucket.server),
            region_name=dev_s3.REGION,
            aws_access_key_id=self.name,
            aws_secret_access_key=self.secret,
        )
        try:
            client.get_object(Bucket=bucket.name, Key=key)["Body"].read()
        except ClientError as error:
            if error.response["Error"]["Code"] != "AccessDenied":
                raise
            return False
        return True

    def grant(self, bucket: Bucket, statements: list[dict[str, Any]]) -> None:
        """Replace the bucket's policy; statements are those of an IAM policy."""
        grant_all(bucket, {self.name: statements})


DRIVER = LimitedUser("driver", "drivers-secret")
"""The user of the group of ``scene_of_driver``."""


def scene_of_driver(
    kafka: Broker,
    own_server: Callable[[ServerKind], Server],
    secrets: Path,
    monkeypatch: pytest.MonkeyPatch,
    *others: LimitedUser,
) -> Scene:
    """A bucket whose group is ``DRIVER``; the test's own requests are the administrator's.

    Args:
        kafka: where its topics are.
        own_server: starts a server.
        secrets: the folder of Secrets, see ``server_with``.
        monkeypatch: sets the environment.
        others: more users of the server.
    """
    endpoint = own_server(S3_WITH_USERS).up().address
    assert endpoint
    for user in others:
        user.create(endpoint)
    server = server_with(DRIVER, endpoint, secrets, monkeypatch)
    return Scene(kafka, server.create_bucket())


def grant_all(bucket: Bucket, statements: Mapping[str, list[dict[str, Any]]]) -> None:
    """Replace the bucket's policy by what each user, by name, may do."""
    own = [
        {**each, "Principal": {"AWS": [name]}} for name, some in statements.items() for each in some
    ]
    text = json.dumps({"Version": "2012-10-17", "Statement": own})
    bucket.server.client.put_bucket_policy(
        Bucket=bucket.name, Policy=text.replace(_EXAMPLE, f"arn:aws:s3:::{bucket.name}")
    )


def documented_statements() -> list[dict[str, Any]]:
    """The policy that docs/stores/s3.md says a group needs."""
    (text,) = re.findall(r"```json\n(.*?)```", PAGE.read_text(), re.DOTALL)
    statements: list[dict[str, Any]] = json.loads(text)["Statement"]
    return statements


def personal_data_policies() -> dict[str, Any]:
    """The documents of docs/guides/personal-data.md, by what they are for."""
    documents = [json.loads(block.text) for block in code(PERSONAL_DATA, "json")]
    titles = ["Readers", "Readers of the ledger", "Driver", "Lifecycle"]
    return dict(zip(titles, documents, strict=True))


def without(statements: list[dict[str, Any]], action: str) -> list[dict[str, Any]]:
    """The statements without a right."""
    found = []
    for each in statements:
        actions = [each["Action"]] if isinstance(each["Action"], str) else each["Action"]
        if left := [name for name in actions if name != action]:
            found.append({**each, "Action": left})
    return found


def server_of(endpoint: str) -> S3Server:
    """The server, for its administrator."""
    return S3Server(endpoint, dev_s3._env(endpoint))


def server_with(
    driver: LimitedUser, endpoint: str, secrets: Path, monkeypatch: pytest.MonkeyPatch
) -> S3Server:
    """A server with this user, whose keys are the Secret ``s3`` in a folder of Secrets.

    The test's own requests are the administrator's.
    """
    driver.create(endpoint)
    driver.write_secret(secrets / "s3")
    monkeypatch.setenv("LANDFALL_SECRETS", str(secrets))
    server = server_of(endpoint)
    for name, value in server.env.items():
        monkeypatch.setenv(name, value)
    return server


def access_of(bucket: Bucket) -> dict[str, Any]:
    """The section ``s3`` of a group whose driver is the user of the Secret ``s3``."""
    return {
        "endpoint": str(bucket.server),
        "pathStyle": True,
        "credentialsSecretRef": {"name": "s3"},
        "maxAttempts": 1,
    }
