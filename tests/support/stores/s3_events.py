"""An S3 server that sends notifications of what is written to a topic of Kafka."""

from dataclasses import replace
from pathlib import Path

from dev.servers.s3 import S3
from dev.servers.server import ServerKind


def s3_with_events(bootstrap: str, topic: str) -> ServerKind:
    """The S3 server, with notifications to this topic of these brokers."""

    def command(
        programs: Path, home: Path, host: str, ports: tuple[int, ...]
    ) -> tuple[list[str], str]:
        argv, mark = S3.command(programs, home, host, ports)
        where = argv.index("posix")
        events = ["--event-kafka-url", bootstrap, "--event-kafka-topic", topic]
        return [*argv[:where], *events, *argv[where:]], mark

    # A server that exists may send its events elsewhere.
    return replace(S3, name="s3-events", existing="LANDFALL_S3_WITH_EVENTS", command=command)
