"""Lengths that Hadoop writes are read back, whatever their widths."""

import pytest
from hypothesis import example, given
from hypothesis import strategies as st

from landfall.formats.sequencefile.contents import vints
from tests.support.payloads.file_records import vint

LENGTHS = st.sampled_from([0, 1, 127, 128, 255, 256, 2**16, 2**24, 2**31 - 1])


@given(st.lists(LENGTHS, max_size=8))
@example([5, 150])
@example([150, 5, 6])
@example([128, 128, 65536])
@example([65536, 1, 1, 1, 1])
def test_lengths_are_those_that_were_written(numbers: list[int]) -> None:
    assert vints(b"".join(map(vint, numbers))).tolist() == numbers


@pytest.mark.parametrize("written", ["80", "90", "ff", "880102030405060708", "8f", "8e01", "018f"])
def test_what_is_no_length_is_refused(written: str) -> None:
    with pytest.raises(ValueError, match="a length"):
        vints(bytes.fromhex(written))
