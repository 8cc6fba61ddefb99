"""A listing is in the order of names, or refused."""

from datetime import UTC, datetime

import pytest

from landfall.errors import Reason, Stalled
from landfall.objects import ListedFile
from landfall.store.in_order import in_order


def listed(*names: str, size: int = 1) -> list[ListedFile]:
    return [ListedFile(name, "etag", size, datetime.now(UTC)) for name in names]


def names(files: list[ListedFile], after: str = "") -> list[str]:
    return [file.name for file in in_order(files, after, "gs://b/in/")]


def test_a_listing_in_order_is_as_it_was() -> None:
    assert names(listed("a-b", "a.csv", "a/b", "aé", "日本", "😀")) == [
        *("a-b", "a.csv", "a/b", "aé", "日本", "😀")
    ]


def test_a_listing_may_begin_before_its_name() -> None:
    assert names(listed("a", "b", "c"), after="b") == ["c"]


@pytest.mark.parametrize("found", [("a/b", "a-b"), ("a", "a")])
def test_a_listing_in_another_order_is_refused(found: tuple[str, str]) -> None:
    with pytest.raises(Stalled, match="list gs://b/in/: not in the order of names") as refused:
        names(listed(*found))

    assert refused.value.reason is Reason.STORE_UNSAFE


def test_what_only_stands_for_a_folder_is_no_file() -> None:
    assert names(listed("", "a/", size=0) + listed("a/b", "c/")) == ["a/b", "c/"]
