"""The section ``spec.compact``: what it needs, and what holds for a topic."""

from typing import Any

import pytest

from landfall.api.spec import Compact, Keep, RowDedupe, TopicSpecs, parse_group
from landfall.errors import Stalled
from tests.support.kubernetes.groups import document

COMPLETE: dict[str, Any] = {"completeness": {"delay": "1h"}}


def test_its_defaults_are_shown_in_the_guide() -> None:
    spec = parse_group(document(**COMPLETE, compact={})).spec

    assert spec.compact == Compact(below=64 * 2**20, target=256 * 2**20)


@pytest.mark.parametrize(
    ("spec", "expected"),
    [
        ({"compact": {}}, "completeness is not set"),
        (
            {**COMPLETE, "compact": {"below": "2Gi"}},
            "below 2Gi is over target 256Mi",
        ),
        (
            {**COMPLETE, "compact": {"dedupe": {"key": "id"}}, "output__format": "Text"},
            "rows have fields in Json, Parquet, Orc, Avro, not in output.format Text",
        ),
        (
            {**COMPLETE, "compact": {"dedupe": {"key": "meta..id"}}, "output__format": "Json"},
            "key 'meta..id' has an empty step",
        ),
        (
            {**COMPLETE, "compact": {"sort": "ts"}, "output__format": "SequenceFile"},
            "compact.sort: rows have fields in Json, Parquet, Orc, Avro, not in output.format",
        ),
        (
            {**COMPLETE, "compact": {"sort": "meta."}, "output__format": "Json"},
            "sort 'meta.' has an empty step",
        ),
    ],
)
def test_what_does_not_fit_is_refused(spec: dict[str, Any], expected: str) -> None:
    with pytest.raises(Stalled) as error:
        parse_group(document(**spec))

    assert expected in str(error.value)


def test_a_topic_has_a_key_of_its_own() -> None:
    spec = parse_group(
        document(
            **COMPLETE,
            output__format="Json",
            compact={"below": "1Mi"},
            topics=[{"pattern": "orders", "compact": {"dedupe": {"key": "id", "keep": "Last"}}}],
        )
    ).spec

    specs = TopicSpecs.of(spec)

    assert specs.for_topic("clicks").compact == Compact(below=2**20)
    assert specs.for_topic("orders").compact == Compact(
        below=2**20, dedupe=RowDedupe(key="id", keep=Keep.LAST)
    )


def test_only_some_topics_are_merged() -> None:
    spec = parse_group(
        document(**COMPLETE, topics=[{"pattern": "orders", "compact": {"target": "1Gi"}}])
    ).spec

    specs = TopicSpecs.of(spec)

    assert specs.for_topic("clicks").compact is None
    assert specs.for_topic("orders").compact == Compact(target=2**30)
