"""Digests of specs and group files are computed once for each group in memory.

They are never those of another.
"""

import gc
from typing import Any

import pytest

from landfall_operator.api import revisions
from landfall_operator.api.revisions import digest_of, group_file, revision_of
from tests.support.operator.cluster_model import group

TOPICS: list[dict[str, Any]] = [{"pattern": "a", "route": {"pattern": "x"}}]


def test_equal_groups_have_one_digest_and_others_another() -> None:
    one, same, other = group(topics=TOPICS), group(topics=TOPICS), group()
    changed = one.model_copy(update={"spec": other.spec})

    assert digest_of(one) == digest_of(one) == digest_of(same)
    assert digest_of(changed) == digest_of(other) != digest_of(one)


def test_a_group_in_memory_has_its_digest_computed_once(monkeypatch: pytest.MonkeyPatch) -> None:
    made = group(topics=TOPICS)
    revision = revision_of(made)
    monkeypatch.setattr(revisions, "_driver_fields", None)

    assert revision_of(made) == revision


def test_a_group_in_memory_has_its_file_written_once(monkeypatch: pytest.MonkeyPatch) -> None:
    made = group(topics=TOPICS)
    file = group_file(made)
    assert group_file(group()) != file == group_file(group(topics=TOPICS))
    monkeypatch.setattr(revisions, "document", None)

    assert group_file(made) == file


def test_a_group_that_takes_the_place_of_another_in_memory_has_its_own() -> None:
    digests, files = set(), set()
    for n in range(50):
        one = group(generation=n + 1)
        digests.add(digest_of(one))
        files.add(group_file(one))
        del one

    gc.collect()
    assert len(digests) == len(files) == 50


def test_digests_and_files_go_with_their_groups() -> None:
    gc.collect()
    before = len(revisions._digests), len(revisions._files)
    kept = [group(generation=n + 1) for n in range(10)]
    for each in kept:
        digest_of(each)
        group_file(each)
    assert (len(revisions._digests), len(revisions._files)) == (before[0] + 10, before[1] + 10)

    del kept, each
    gc.collect()

    assert len(revisions._digests) <= before[0]
    assert len(revisions._files) <= before[1]
