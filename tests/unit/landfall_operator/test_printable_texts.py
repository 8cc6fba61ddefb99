"""What the operator writes for people commands no terminal, whatever it quotes."""

from datetime import UTC, datetime

import pytest

from landfall_operator.api.status import GroupStatus, RequestStatus
from landfall_operator.api.status_values import printable
from landfall_operator.core.actions import EmitEvent
from landfall_operator.objects.manifests import Owner
from landfall_operator.runtime.event_recorder import MAX_MESSAGE_CHARACTERS, manifest

NOW = datetime(2026, 1, 1, tzinfo=UTC)
HOSTILE = "a\x1b[2J\x9b\u202e\u200b\rb"
SHOWN = r"a\x1b[2J\x9b\u202e\u200b\rb"


@pytest.mark.parametrize("text", ["", "clicks/3: 5 records\nof café", SHOWN])
def test_other_texts_stay(text: str) -> None:
    assert printable(text) == text


def test_a_message_of_the_status_is_escaped_and_read_back_as_it_is() -> None:
    made = RequestStatus(verb="retry", accepted=False, message=HOSTILE, time=NOW)

    assert made.message == SHOWN
    assert RequestStatus.model_validate_json(made.model_dump_json(by_alias=True)) == made


def test_so_are_those_that_somebody_else_has_written() -> None:
    condition = {"type": "Ready", "status": "True", "reason": "Unknown", "message": HOSTILE}
    conditions = [{**condition, "observedGeneration": 1, "lastTransitionTime": NOW}]

    found = GroupStatus.model_validate({"conditions": conditions}, by_alias=True)

    assert [condition.message for condition in found.conditions] == [SHOWN]


def test_a_message_of_an_event_is_escaped_and_cut() -> None:
    owner = Owner("n", "clicks", "u")

    made = manifest(owner, EmitEvent("Normal", "Requested", HOSTILE * 1_000), NOW)

    assert made["message"].startswith(SHOWN)
    assert made["message"].isprintable()
    assert len(made["message"]) == MAX_MESSAGE_CHARACTERS
