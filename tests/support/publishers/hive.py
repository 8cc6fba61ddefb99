"""A Hive metastore, and what is in it."""

import uuid
from dataclasses import dataclass
from typing import Any
from urllib.parse import urlsplit


@dataclass(frozen=True)
class HiveServer:
    """A metastore, seen by its generated client.

    Attributes:
        uri: of the metastore.
    """

    uri: str

    def client(self) -> Any:
        """A new connection."""
        from pymetastore.hive_metastore import ThriftHiveMetastore
        from thrift.protocol import TBinaryProtocol
        from thrift.transport import TSocket, TTransport

        address = urlsplit(self.uri)
        transport = TTransport.TBufferedTransport(TSocket.TSocket(address.hostname, address.port))
        transport.open()
        return ThriftHiveMetastore.Client(TBinaryProtocol.TBinaryProtocol(transport))

    def create_database(self) -> str:
        """Create a database; returns its name, which no other test uses."""
        from pymetastore.hive_metastore import ttypes

        name = f"db_{uuid.uuid4().hex[:12]}"
        self.client().create_database(ttypes.Database(name=name))
        return name
