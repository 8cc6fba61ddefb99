"""The diagrams cannot fall behind the tables that they are drawn from."""

import html
import re
from collections.abc import Callable
from pathlib import Path

import pytest

from dev.docs import records, scaling, stages
from landfall.ledger import MAY_FOLLOW, Add, LaneOwnership, Open, Yield
from landfall.ledger.offsets import TopicPartition
from landfall_operator.core.rollout import TABLE
from tests.support.ledger.sample_ledger import SampleLedger
from tests.support.pages.markdown import DOCS


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


@pytest.mark.parametrize("file", sorted((DOCS / "images").glob("*.svg")), ids=lambda f: f.stem)
def test_no_text_is_cut_off_at_the_edges_of_a_picture(file: Path) -> None:
    picture = file.read_text()
    width = float(re.findall(r'viewBox="0 0 ([\d.]+) ', picture)[0])
    outside = []
    for attributes, text in re.findall(r"<text ([^>]*)>([^<]*)</text>", picture):
        given = dict(re.findall(r'([\w-]+)="([^"]*)"', attributes))
        x, size = float(given["x"]), float(given.get("font-size", 12))
        # The mean width of a character, of the size of its font.
        length = len(html.unescape(text)) * size * (0.6 if "mono" in attributes else 0.5)
        left = x - length * {"middle": 0.5, "end": 1.0}.get(given.get("text-anchor", ""), 0.0)
        if left < -2 or left + length > width + 2:
            outside.append(text)

    assert outside == []
