"""Deletion vectors, byte by byte; test_keyed reads them by delta-kernel."""

import random
import struct
import zlib
from contextlib import suppress

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from landfall.publish.delta.vectors import VectorFile, VectorUnreadable, file_of, positions_of


@given(st.lists(st.sets(st.integers(0, 300_000), min_size=1, max_size=200), min_size=1, max_size=4))
def test_vectors_of_a_file_are_read_as_they_were_added(vectors: list[set[int]]) -> None:
    file = VectorFile()
    for vector in vectors:
        file.add(np.array(sorted(vector)))
    names = set[str]()

    def read(name: str, start: int, length: int) -> bytes:
        names.add(name)
        return bytes(file.body[start : start + length])

    found = [positions_of(descriptor, read).tolist() for descriptor in file.descriptors]

    assert found == [sorted(vector) for vector in vectors]
    assert names == {file.name} == {file_of(descriptor) for descriptor in file.descriptors}
    assert [d["cardinality"] for d in file.descriptors] == [len(vector) for vector in vectors]


def test_a_path_may_begin_with_a_folder() -> None:
    described = {"storageType": "u", "pathOrInlineDv": "ab^-aqEH.-t@S}K{vb[*k^"}

    assert file_of(described) == "ab/deletion_vector_d2c639aa-8816-431a-aaf6-d3fe2512ff61.bin"


@pytest.mark.parametrize(
    ("more", "body", "message"),
    [
        ({}, None, "is not there"),
        ({}, b"short", "is not there"),
        ({"sizeInBytes": 1 << 40}, None, "is not read"),
        ({"storageType": "p", "pathOrInlineDv": "s3://x/y"}, None, "not in the table's folder"),
        ({"pathOrInlineDv": "~" * 20}, None, "names no deletion vector"),
        ({"pathOrInlineDv": "abc"}, None, "names no deletion vector"),
        ({"pathOrInlineDv": ""}, None, "names no file"),
        ({"storageType": "i", "pathOrInlineDv": "00000" * 4}, None, "has an unknown form"),
    ],
)
def test_a_vector_that_cannot_be_read_is_named(
    more: dict[str, object], body: bytes | None, message: str
) -> None:
    file = VectorFile()
    file.add(np.array([1, 5]))

    with pytest.raises(VectorUnreadable, match=message):
        positions_of({**file.descriptors[0], **more}, lambda *_: body)


def test_damaged_bytes_are_an_error_and_nothing_worse() -> None:
    file, chosen = VectorFile(), random.Random(1)
    file.add(np.array([1, 5, 70_000, 2**33]))
    whole = bytes(file.body[5:-4])
    for _ in range(500):
        damaged = bytearray(whole)
        damaged[chosen.randrange(4, len(whole))] = chosen.randrange(256)
        framed = struct.pack(">I", len(damaged)) + damaged + struct.pack(">I", zlib.crc32(damaged))
        with suppress(VectorUnreadable):
            positions_of(file.descriptors[0], lambda *_, framed=framed: framed)  # type: ignore[misc]
    with pytest.raises(VectorUnreadable, match="is damaged at 1"):
        positions_of(file.descriptors[0], lambda *_: bytes(file.body[1:-1]) + b"\0")
