"""Merges the objects of fakes: their bytes, one after the other."""

import zlib

from landfall.ledger.merged_objects import offsets_of, sections_of
from landfall.ledger.object_names import renamed
from landfall.ledger.replacement_lists import NewObject
from landfall.ledger.task_results import LandedObject
from landfall.objects import Upload
from landfall.store import Store
from landfall.task.merging import Merge, Merged, MergeShare


def merged(store: Store, share: MergeShare, merge: Merge) -> Merged:
    """Upload one object with the bytes of all."""
    key = renamed(merge.sources[0].key, share.read_through)
    body = b"".join(store.read(source.key) or b"" for source in merge.sources)
    upload_id = store.begin(key, share.token)
    part = store.put_part(key, upload_id, 1, body)
    sections = sections_of(merge.sources)
    landed = LandedObject(
        Upload(key, upload_id, (part,), share.token),
        merge.sources[0].landed.kind,
        sum(section.rows for section in sections),
        *offsets_of(sections),
        zlib.crc32(body),
    )
    retire = tuple(source.retiring for source in merge.sources)
    return Merged(retire, NewObject(landed, sections))
