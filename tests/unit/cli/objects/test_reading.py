import io

import pytest

from landfall.cli.objects.read_back import dead_letters, normalizer
from tests.unit.task.test_dead_letters import GOOD
from tests.unit.task.test_dead_letters import dead_letters as dead_letters_at


class Stream(io.BytesIO):
    """Bytes as a store streams them: forwards only."""

    def seekable(self) -> bool:
        return False

    def seek(self, *_: int) -> int:
        raise io.UnsupportedOperation("seek")


def test_dead_letters_are_read_from_a_stream_that_cannot_seek() -> None:
    found = list(dead_letters(Stream(dead_letters_at([GOOD, GOOD]))))

    read = [(letter["offset"], letter["value"], letter["key"]) for letter in found]
    assert read == [(100, b"x", None), (101, b"x", None)]
    assert found[1]["error"] == "json: 1"


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
