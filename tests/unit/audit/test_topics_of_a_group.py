"""Audits of a group whose topics have entries of their own."""

from dataclasses import replace
from pathlib import Path

from landfall.audit.corrections import topic_of
from tests.support.auditor_fakes import GeneratedLog, Message
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


def test_objects_are_found_in_their_destinations(tmp_path: Path) -> None:
    landed = Landed(tmp_path / "root", route={"topicPath": "k={header:k}/{topic}"})
    landed.land(0, 10)

    def destined(offset: int) -> Message:
        return replace(message(offset), header_pairs=[("k", b"a")])

    misplaced = landed.found(GeneratedLog(10, destined))
    folder = tmp_path / "root" / "clicks"
    (name,) = (path for path in folder.rglob("*") if path.is_file())
    keys = str(name.relative_to(tmp_path / "root"))

    assert misplaced == {"expected": 10, "found": 10, "misplaced": 10}
    assert topic_of(f"k=a/{keys}") == topic_of(keys) == "clicks"
