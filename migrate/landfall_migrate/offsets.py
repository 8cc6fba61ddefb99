"""Where another program has stopped, from what tools of Kafka and ZooKeeper print. Pure.

All of them hold the next offset to read: Secor and Connect commit their last offset plus one.
"""

import json
import re
from collections.abc import Iterator, Mapping
from dataclasses import dataclass

from landfall_migrate.draft import Draft, path_of
from landfall_migrate.properties import UnreadableError

_IN_ZOOKEEPER = re.compile(r"(?:/[^\s]*)?/consumers/([^/\s]+)/offsets/([^/\s]+)/(\d+)")
_LINE = re.compile(r"(\S+?)(?:\s*[=:]\s*|\s+)\"?(-?\d+|-)\"?")
_FIELD = "source.kafka.startingOffsets"


@dataclass(frozen=True, slots=True)
class StoppedAt:
    """Where one consumer group has stopped.

    Attributes:
        starts: the next offset by topic, then by Kafka partition as text.
        missing: topic partitions without a committed offset, as ``clicks/3``.
    """

    starts: Mapping[str, Mapping[str, int]]
    missing: tuple[str, ...] = ()


def parsed(name: str, text: str, group: str = "") -> StoppedAt:
    """The offsets of one group.

    Args:
        name: of the file, for errors.
        text: what ``kafka-consumer-groups.sh --describe`` prints, a JSON object of paths in
            ZooKeeper and values, or lines with such a path and its value.
        group: counts if there are several.

    Raises:
        UnreadableError: it is none of these, or there are several groups and ``group`` is none.
    """
    entries = list(_entries(name, text))
    groups = sorted({entry[0] for entry in entries})
    if len(groups) > 1:
        if group not in groups:
            found = ", ".join(groups)
            raise UnreadableError(f"{name}: offsets of several groups: {found}; none is {group!r}")
        entries = [entry for entry in entries if entry[0] == group]
    if not entries:
        raise UnreadableError(
            f"{name}: no offset found: neither what kafka-consumer-groups.sh --describe prints, "
            "nor paths /consumers/GROUP/offsets/TOPIC/PARTITION with their values"
        )
    starts: dict[str, dict[str, int]] = {}
    missing = []
    for _, topic, partition, offset in entries:
        if offset is None:
            missing.append(f"{topic}/{partition}")
        else:
            starts.setdefault(topic, {})[partition] = offset
    return StoppedAt(starts, tuple(missing))


_Entry = tuple[str, str, str, int | None]
"""Group, topic, Kafka partition, and the next offset."""


def _entries(name: str, text: str) -> Iterator[_Entry]:
    if text.lstrip().startswith("{"):
        yield from _of_json(name, text)
        return
    columns: list[str] = []
    for number, line in enumerate(text.splitlines(), 1):
        words = line.split()
        if "TOPIC" in words and "CURRENT-OFFSET" in words:
            columns = words
        elif columns and len(words) >= len(columns) - 3:
            yield _of_row(f"{name}:{number}", dict(zip(columns, words, strict=False)))
        elif match := _LINE.fullmatch(line.strip()):
            yield from _of_path(f"{name}:{number}", match[1], match[2])


def _of_row(place: str, row: Mapping[str, str]) -> _Entry:
    partition, offset = row.get("PARTITION", ""), row.get("CURRENT-OFFSET", "")
    if not partition.isdigit() or not re.fullmatch(r"\d+|-", offset):
        raise UnreadableError(f"{place}: no Kafka partition and offset in their columns")
    return row.get("GROUP", ""), row["TOPIC"], partition, None if offset == "-" else int(offset)


def _of_json(name: str, text: str) -> Iterator[_Entry]:
    try:
        document = json.loads(text)
    except json.JSONDecodeError as error:
        raise UnreadableError(f"{name}:{error.lineno}: invalid JSON: {error.msg}") from error
    for path, value in document.items():
        yield from _of_path(f"{name}: {path}", str(path), str(value))


def _of_path(place: str, path: str, value: str) -> Iterator[_Entry]:
    match = _IN_ZOOKEEPER.fullmatch(path)
    if not match:
        return
    if not re.fullmatch(r"-?\d+", value):
        raise UnreadableError(f"{place}: {value!r} is no offset")
    # Secor's first commit of a topic partition may be missing: Kafka's client writes -1 then.
    yield match[1], match[2], match[3], int(value) if int(value) >= 0 else None


def put_offsets(draft: Draft, offsets: Mapping[str, Mapping[str, int]], reset: str) -> None:
    """Set the starting offsets, of topics that the group lands.

    Args:
        draft: the group; its topics are set.
        offsets: by topic and Kafka partition.
        reset: the key that defines where topic partitions without an offset begin.
    """
    named = draft.spec["source"]["kafka"].get("topics")
    landed = {topic: dict(own) for topic, own in offsets.items() if not named or topic in named}
    why = "topic partitions that --offsets does not have begin at their log start"
    draft.put(_FIELD, {"offsets": landed}, reset, why=why, default="from --offsets")
    if others := sorted(offsets.keys() - landed.keys()):
        names = ", ".join(others)
        draft.next_steps.append(f"--offsets has topics that the group does not land: {names}")


def warn_of_start(draft: Draft, start: str) -> None:
    """Warn next to the starting offsets that they are not the old program's."""
    otherwise = {
        "Earliest": "all that Kafka has is landed again",
        "Latest": "what arrives between its stop and the first start is lost",
    }
    draft.comments[path_of(_FIELD)] = (
        f"before the first start: the old program's offsets, or {otherwise[start]}"
    )
