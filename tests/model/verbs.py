"""What a person asks for, and what the product then records."""

from collections.abc import Mapping
from typing import Any

from landfall.api.verbs import DropRequest, SkipRequest, UnblockRequest
from landfall.driver.decide.requests import (
    LedgerRequest,
    Observed,
    PlannedRecord,
    Refusal,
    decide_request,
)
from landfall.ledger import Decision, State
from landfall.ledger.offsets import TopicPartition
from landfall.source import Watermarks

WHO, WHY = "on call", "the model"
SKIP_ONE = "skip one"
VERBS = ("skip", SKIP_ONE, "unblock", "drop")
"""``skip one`` goes on after the next record, which the log has."""


def decided(
    state: State, tp: TopicPartition, verb: str, marks: Watermarks
) -> tuple[PlannedRecord, ...]:
    """What the verb records; nothing if it is refused. Of several records only the first counts:
    the others are the next decision, so that a driver may end in between.
    """
    if tp not in state.members or (verb == "unblock" and tp not in state.blocked):
        return ()
    observed = Observed(marks, state.members[tp].topic_id)
    decision = Decision(verb, WHO, WHY, "2026-11-21T12:00:00Z")
    plan = decide_request(state, _requests(state, tp)[verb], observed, decision)
    return () if isinstance(plan, Refusal) else plan[:1]


def _requests(state: State, tp: TopicPartition) -> Mapping[str, LedgerRequest]:
    next_offset = state.checkpoint[tp] + 1
    at: dict[str, Any] = {"who": WHO, "why": WHY, "topic": tp.topic, "partition": tp.partition}
    return {
        "skip": SkipRequest(**at),
        SKIP_ONE: SkipRequest(**at, until=next_offset),
        "unblock": UnblockRequest(**at),
        "drop": DropRequest(**at),
    }
