"""Readers by the names that a resource gives them."""

from collections.abc import Callable, Mapping
from functools import partial

from landfall_audit.readers import Options, Reader, avro, csv_text, parquet, sequence_file, text
from landfall_audit.spec import FeedSection

_READERS: Mapping[str, Callable[[Options], Reader]] = {
    "Lines": partial(text.reader_of, "Lines"),
    "JsonLines": partial(text.reader_of, "JsonLines"),
    "Whole": partial(text.reader_of, "Whole"),
    "Csv": csv_text.reader_of,
    "SequenceFile": sequence_file.reader_of,
    "Avro": avro.reader_of,
    "Parquet": lambda _: parquet.rows,
}


def reader_of(feed: FeedSection) -> Reader | None:
    """How the files of a feed are read; None if only the writer's own reader can do that."""
    make = _READERS.get(feed.reader)
    return make(feed.reader_options) if make else None
