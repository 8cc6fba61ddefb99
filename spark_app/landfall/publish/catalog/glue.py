"""Publisher ``Glue``: landed folders become partitions of tables in an AWS Glue Data Catalog.

| option | default | meaning |
|---|---|---|
| ``region`` | of the store | region of the catalog |
| ``catalogId`` | of the credentials | account whose catalog it is |
| ``endpoint`` | AWS's | URL of the service, such as that of a VPC endpoint |
| ``scheme`` | ``s3`` | of locations in S3 |

The others are those of ``landfall.publish.catalog.options``. Credentials are those of the secret,
``AWS_ACCESS_KEY_ID``, ``AWS_SECRET_ACCESS_KEY`` and maybe ``AWS_SESSION_TOKEN``; without one, those
that landing uses (``spec.output.s3``).
"""

import time
from collections.abc import Mapping
from typing import Any

import boto3
from botocore.config import Config
from botocore.exceptions import BotoCoreError

from landfall.api.secret_keys import lacks
from landfall.errors import DestinationDenied
from landfall.pipeline.decoders.options import read_options
from landfall.publish import Publisher
from landfall.publish.catalog.glue_tables import GlueTables
from landfall.publish.catalog.options import TableOptions, check_scheme, step_publisher
from landfall.publish.context import Context
from landfall.publish.s3_access import MAX_AGE_SECONDS, s3_access

_TIMEOUT_SECONDS = 60
_KEYS = {
    "AWS_ACCESS_KEY_ID": "aws_access_key_id",
    "AWS_SECRET_ACCESS_KEY": "aws_secret_access_key",
    "AWS_SESSION_TOKEN": "aws_session_token",
}


class GlueOptions(TableOptions, frozen=True, kw_only=True):
    """Options of ``Glue``, beside those of every catalog of files."""

    region: str = ""
    catalog_id: str = ""
    endpoint: str = ""
    scheme: str = "s3"


class Glue:
    """The publisher type ``Glue``."""

    @staticmethod
    def of(options: Mapping[str, object], context: Context) -> Publisher:
        """Build the publisher; see ``PublisherType``."""
        read = read_options(options, GlueOptions)
        check_scheme(read.scheme)
        if read.endpoint and not read.endpoint.startswith(("https://", "http://")):
            raise ValueError(f"option endpoint: {read.endpoint!r} is not a URL")
        client = _Client(read, context)
        catalog = GlueTables(client, read.catalog_id, creates_databases=read.create_database)
        where = read.region, read.catalog_id, read.endpoint
        return step_publisher(read, context, catalog, read.scheme, where)


class _Client:
    """A client of Glue that is made anew every few minutes, with credentials as they are then."""

    def __init__(self, options: GlueOptions, context: Context) -> None:
        self._options, self._context = options, context
        self._client: Any = None
        self._since = 0.0

    def __call__(self) -> Any:
        if self._client is None or time.monotonic() - self._since > MAX_AGE_SECONDS:
            self._client, self._since = self._connected(), time.monotonic()
        return self._client

    def _connected(self) -> Any:
        region, keys = self._options.region, self._secret()
        if not keys or not region:
            access = s3_access(self._context.group.spec.output.s3)
            region = region or access.region
            own = access.key_id, access.secret_key, access.token
            keys = keys or dict(zip(_KEYS.values(), own, strict=True))
        session: Any = boto3.session.Session()
        try:
            return session.client(
                "glue",
                region_name=region or None,
                endpoint_url=self._options.endpoint or None,
                config=Config(
                    connect_timeout=_TIMEOUT_SECONDS,
                    read_timeout=_TIMEOUT_SECONDS,
                    retries={"mode": "standard", "total_max_attempts": 5},
                ),
                **{name: value or None for name, value in keys.items()},
            )
        except (BotoCoreError, ValueError) as error:
            raise DestinationDenied(f"Glue: {error}") from None

    def _secret(self) -> dict[str, str]:
        ref, secret = self._context.entry.secret_ref, self._context.secret()
        if ref is None:
            return {}
        if missing := lacks("Glue", secret):
            raise DestinationDenied(f"Glue: secret {ref.name!r} {missing}")
        return {name: secret[key] for key, name in _KEYS.items() if key in secret}
