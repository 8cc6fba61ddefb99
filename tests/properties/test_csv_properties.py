"""Csv reads what Python's csv module writes, and no record that breaks RFC 4180."""

import csv
import io
import re
from typing import Literal

import orjson
import pyarrow as pa
from hypothesis import given
from hypothesis import strategies as st

from landfall.ledger.offsets import TopicPartition
from landfall.pipeline.decoders import Decoded, Decoder, Wanted
from landfall.pipeline.decoders.csv import CsvDecoder, Dialect, Options
from landfall.pipeline.decoders.quoted_rows import QuotedRows
from landfall.pipeline.decoders.typed_columns import schema_of
from landfall.pipeline.records import filled
from tests.support.payloads.declared import columns_of_every_type
from tests.support.payloads.decoded import as_list, results


def decode(decoder: Decoder, values: list[bytes | None]) -> Decoded:
    return decoder.decode(filled(TopicPartition("t", 0), range(len(values)), values))


SCHEMA_OF_TEXT = schema_of(columns_of_every_type("abm"))
CSV = CsvDecoder.of({"columns": ["a", "b", "c"]}, Wanted((("b",),), json=True))
CSV_TYPED = CsvDecoder.of(
    {"columns": ["a", "b", "m"], "escape": "\\", "trim": True, "nullText": "N"},
    Wanted((("a",),), SCHEMA_OF_TEXT),
)
CSV_TEXTS = st.text(alphabet='ab,"\r\n \\é1N', max_size=16)


def _written(row: list[str], quoting: Literal[0, 1], terminator: str) -> bytes:
    file = io.StringIO()
    # The writer quotes the line breaks that its terminator holds, so this has both.
    csv.writer(file, quoting=quoting, lineterminator="\r\n").writerow(row)
    return (file.getvalue().removesuffix("\r\n") + terminator).encode()


@given(
    st.lists(st.lists(CSV_TEXTS, min_size=3, max_size=3), min_size=1, max_size=8),
    st.sampled_from([csv.QUOTE_MINIMAL, csv.QUOTE_ALL]),
    st.sampled_from(["", "\r\n", "\n", "\r"]),
)
def test_csv_rows_are_what_another_writer_wrote(
    rows: list[list[str]], quoting: Literal[0, 1], terminator: str
) -> None:
    got = decode(CSV, [_written(row, quoting, terminator) for row in rows])

    assert [list(orjson.loads(value).values()) for value in got.records.values.to_pylist()] == rows
    assert as_list(got.fields["b",]) == [b or None for _, b, _ in rows]


def _rfc_4180(text: str) -> list[str] | None:
    """What Python's reader makes of one record; None if it breaks a rule."""
    try:
        rows = list(csv.reader([text], strict=True))
    except csv.Error:
        return None
    values = rows[0] if rows else []
    # Python's reader takes a quote inside an unquoted value, which the RFC does not. Then writing
    # the values with all quotes gives more of them than the text has.
    unquoted = re.sub(r'(?:^|(?<=,))"(?:[^"]|"")*"(?=,|\r?\n?$)', "", text)
    return None if '"' in unquoted else values or [""]


@given(st.lists(CSV_TEXTS, min_size=1, max_size=8))
def test_csv_is_decoded_if_another_reader_reads_one_record(texts: list[str]) -> None:
    got = decode(CSV, [text.encode() for text in texts])

    read = dict(enumerate(map(_rfc_4180, texts)))
    assert {
        offset: list(orjson.loads(value).values())
        for offset, value in zip(
            got.records.offsets.tolist(), got.records.values.to_pylist(), strict=True
        )
    } == {row: values for row, values in read.items() if values and len(values) == 3}


@given(
    st.sampled_from([CSV, CSV_TYPED]),
    st.lists(st.one_of(st.none(), st.binary(), CSV_TEXTS.map(str.encode)), min_size=1, max_size=8),
)
def test_a_csv_row_is_returned_once_and_independently_of_the_others(
    decoder: Decoder, values: list[bytes | None]
) -> None:
    together = decode(decoder, values)

    assert len(together.records) + len(together.bad) == len(values)
    assert results(together) == {
        row: results(decode(decoder, [value]))[0] for row, value in enumerate(values)
    }


@given(
    rows=st.lists(CSV_TEXTS, min_size=1, max_size=8),
    null_text=st.sampled_from([None, "N", ""]),
    separator=st.sampled_from([",", "1"]),
)
def test_rows_that_are_split_together_are_split_as_each_alone(
    rows: list[str], null_text: str | None, separator: str
) -> None:
    dialect = Dialect.of(Options(null_text=null_text, separator=separator))
    quoted = QuotedRows(separator, '"', null_text)
    texts = pa.array(["skipped", *rows], pa.string())[1:]

    alone = [_split(dialect, row) for row in rows]
    are_regular = quoted.are_regular(texts)

    assert are_regular.to_pylist() == [values is not None for values in alone]
    if any(alone):
        together, counts = quoted.split(texts.filter(are_regular))
        assert together.to_pylist() == [value for values in alone for value in values or []]
        assert counts.tolist() == [len(values) for values in alone if values is not None]


def _split(dialect: Dialect, row: str) -> list[str | None] | None:
    try:
        return dialect.split(row)
    except ValueError:
        return None
