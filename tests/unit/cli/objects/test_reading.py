import io

import pyarrow as pa
import pyarrow.parquet as pq
import pytest

from landfall.cli.objects.read_back import dead_letters, normalizer
from landfall.formats.columns import ENVELOPE


class Stream(io.BytesIO):
    """Bytes as a store streams them: forwards only."""

    def seekable(self) -> bool:
        return False

    def seek(self, *_: int) -> int:
        raise io.UnsupportedOperation("seek")


def test_dead_letters_are_read_from_a_stream_that_cannot_seek() -> None:
    file, schema = io.BytesIO(), pa.schema([*ENVELOPE, pa.field("error", pa.string())])
    row = {"topic": "t", "partition": 0, "offset": 7, "value": b"no JSON", "headers": []}
    pq.write_table(pa.Table.from_pylist([{**row, "error": "json"}], schema), file)

    (letter,) = dead_letters(Stream(file.getvalue()))

    assert (letter["offset"], letter["value"], letter["error"]) == (7, b"no JSON", "json")


def test_damaged_dead_letters_are_reported() -> None:
    with pytest.raises(ValueError, match="damaged dead letters"):
        list(dead_letters(Stream(b"PAR1 oops")))


@pytest.mark.parametrize(
    ("format_name", "payload", "written"),
    [
        ("Json", b'{\n"a":1}', b'{ "a":1}'),
        ("Json", None, b"null"),
        ("Text", None, b""),
        ("SequenceFile", b"a\nb", b"a\nb"),
    ],
)
def test_payloads_are_normalized_as_their_format_writes_them(
    format_name: str, payload: bytes | None, written: bytes
) -> None:
    assert normalizer(format_name)(payload) == written
