"""Checks replacements once all ranges are checked.

The new objects must exist, with as many rows as their list records, and the old ones must not. A
copy that is kept of an old object must be one; it may be gone, as copies expire. Mixed rows are
compared with all the records that may be in them.
"""

from collections.abc import Callable, Iterator, Mapping
from concurrent.futures import Executor
from itertools import groupby

import numpy as np

from landfall_audit import Fault, FaultKind, PartitionResult, Unchecked
from landfall_audit.checks.judge import Int64s
from landfall_audit.ledger.corrections import topic_of, topic_partition
from landfall_audit.ledger.inventory import Inventory, KeptCopy, MergedObject
from landfall_audit.objects.merged_rows import MergedRows
from landfall_audit.objects.mixed_pool import MixedPool
from landfall_audit.objects.mixed_rows import (
    MixedRecords,
    MixedResult,
    MixedRules,
    compare_mixed,
    find_wrong_section,
)
from landfall_audit.objects.object_reader import ObjectReader
from landfall_audit.objects.rows import Rows

Results = Mapping[tuple[str, int], PartitionResult]


class ReplacementCheck:
    """Checks replacements."""

    def __init__(
        self, inventory: Inventory, objects: ObjectReader, merged: MergedRows, mixed: MixedPool
    ) -> None:
        """Check the objects of an inventory, with the rows collected from its ranges."""
        self._inventory, self._objects = inventory, objects
        self._merged, self._mixed = merged, mixed

    def objects(self, has_topic: Callable[[str], bool], pool: Executor) -> Iterator[Fault]:
        """Yield faults of objects; ``pool`` reads copies."""
        for is_mixed in (False, True):
            for merged in self._inventory.merged(mixed=is_mixed):
                if has_topic(topic_of(merged.key)):
                    yield from self._new_object(merged)
        for key in self._inventory.still_visible():
            if has_topic(topic_of(key)) and self._objects.is_there(key):
                yield Fault(FaultKind.RETIRED, key, "was replaced, and is still visible")
        copies = (c for c in self._inventory.copies() if has_topic(topic_of(c.original)))
        yield from (fault for fault in pool.map(self._copy_fault, copies) if fault)

    def _new_object(self, merged: MergedObject) -> Iterator[Fault]:
        self._merged.ensure_exists(merged.key)
        found = self._merged.content(merged.key)
        if found is None:
            return
        rows, crc32 = found
        if rows != merged.rows:
            message = f"has {rows} rows, but its list records {merged.rows}"
            yield Fault(FaultKind.REPLACED, merged.key, message)
        if crc32 != merged.crc32:
            yield Fault(
                FaultKind.DAMAGED, merged.key, "its bytes do not match the CRC-32 in its list"
            )

    def _copy_fault(self, copy: KeptCopy) -> Fault | None:
        if copy.expected is None:
            return Fault(FaultKind.COPY, copy.key, "no object of this name retires in this slot")
        if copy.size != copy.expected:
            return Fault(FaultKind.COPY, copy.key, f"has {copy.size} bytes, not {copy.expected}")
        if self._objects.crc32(copy.key) not in {None, copy.crc32}:
            return Fault(FaultKind.COPY, copy.key, "has other bytes than the object")
        return None

    # ------------------------------------------------------------------------------ mixed rows

    def mixed(self, readers: Mapping[str, Rows | None], results: Results) -> Iterator[Fault]:
        """Compare mixed objects, one folder after the other, and add to the results."""
        found = self._inventory.merged(mixed=True)
        for place, merged in groupby(found, lambda each: each.place):
            objects = [*merged]
            topic = topic_of(objects[0].key)
            reader, rows = readers.get(topic), sum(object_.rows for object_ in objects)
            is_in_scope = topic_partition(objects[0].key) in results
            if reader and is_in_scope and self._mixed.unchecked(place) < max(rows, 1):
                yield from self._compare(place, [o.key for o in objects], reader, results)

    def _compare(
        self, place: str, keys: list[str], reader: Rows, results: Results
    ) -> Iterator[Fault]:
        yield from self._wrong_sections(keys, reader)
        offsets, hashes = self._rows(keys, reader)
        records = self._mixed.records(place)
        rules = MixedRules(
            payloads=reader.compares_mixed,
            left_out=self._inventory.left_out(place),
            filtered=self._mixed.filtered(place),
            unchecked=self._mixed.unchecked(place),
        )
        if offsets is None and not rules.payloads:
            return  # rows cannot be distinguished; records are counted as unchecked already
        found = compare_mixed(records, offsets, hashes, rules)
        topic, partition = topic_partition(keys[0])
        results[topic, partition].duplicate += found.duplicate
        results[topic, partition].foreign += found.foreign
        _add(topic, records, found, rules, results)
        if found.too_few:
            yield Fault(
                FaultKind.REPLACED,
                place,
                f"{rules.left_out} rows were left out as duplicates, "
                f"but {rules.left_out - found.too_few} records are in no row",
            )

    def _wrong_sections(self, keys: list[str], reader: Rows) -> Iterator[Fault]:
        for key in keys:
            offsets, _ = self._merged.whole(key, reader)
            sections = self._inventory.mixed_sections(key)
            if offsets is None or self._merged.content(key) is None:
                continue  # rows cannot be distinguished, or it is damaged
            if wrong := find_wrong_section(offsets, sections):
                message = f"does not have the {wrong.rows} rows of {wrong.first} to {wrong.last}"
                yield Fault(FaultKind.REPLACED, key, message)

    def _rows(self, keys: list[str], reader: Rows) -> tuple[Int64s | None, Int64s]:
        """Offsets, if all have them, and hashes of the rows of some objects."""
        parts = [self._merged.whole(key, reader) for key in keys]
        known = [offsets for offsets, _ in parts if offsets is not None]
        offsets = np.concatenate(known) if len(known) == len(parts) else None
        return offsets, np.concatenate([hashes for _, hashes in parts])


def _add(
    topic: str, records: MixedRecords, found: MixedResult, rules: MixedRules, results: Results
) -> None:
    """Add the findings to the topic partitions of the records."""
    missing = found.missing
    for partition in np.unique(records.partitions).tolist():
        here = records.partitions == partition
        result, absent = results[topic, partition], here & found.absent
        # It is unknown which of the absent records were left out, and which are missing.
        missing_here = min(missing, int(absent.sum()))
        missing -= missing_here
        found_here = int((here & ~found.absent).sum())
        result.expected += found_here + missing_here
        result.found += found_here
        result.missing += missing_here
        result.left_out += int(absent.sum()) - missing_here if rules.left_out else 0
        result.corrupted += int((here & found.corrupted).sum())
        if not rules.payloads:
            result.add_unchecked(found_here, Unchecked.PAYLOAD)
        for offset in np.sort(records.offsets[absent]).tolist() if missing_here else ():
            result.add_missing_range(offset, offset + 1)
