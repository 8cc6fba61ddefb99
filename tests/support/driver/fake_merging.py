"""Merges the objects of fakes, their bytes one after the other, and cuts them by lines."""

import zlib
from collections.abc import Iterator
from itertools import compress

from landfall.ledger.names.object_names import renamed
from landfall.ledger.replace.merged_objects import halves, offsets_of, sections_of
from landfall.ledger.replace.replacement_lists import NewObject, Section
from landfall.ledger.task_results import LandedObject, ObjectKind
from landfall.objects import Upload
from landfall.store import Store
from landfall.task.merging import Merge, Merged, MergeShare


def merged(store: Store, share: MergeShare, merge: Merge) -> Iterator[Merged]:
    """Upload one object with the bytes of all; or two, with the lines of each half."""
    retire = tuple(source.decided for source in merge.sources)
    bodies = [store.read(source.key) or b"" for source in merge.sources]
    if not merge.cut:
        key = renamed(merge.sources[0].key, share.read_through)
        yield Merged(retire, _new(store, share, key, b"".join(bodies), sections_of(merge.sources)))
        return
    (source,), lines = merge.sources, b"".join(bodies).splitlines(keepends=True)
    for half in halves(source, merge.cut):
        body = b"".join(compress(lines, half.mask))
        yield Merged(
            retire, _new(store, share, half.key_by(share.read_through), body, half.sections)
        )


def _new(
    store: Store, share: MergeShare, key: str, body: bytes, sections: tuple[Section, ...]
) -> NewObject:
    upload_id = store.begin(key, share.token)
    part = store.put_part(key, upload_id, 1, body)
    rows = sum(section.rows for section in sections)
    upload = Upload(key, upload_id, (part,), share.token)
    landed = LandedObject(upload, ObjectKind.DATA, rows, *offsets_of(sections), zlib.crc32(body))
    return NewObject(landed, sections)
