"""A broker is ready when it says so, however much it said before."""

from pathlib import Path

from dev.servers.kafka import KAFKA


def test_a_broker_that_loads_many_partitions_first_is_ready_when_it_has_started(
    tmp_path: Path,
) -> None:
    log = tmp_path / "log"
    loading = b"[main] INFO kafka.log.LogManager - loaded log of a partition with some words\n"
    with log.open("wb") as lines:
        lines.writelines([loading] * 60_000)  # 5 MB: some 1,300 partitions

    assert not KAFKA.ready(log, "127.0.0.1", 1)
    with log.open("ab") as lines:
        lines.write(b"[main] INFO kafka.server.KafkaRaftServer - Kafka Server started\n")
    assert KAFKA.ready(log, "127.0.0.1", 1)
