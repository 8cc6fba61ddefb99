"""Merged objects have the rows of those that they were made of, and are ordinary objects."""

import gzip
import io
import pickle
import zlib
from pathlib import Path

import duckdb
import pyarrow as pa
import pyarrow.json as pj
import pyarrow.parquet as pq
import pytest
from msgspec import structs

from landfall.errors import Reason, Stalled
from landfall.ledger.names.object_names import parse_key
from landfall.ledger.offsets import OffsetRange, Slice, TopicPartition
from landfall.ledger.replace.merged_objects import Mergeable
from landfall.ledger.replace.replacement_lists import ReplacementList, Section, encode_list
from landfall.task.merging import NotMerged
from tests.support.driver.slice_landing import records_of
from tests.support.ledger.merging import READ_THROUGH, MergedFolder, blocks_of

KINDS: dict[str, tuple[str, dict[str, object]]] = {
    "Json": ("Json", {}),
    "Json Zstd": ("Json", {"codec": "Zstd"}),
    "Json None": ("Json", {"codec": "None"}),
    "Json tombstones": ("Json", {"options": {"tombstones": "Null"}}),
    "Text": ("Text", {}),
    "Text Zstd": ("Text", {"codec": "Zstd", "options": {"delimiter": "||"}}),
    "Text None": ("Text", {"codec": "None", "options": {"delimiter": "\\0"}}),
    "SequenceFile": ("SequenceFile", {}),
    "SequenceFile keys": ("SequenceFile", {"options": {"keyMode": "MessagePack"}}),
    "SequenceFile Record": ("SequenceFile", {"options": {"compression": "Record"}}),
    "SequenceFile None": ("SequenceFile", {"codec": "None"}),
    "Parquet": ("Parquet", {}),
    "Parquet Gzip": ("Parquet", {"codec": "Gzip", "options": {"rowGroupBytes": 4000}}),
    "Orc": ("Orc", {}),
    "Orc Utc": ("Orc", {"codec": "Snappy", "options": {"timestamps": "Utc"}}),
}
WITHOUT_TOMBSTONES = {"Json", "Json Zstd", "Json None", "Text", "Text Zstd", "Text None"}


def folder(kind: str) -> MergedFolder:
    """Objects of two partitions, of several blocks, with and without tombstones and empty rows."""
    format_, output = KINDS[kind]
    made = MergedFolder.of(format_, **output)
    tombstone = b'{"t":0}' if kind in WITHOUT_TOMBSTONES else None
    made.land(0, 100, b'{"a":1}', tombstone, b'{"a":2}', gap=3)
    values = [b'{"n":%d,"text":"%s"}' % (n, b"x" * (n % 90)) for n in range(300)]
    records = records_of(TopicPartition("clicks", 0), range(200, 500), values)
    made.add(0, 200, range(200, 500), blocks_of(records, 70))
    return made.land(3, 7, b'{"z":9}')


@pytest.mark.parametrize("kind", KINDS)
def test_a_merged_object_has_all_rows_in_order(kind: str) -> None:
    objects = folder(kind)

    merged = objects.merged()

    assert objects.rows(merged.new.landed) == objects.all_rows()
    assert (merged.duplicates, merged.new.landed.rows) == (0, 304)
    assert merged.new.sections == (
        Section(0, 3, 100, 106),
        Section(0, 300, 200, 499),
        Section(3, 1, 7, 7),
    )
    assert not merged.new.mixed


@pytest.mark.parametrize("kind", KINDS)
def test_it_is_named_and_counted_like_the_first(kind: str) -> None:
    objects = folder(kind)

    landed = objects.merged().new.landed

    first = objects.sources[0].key
    path, _, name = first.rpartition("/")
    assert landed.upload.key == f"{path}/r{READ_THROUGH:010d}_{name}"
    assert (landed.first_offset, landed.last_offset) == (100, 499)
    assert landed.crc32 == zlib.crc32(objects.body(landed))
    assert landed.upload.token == "token"


@pytest.mark.parametrize("kind", KINDS)
def test_it_can_be_merged_again(kind: str) -> None:
    objects = folder(kind)
    rows = objects.all_rows()
    merged = objects.merged()
    again = MergedFolder(objects.output, store=objects.store)
    new = merged.new
    again.sources = [Mergeable(9, new.landed, "", new.sections, new.mixed)]
    again.land(3, 8, b'{"late":1}')

    twice = again.merged()

    assert again.rows(twice.new.landed) == rows + again.rows(again.sources[1].landed)
    assert twice.new.sections == (*new.sections, Section(3, 1, 8, 8))
    assert twice.new.landed.upload.key == new.landed.upload.key  # of the same slot in this test


def test_gzip_stays_a_single_member_whose_blocks_are_copied() -> None:
    objects = folder("Json")
    first = objects.body(objects.sources[1].landed)

    body = objects.body(objects.merged().new.landed)

    member = zlib.decompressobj(31)
    contents = member.decompress(body)
    assert (member.eof, member.unused_data) == (True, b"")
    assert contents == b"".join(gzip.decompress(objects.body(s.landed)) for s in objects.sources)
    assert first[10:-10] in body


@pytest.mark.parametrize("kind", ["Json", "Json Zstd"])
def test_other_readers_read_merged_lines(kind: str) -> None:
    objects = folder(kind)
    body = objects.body(objects.merged().new.landed)
    codec = {"Json": "gzip", "Json Zstd": "zstd"}[kind]

    with pa.CompressedInputStream(pa.BufferReader(body), codec) as stream:
        assert pj.read_json(io.BytesIO(stream.read())).num_rows == 304


