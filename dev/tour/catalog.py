"""The tour's catalog, a Hive metastore: the group ``partition`` publishes to it, also after a stop.

It is a server of this machine, like Kafka and S3, at an address that pods can reach.
"""

import os
import shutil
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from string import Template
from typing import Any
from urllib.parse import urlsplit

import yaml

from dev.demo import flights, proof
from dev.demo.buckets import landed
from dev.servers.hive_metastore import BUCKETS
from dev.servers.server import Server
from dev.tour.kubectl import GROUPS, wait
from dev.tour.tour import EXAMPLES, NAMESPACE, Tour

GROUP, DATABASE = "partition", "nyc"


@dataclass
class TourMetastore:
    """The metastore, and the phases of the tour that need one."""

    tour: Tour
    server: Server
    uri: str = ""

    def start(self) -> None:
        """Start it without data; it knows the folders of the tour's bucket."""
        self.server.down(at_once=True)
        shutil.rmtree(self.server.home, ignore_errors=True)
        self._up()

    def publish(self) -> None:
        """Give the group its publisher, and wait until it keeps up."""
        patch = yaml.safe_load(
            Template((EXAMPLES / "catalog.yaml").read_text()).substitute(LANDFALL_HIVE=self.uri)
        )
        self.tour.story.say(f"[bold]kubectl patch consumergroup {GROUP}: catalog.yaml")
        self.tour.patch(GROUP, patch)
        seconds = self._until("1/1", "publishes what has landed")
        self.tour.story.say(
            f"[bold]{GROUP}: {self.partitions()} partitions in the metastore after {seconds:.0f} s"
        )
        self._show()

    def stop(self) -> None:
        """Stop the metastore; landing continues, and the lag of the publisher shows."""
        before = self.tour.ledger(GROUP).commits
        self.tour.story.say("[bold red]the metastore is stopped")
        self.server.down(at_once=True)
        seconds = self.tour.next_commit(GROUP, before)
        self.tour.story.say(f"[bold]{GROUP}: next commit {seconds:.0f} s later")
        self._until("0/1: hive failing", "reports that the publisher fails")
        self.tour.next_commit(GROUP, self.tour.ledger(GROUP).commits)
        self._show()

    def start_again(self) -> None:
        """Start the metastore again; the publisher catches up by itself."""
        self._up()
        self.tour.story.say("[bold green]the metastore runs again")
        seconds = self._until("1/1", "publishes what landed meanwhile")
        self.tour.story.say(f"[bold]{GROUP}: caught up {seconds:.0f} s later")
        self._show()

    def compare(self) -> bool:
        """Return whether exactly the folders with landed objects are partitions."""
        by_topic = proof.output_partitions(landed(self.tour.bucket, GROUP))
        folders = {topic: set(partitions) for topic, partitions in by_topic.items()}
        wait(lambda: self._names() == folders, "the metastore has all folders", seconds=120)
        self.tour.story.say(
            f"[bold]{sum(map(len, folders.values())):,} folders in the bucket, each a partition in "
            "the metastore, and no other"
        )
        return True

    def partitions(self) -> int:
        """How many partitions all tables have."""
        return sum(map(len, self._names().values()))

    def _up(self) -> None:
        os.environ[BUCKETS] = self.tour.bucket.name
        found = self.server.up()
        assert found.address
        self.uri = found.address

    def _until(self, published: str, what: str) -> float:
        """Wait until the status of the group reports this of its publishers."""
        return wait(
            lambda: self.tour.status(GROUP).get("published", "").startswith(published),
            f"{GROUP} {what}",
        )

    def _show(self) -> None:
        """Show the group as ``kubectl get -o wide`` prints it."""
        self.tour.story.show(self.tour.kubectl("get", GROUPS, GROUP, "-n", NAMESPACE, "-o", "wide"))

    def _names(self) -> dict[str, set[str]]:
        """The names of all partitions, such as ``dt=2013-01-01``, by topic."""
        topics = list(map(flights.topic, flights.AIRPORTS))
        with _client(self.uri) as client:
            tables = set(client.get_all_tables(DATABASE))
            return {
                topic: set(client.get_partition_names(DATABASE, table, -1))
                for topic in topics
                if (table := topic.replace(".", "_").lower()) in tables
            }


@contextmanager
def _client(uri: str) -> Iterator[Any]:
    """A connection to a metastore: its generated client, not Landfall's."""
    from pymetastore.hive_metastore import ThriftHiveMetastore  # noqa: PLC0415  # slow to import
    from thrift.protocol import TBinaryProtocol  # noqa: PLC0415
    from thrift.transport import TSocket, TTransport  # noqa: PLC0415

    address = urlsplit(uri)
    transport = TTransport.TBufferedTransport(TSocket.TSocket(address.hostname, address.port))
    transport.open()
    try:
        yield ThriftHiveMetastore.Client(TBinaryProtocol.TBinaryProtocol(transport))
    finally:
        transport.close()
