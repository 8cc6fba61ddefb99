"""Publisher ``Hive``: landed folders become partitions of tables in a Hive metastore.

| option | default | meaning |
|---|---|---|
| ``metastore`` | | URIs such as ``thrift://metastore:9083``; the next one is asked if one is away |
| ``scheme`` | ``s3a`` | of locations in S3, as the engines that read know it |
| ``timeoutSeconds`` | 60 | how long to wait for a connection, and again for an answer |

The others are those of ``landfall.publish.catalog.options``.
"""

from collections.abc import Mapping
from urllib.parse import urlsplit

from landfall.pipeline.decoders.options import read_options
from landfall.publish import Publisher
from landfall.publish.catalog.metastore import Metastore
from landfall.publish.catalog.options import TableOptions, check_scheme, step_publisher
from landfall.publish.catalog.thrift_client import Address, ThriftClient
from landfall.publish.context import Context

_PORT = 9083
_MAX_TIMEOUT = 3600


class HiveOptions(TableOptions, frozen=True, kw_only=True):
    """Options of ``Hive``, beside those of every catalog of files."""

    metastore: str | list[str]
    scheme: str = "s3a"
    timeout_seconds: float = 60


class Hive:
    """The publisher type ``Hive``."""

    @staticmethod
    def of(options: Mapping[str, object], context: Context) -> Publisher:
        """Build the publisher; see ``PublisherType``."""
        read = read_options(options, HiveOptions)
        named = [read.metastore] if isinstance(read.metastore, str) else read.metastore
        addresses = [_address(uri.strip()) for each in named for uri in each.split(",")]
        if not addresses:
            raise ValueError("option metastore: is empty")
        if not 0 < read.timeout_seconds <= _MAX_TIMEOUT:
            raise ValueError(f"option timeoutSeconds: {read.timeout_seconds} is not 1 to 3600")
        check_scheme(read.scheme)
        client = ThriftClient(addresses, read.timeout_seconds)
        catalog = Metastore(client, creates_databases=read.create_database)
        where = tuple(f"{host}:{port}" for host, port in addresses)
        return step_publisher(read, context, catalog, read.scheme, where)


def _address(uri: str) -> Address:
    parsed = urlsplit(uri)
    try:
        port = parsed.port or _PORT
    except ValueError:
        port = 0
    if parsed.scheme != "thrift" or not parsed.hostname or not port or parsed.path.strip("/"):
        raise ValueError(f"option metastore: {uri!r} is not a URI such as thrift://metastore:9083")
    return parsed.hostname, port