def test_duckdb_reads_merged_lines(tmp_path: Path) -> None:
    objects, path = folder("Json"), tmp_path / "merged.json.gz"
    path.write_bytes(objects.body(objects.merged().new.landed))

    with duckdb.connect() as db:
        found = db.execute(f"SELECT count(*), max(n) FROM read_json('{path}')").fetchall()

    assert found == [(304, 299)]


def test_lists_take_what_is_merged() -> None:
    merged = folder("Parquet").merged()

    named, _ = encode_list("g", "0", ReplacementList(merged.retire, (merged.new,)))

    assert (named.retired, named.retired_rows, named.objects, named.rows) == (3, 304, 1, 304)


def test_row_groups_of_merged_columns_are_full_and_have_one_schema() -> None:
    objects = folder("Parquet")
    before = pq.ParquetFile(io.BytesIO(objects.body(objects.sources[0].landed)))

    after = pq.ParquetFile(io.BytesIO(objects.body(objects.merged().new.landed)))

    assert after.num_row_groups == 1
    assert after.schema.equals(before.schema)
    assert after.metadata.metadata == before.metadata.metadata
    assert after.metadata.row_group(0).column(2).compression == "SNAPPY"  # small


@pytest.mark.parametrize("kind", KINDS)
def test_a_damaged_object_is_named_and_nothing_is_left(kind: str) -> None:
    objects = folder(kind)
    key = objects.sources[1].key
    body = bytearray(objects.body(objects.sources[1].landed))
    body[len(body) // 2] ^= 1
    objects.upload(key, bytes(body))

    (result,) = objects.results()

    assert isinstance(result, NotMerged)
    assert isinstance(result.error, Stalled)
    assert (result.error.reason, key in str(result.error)) == (Reason.OBJECT_LOST, True)
    assert list(objects.store.open_uploads("")) == []


def test_what_tasks_get_and_return_can_be_sent() -> None:
    objects = folder("Json")
    share = objects.share()
    found = [*objects.results(), NotMerged("f", Stalled(Reason.OBJECT_LOST, "gone"))]

    assert pickle.loads(pickle.dumps(share)) == share
    assert pickle.loads(pickle.dumps(found[0])) == found[0]
    assert pickle.loads(pickle.dumps(found[1])).error.reason is Reason.OBJECT_LOST


def test_an_object_that_is_gone_is_named() -> None:
    objects = folder("Json")
    landed = objects.sources[2].landed
    elsewhere = structs.replace(landed.upload, key=landed.upload.key.replace("_3_", "_5_"))
    objects.sources[2] = Mergeable(2, structs.replace(landed, upload=elsewhere))

    (result,) = objects.results()

    assert isinstance(result, NotMerged)
    assert "4_5_00000000000000000007.json.gz: it was visible, and is not there" in str(result.error)


def test_a_wrong_number_of_rows_is_found() -> None:
    objects = folder("Json")
    more = structs.replace(objects.sources[0].landed, rows=4)
    objects.sources[0] = Mergeable(objects.sources[0].slot, more)

    (result,) = objects.results()

    assert isinstance(result, NotMerged)
    assert "4 rows were landed, and 3 are read back" in str(result.error)


@pytest.mark.parametrize("kind", KINDS)
def test_an_object_is_cut_in_two_at_sections(kind: str) -> None:
    objects = folder(kind)
    rows = objects.all_rows()
    merged = objects.merged().new
    whole = MergedFolder(objects.output, store=objects.store)
    whole.sources = [Mergeable(9, merged.landed, "", merged.sections, merged.mixed)]

    inside, outside = whole.halves(Slice(TopicPartition("clicks", 0), OffsetRange(200, 500)))

    assert inside.retire == outside.retire == (whole.sources[0].decided,)
    assert whole.rows(inside.new.landed) == rows[3:303]
    assert whole.rows(outside.new.landed) == rows[:3] + rows[303:]
    assert inside.new.sections == (Section(0, 300, 200, 499),)
    assert outside.new.sections == (Section(0, 3, 100, 106), Section(3, 1, 7, 7))
    assert (inside.duplicates, outside.duplicates) == (0, 0)
    assert [inside.new.mixed, outside.new.mixed] == [False, False]
    names = [parse_key(each.new.landed.upload.key) for each in (inside, outside)]
    assert [(each.plan, each.start) for each in names] == [(READ_THROUGH, 200), (READ_THROUGH, 100)]


def test_an_object_whose_rows_were_sorted_is_not_cut() -> None:
    objects = folder("Json")
    merged = objects.merged().new
    whole = MergedFolder(objects.output, store=objects.store)
    whole.sources = [Mergeable(9, merged.landed, "", merged.sections, is_mixed=True)]

    whole.ranges = (Slice(TopicPartition("clicks", 0), OffsetRange(200, 500)),)

    (refused,) = whole.results()

    assert isinstance(refused, NotMerged)
    assert "its rows do not follow its sections" in str(refused.error)
    assert not list(objects.store.open_uploads(""))


def test_a_block_of_a_sequence_file_is_not_cut() -> None:
    objects = MergedFolder.of("SequenceFile").land(0, 0, b"a", b"b")
    landed = objects.sources[0].landed
    sections = (Section(0, 1, 0, 0), Section(0, 1, 1, 1))  # as no merge makes them
    objects.sources = [Mergeable(0, landed, "", sections)]
    objects.ranges = (Slice(TopicPartition("clicks", 0), OffsetRange(0, 1)),)

    (refused,) = objects.results()

    assert isinstance(refused, NotMerged)
    assert "a block has both rows that are kept and rows that are not" in str(refused.error)
