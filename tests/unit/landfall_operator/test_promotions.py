"""What a driver answers to the request to promote a backfill."""

import pytest

from landfall_operator.core.backfill_snapshot import PromotionAnswer
from landfall_operator.runtime.promotions import parse_answer


@pytest.mark.parametrize(
    ("code", "body", "expected"),
    [
        (
            200,
            '{"outcome":"done","records":["x"],"message":"recorded in slot 41; `undo` takes it"}',
            PromotionAnswer("done", "recorded in slot 41; `undo` takes it", 41),
        ),
        (
            200,
            '{"outcome":"done","message":"fix is promoted already, in slot 41"}',
            PromotionAnswer("done", "fix is promoted already, in slot 41", 41),
        ),
        (202, '{"outcome":"waiting"}', PromotionAnswer("waiting", "")),
        (
            409,
            '{"outcome":"refused","message":"objects of slot 7"}',
            PromotionAnswer("refused", "objects of slot 7"),
        ),
        (400, '{"outcome":"refused","message":"bad"}', PromotionAnswer("failed", "bad")),
    ],
)
def test_the_answers_of_a_driver_are_understood(
    code: int, body: str, expected: PromotionAnswer
) -> None:
    assert parse_answer(code, body) == expected


@pytest.mark.parametrize(
    "body",
    ["", "[]", "null", '{"outcome": "else"}', '{"outcome": []}', "[" * 100_000, b"\xff", "\ud800"],
)
def test_any_other_answer_is_tried_again(body: str | bytes) -> None:
    for code in (200, 401, 404, 500):
        assert parse_answer(code, body).outcome == "failed"
