"""Names of parts in Google Cloud Storage, how they are joined, and advice about the bucket."""

from datetime import timedelta
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from landfall.objects import Part, Upload
from landfall.store.gcs import parts
from landfall.store.gcs.parts import PARTS, joins, part_name, part_names, upload_of

ID = "0123456789abcdef" * 2
PART = Part("f" * 32, 4)


def upload(parts: int) -> Upload:
    return Upload("orders/1", ID, tuple(Part(f"{n:032x}", 4) for n in range(parts)), "token")


@given(key=st.text(min_size=1), number=st.integers(1, 10_000))
def test_the_name_of_a_part_says_its_upload(key: str, number: int) -> None:
    assert upload_of(part_name(key, ID, number, PART)) == (key, ID)


@pytest.mark.parametrize(
    "name", ["orders/1", PARTS, f"{PARTS}orders", f"{PARTS}a/b/c", f"{PARTS}{ID}/1"]
)
def test_another_name_says_none(name: str) -> None:
    assert upload_of(name) is None


def test_an_id_of_another_store_is_refused() -> None:
    with pytest.raises(ValueError, match="not an upload id"):
        part_name("orders/1", "../x", 1, PART)


@pytest.mark.parametrize("parts", [1, 31, 32, 33, 64, 1000, 1024, 1025, 2500])
def test_any_number_of_parts_is_joined_in_order(parts: int) -> None:
    made = upload(parts)
    content = {name: [name] for name in part_names(made)}

    for name, sources in joins(made):
        assert 1 <= len(sources) <= 32
        content[name] = [part for source in sources for part in content[source]]

    assert content["orders/1"] == part_names(made)


def test_other_parts_are_joined_to_other_names() -> None:
    changed = Upload("orders/1", ID, (PART, *upload(39).parts), "token")

    names = {name for name, _ in joins(changed)} & {name for name, _ in joins(upload(40))}

    assert {name for name in names if "00001" in name} == set()


def rule(age: int, action: str = "Delete", **condition: Any) -> dict[str, Any]:
    return {"action": {"type": action}, "condition": {"age": age, **condition}}


@pytest.mark.parametrize(
    ("rules", "days"),
    [
        ([], None),
        ([rule(3), rule(2)], 2),
        ([rule(3, "SetStorageClass")], None),
        ([{"action": {"type": "Delete"}, "condition": {"isLive": False}}], None),
        ([rule(3, matchesPrefix=["other/"])], None),
        ([rule(3, matchesPrefix=["other/", "logs/"])], 3),
        ([rule(3, matchesPrefix=["logs/parsed/_landfall/_parts/orders"])], 3),
        ([rule(1, matchesPrefix=["logs/parsed/_landfall/_probe/"])], None),
    ],
)
def test_the_shortest_age_at_which_parts_are_deleted_counts(
    rules: list[dict[str, Any]], days: int | None
) -> None:
    expected = None if days is None else timedelta(days=days)

    assert parts.upload_lifetime(rules, "logs/parsed/") == expected


@pytest.mark.parametrize(
    ("bucket", "said"),
    [
        ({}, []),
        ({"softDeletePolicy": {"retentionDurationSeconds": "0"}}, []),
        ({"softDeletePolicy": {"retentionDurationSeconds": "604800"}}, ["soft delete"]),
        ({"versioning": {"enabled": False}}, []),
        ({"versioning": {"enabled": True}}, ["old versions"]),
        ({"retentionPolicy": {"retentionPeriod": "60"}}, ["retention policy"]),
    ],
)
def test_what_makes_deleted_parts_cost_is_said(bucket: dict[str, Any], said: list[str]) -> None:
    found = parts.of(bucket)

    assert len(found) == len(said)
    assert all(word in sentence for word, sentence in zip(said, found, strict=True))
