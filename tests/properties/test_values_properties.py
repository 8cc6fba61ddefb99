"""Values come back from their text unchanged, and nonsense is only ever a ValueError."""

from contextlib import suppress
from datetime import timedelta

from hypothesis import given
from hypothesis import strategies as st

from landfall.api.spec import parse_group
from landfall.api.values import duration, format_duration, quantity
from landfall.errors import Stalled

milliseconds = st.integers(min_value=0, max_value=365_000 * 86_400_000)
documents = st.recursive(
    st.none() | st.booleans() | st.integers() | st.floats() | st.text(max_size=5),
    lambda inner: (
        st.lists(inner, max_size=3)
        | st.dictionaries(
            st.sampled_from(["spec", "source", "kafka", "output", "x"]), inner, max_size=3
        )
    ),
    max_leaves=10,
)


@given(milliseconds)
def test_a_duration_reads_back_as_format_duration(length: int) -> None:
    value = timedelta(milliseconds=length)

    assert duration(format_duration(value)) == value


@given(
    st.integers(min_value=0, max_value=2**63),
    st.sampled_from([("Ki", 10), ("Mi", 20), ("Gi", 30), ("Ti", 40)]),
)
def test_binary_units_are_powers_of_two(number: int, unit: tuple[str, int]) -> None:
    name, power = unit

    assert quantity(f"{number}{name}") == number << power


@given(st.text() | st.integers() | st.floats() | st.none())
def test_nonsense_is_a_value_error(text: object) -> None:
    with suppress(ValueError):
        assert quantity(text) >= 0
    with suppress(ValueError):
        assert duration(text) >= timedelta(0)


@given(documents)
def test_any_document_is_read_or_refused(document: object) -> None:
    with suppress(Stalled):
        parse_group(document)
