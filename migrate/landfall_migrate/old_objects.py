"""Names of the objects that Secor and Connect's S3 sink left. Pure.

Secor: ``<topic>/<folders>/<generation>_<kafka partition>_<offset>.ext``, where the offset, of 20
digits, is where the batch began: all objects of one upload have it, in any folder. Connect:
``<topic>/<folders>/<topic>+<kafka partition>+<offset>.ext``, the first offset of the object.

Sources: LogFilePath.java of Secor; Confluent's S3 sink, "S3 Object Names".
"""

import re
from collections.abc import Iterable, Mapping
from dataclasses import dataclass

from landfall.ledger.offsets import TopicPartition

_SECOR = re.compile(r"(?P<topic>[^/]+)/.+/(?P<gen>\d+)_(?P<p>\d+)_(?P<offset>\d{20})(\.[^/]*)?")
_CONNECT = re.compile(r"(?P<topic>[^/]+)/(?:.+/)?(?P=topic)\+(?P<p>\d+)\+(?P<offset>\d+)(\.[^/]*)?")
_FOLDERS = 50
"""How many folders of a topic partition are looked into, the last ones."""


@dataclass(frozen=True, slots=True)
class OldObject:
    """One object of the old program.

    Attributes:
        key: relative to the old root.
        topic_partition: that it is of.
        offset: no offset in it is lower.
        generation: of Secor; None for Connect.
    """

    key: str
    topic_partition: TopicPartition
    offset: int
    generation: int | None = None

    @property
    def folder(self) -> str:
        """The folder that it is in."""
        return self.key.rpartition("/")[0]


def parse(key: str) -> OldObject | None:
    """The object of this name; None for another program's."""
    secor, connect = _SECOR.fullmatch(key), _CONNECT.fullmatch(key)
    match = secor or connect
    if match is None:
        return None
    tp = TopicPartition(match["topic"], int(match["p"]))
    return OldObject(key, tp, int(match["offset"]), int(secor["gen"]) if secor else None)


def last_objects(objects: Iterable[OldObject]) -> Mapping[TopicPartition, tuple[OldObject, ...]]:
    """The objects that may hold the last offset of each topic partition.

    For Secor, the objects of the last upload. For Connect, the last one in each folder, since
    objects of several folders grow at a time; only the last folders count.
    """
    of_secor: dict[TopicPartition, list[OldObject]] = {}
    of_connect: dict[TopicPartition, dict[str, OldObject]] = {}
    for object_ in objects:
        if object_.generation is None:
            _keep(of_connect.setdefault(object_.topic_partition, {}), object_)
            continue
        kept = of_secor.get(object_.topic_partition, [])
        if not kept or object_.offset > kept[0].offset:
            of_secor[object_.topic_partition] = [object_]
        elif object_.offset == kept[0].offset:
            kept.append(object_)
    connect = {tp: _latest(folders.values()) for tp, folders in of_connect.items()}
    return {**connect, **{tp: tuple(kept) for tp, kept in of_secor.items()}}


def _keep(folders: dict[str, OldObject], each: OldObject) -> None:
    """Keep the last object of a folder; of many folders only the last ones, to bound memory."""
    kept = folders.get(each.folder)
    if kept is None or each.offset > kept.offset:
        folders[each.folder] = each
    if len(folders) > 2 * _FOLDERS:
        latest = _latest(folders.values())
        folders.clear()
        folders.update({object_.folder: object_ for object_ in latest})


def _latest(objects: Iterable[OldObject]) -> tuple[OldObject, ...]:
    ordered = sorted(objects, key=lambda each: (-each.offset, each.key))
    return tuple(ordered[:_FOLDERS])
