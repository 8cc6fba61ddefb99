"""The patch that writes a status contains only what differs."""

from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from landfall_operator.runtime.action_executor import difference

VALUES = st.recursive(
    st.one_of(st.integers(), st.text(max_size=3), st.lists(st.integers(), max_size=3)),
    lambda inner: st.dictionaries(st.sampled_from("abc"), inner, max_size=3),
)
OBJECTS = st.dictionaries(st.sampled_from("abc"), VALUES, max_size=3)


def merged(target: Any, patch: Any) -> Any:
    """Apply a merge patch by RFC 7386, as the API server does."""
    if not isinstance(patch, dict):
        return patch
    result = dict(target) if isinstance(target, dict) else {}
    for name, value in patch.items():
        if value is None:
            result.pop(name, None)
        else:
            result[name] = merged(result.get(name), value)
    return result


@given(OBJECTS, OBJECTS)
def test_a_difference_turns_one_object_into_the_other(before: Any, after: Any) -> None:
    assert merged(before, difference(before, after)) == after


@pytest.mark.parametrize("same", [{}, {"a": {"b": [1, 2]}, "c": "d"}])
def test_equal_objects_have_no_difference(same: Any) -> None:
    assert difference(same, same) == {}
