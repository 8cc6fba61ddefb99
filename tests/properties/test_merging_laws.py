"""Objects of any format, merged, have exactly their rows, in order; keys are compared exactly."""

import io
from collections.abc import Sequence

import numpy as np
from hypothesis import given, settings
from hypothesis import strategies as st

from landfall.api.spec import Keep
from landfall.formats import Format, Row
from landfall.formats.merging import Mask
from landfall.task.duplicates import Fingerprints
from landfall.task.merging import merger_of
from tests.properties.test_formats_laws import FORMATS, ROWS, Rows, accepted, written
from tests.support.examples import share

OBJECTS = st.lists(ROWS.filter(len), min_size=1, max_size=5)


def objects_of(format_: Format, objects: Sequence[Rows], cut: int) -> list[bytes]:
    """Each list of rows as an object, without those that the format refuses."""
    kept = [accepted(format_, rows) for rows in objects]
    return [written(format_, each, cut) for each in kept if len(each)]


def merged(format_: Format, bodies: Sequence[bytes], kept: Mask | None = None) -> list[Row]:
    merger = merger_of(format_)
    assert merger is not None
    out, at = [], 0
    for body in bodies:
        chosen = None if kept is None else kept[at:]
        out += [*merger.add(io.BytesIO(body), chosen)]
        at = merger.rows
    out.append(merger.finish())
    assert at == sum(len(rows(format_, body)) for body in bodies)
    return rows(format_, b"".join(out))


def rows(format_: Format, body: bytes) -> list[Row]:
    return list(format_.rows(io.BytesIO(body)))


@settings(max_examples=share(40))
@given(format_=FORMATS, objects=OBJECTS, cut=st.integers(1, 20))
def test_a_merged_object_has_the_rows_of_all(
    format_: Format, objects: Sequence[Rows], cut: int
) -> None:
    bodies = objects_of(format_, objects, cut)

    found = merged(format_, bodies) if bodies else []

    assert found == [row for body in bodies for row in rows(format_, body)]


@settings(max_examples=share(40))
@given(format_=FORMATS, objects=OBJECTS, dice=st.randoms())
def test_rows_that_are_left_out_are_exactly_those(
    format_: Format, objects: Sequence[Rows], dice: object
) -> None:
    bodies = objects_of(format_, objects, 3)
    everything = [row for body in bodies for row in rows(format_, body)]
    kept = np.array([dice.random() < 0.7 for _ in everything], np.bool_)  # type: ignore[attr-defined]
    if format_.extension == ".seq" or not bodies or not kept.any():
        return  # its rows have no fields

    found = merged(format_, bodies, kept)

    assert found == [row for row, is_kept in zip(everything, kept, strict=True) if is_kept]


@given(
    chunks=st.lists(
        st.lists(st.sampled_from([None, b"", b"a", b"b", b"c"]), max_size=8), max_size=6
    ),
    keep=st.sampled_from(Keep),
)
def test_of_rows_with_the_same_key_one_is_kept(
    chunks: list[list[bytes | None]], keep: Keep
) -> None:
    found, keys = Fingerprints(), [key for chunk in chunks for key in chunk]
    for chunk in chunks:
        found.add(chunk)

    kept = found.kept(keep).tolist()

    order = keys if keep is Keep.FIRST else keys[::-1]
    seen: set[bytes] = set()
    expected = []
    for key in order:
        expected.append(key is None or key not in seen)
        seen |= {key} if key is not None else set()
    assert kept == (expected if keep is Keep.FIRST else expected[::-1])
