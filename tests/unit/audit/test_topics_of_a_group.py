"""Audits of a group whose topics have entries of their own."""

from pathlib import Path

from tests.support.auditor_fakes import GeneratedLog
from tests.unit.audit.test_inspection import Landed, message


def test_a_topic_is_audited_by_its_own_entry(tmp_path: Path) -> None:
    """The group's own fields are of another format and route: they are those of other topics."""
    entry = {
        "pattern": "clicks",
        "decode": {"format": "Json"},
        "route": {"pattern": "dt={date}"},
        "output": {"format": "Json", "codec": "None"},
    }
    landed = Landed(
        tmp_path / "root",
        decode={"format": "Raw"},
        route={"pattern": "other={kafka_partition}"},
        output={"format": "SequenceFile"},
        topics=[entry],
    )
    landed.land(0, 10)

    assert landed.found(GeneratedLog(10, message)) == {"expected": 10, "found": 10}
