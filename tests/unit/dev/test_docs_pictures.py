"""The diagrams cannot fall behind the tables that they are drawn from."""

import re
from collections.abc import Callable

import pytest

from dev.docs import records, scaling, stages
from landfall.ledger import MAY_FOLLOW, Add, LaneOwnership, Open, Yield
from landfall.ledger.offsets import TopicPartition
from landfall_operator.core.rollout import TABLE
from tests.support.sample_ledger import SampleLedger


def test_every_stage_and_every_event_is_in_the_picture() -> None:
    words = set(re.findall(r">([^<>]+)</text>", stages.picture()))
    events = {event for row in TABLE.values() for event in row}

    drawn = {word for text in words for word in re.split(r"[ ,]+", text)}

    assert {str(stage) for stage in TABLE} <= drawn
    assert {str(event) for event in events} <= drawn


def test_a_transition_that_is_not_drawn_is_an_error(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(stages, "WAYS", stages.WAYS[1:])

    with pytest.raises(ValueError, match="Settled"):
        stages.picture()


def test_every_record_is_in_the_picture() -> None:
    picture = records.picture()

    assert all(records.tag(kind) in picture for kinds in MAY_FOLLOW.values() for kind in kinds)


def test_a_record_that_has_no_place_is_an_error(monkeypatch: pytest.MonkeyPatch) -> None:
    fewer = {**MAY_FOLLOW, LaneOwnership.YIELDED: ()}
    monkeypatch.setattr(records, "MAY_FOLLOW", fewer)

    with pytest.raises(ValueError, match="yielded"):
        records.picture()


def test_who_has_the_lane_in_the_picture_is_what_the_fold_says() -> None:
    sample = SampleLedger()
    before, seen = sample.state.holding, []
    appends: list[Callable[[], object]] = [
        sample.open,
        lambda: sample.add(TopicPartition("clicks", 0)),
        sample.open,
        lambda: sample.append(lambda header: Yield(header=header, reason="drained")),
        sample.open,
    ]

    for append, kind in zip(appends, (Open, Add, Open, Yield, Open), strict=True):
        append()
        seen.append((sample.state.holding, records.after(before, kind)))
        before = sample.state.holding

    assert [folded for folded, _ in seen] == [drawn for _, drawn in seen]


SCALING = """
<!-- scaling:begin (printed by ...) -->

| slots | even | uneven | one | busy |
|---|---|---|---|---|
| 1 | 1.00 | 1.00 | 1.00 | 99% |
| 16 | 15.50 | 12.25 | 8.00 | 50% |

<!-- scaling:end -->
"""


def test_the_picture_of_speeds_is_drawn_from_the_table_of_its_page() -> None:
    assert scaling.table(SCALING) == (
        [1, 16],
        {"even": [1.0, 15.5], "uneven": [1.0, 12.25], "one": [1.0, 8.0]},
    )
    words = re.findall(r">([^<>]+)</text>", scaling.picture(SCALING))
    assert {"even: 15.5", "uneven: 12.2", "one: 8.0"} <= {*words}


def test_a_page_without_the_table_is_an_error() -> None:
    with pytest.raises(ValueError, match="scaling:begin"):
        scaling.picture("no table")
