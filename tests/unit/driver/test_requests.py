"""What each request records in the ledger, and what is refused, with what would help."""

from dataclasses import replace

import msgspec
import pytest

from landfall.api.next_steps import NEXT_STEPS, next_step
from landfall.api.verbs import (
    VERBS,
    DropRequest,
    ResetRequest,
    SkipRequest,
    UnblockRequest,
)
from landfall.driver.decide.requests import LedgerRequest, Observed, Refusal, decide_request
from landfall.errors import Reason, Stalled
from landfall.ledger import Blocked, Decision, Header, Member, Record, State
from landfall.ledger.offsets import Checkpoint, OffsetRange, TopicPartition
from landfall.ledger.task_results import LandedObject, ObjectKind
from landfall.objects import Part, Upload
from landfall.source import Watermarks

TP = TopicPartition("clicks", 3)
ASKED = Decision("verb", "kim", "INC-12", "2026-11-22T01:00:00Z")
HEADER = Header(9, "hash", 1, "w", "t")
BY = {"who": "kim", "why": "INC-12", "topic": "clicks", "partition": 3}


def state(checkpoint: int = 100, **changes: object) -> State:
    """Generation 2 owns the lane; generation 1 has landed clicks/3 up to the checkpoint."""
    base = State(
        generation=2, checkpoint=Checkpoint({TP: checkpoint}), members={TP: Member("id", 1)}
    )
    return replace(base, **changes)  # type: ignore[arg-type]


def observed(log_start: int = 0, end: int = 500, **changes: object) -> Observed:
    base = Observed(marks=Watermarks(log_start, end), topic_id="id")
    return replace(base, **changes)  # type: ignore[arg-type]


def blocked(reason: Reason, start: int = 100, end: int = 100) -> dict[TopicPartition, Blocked]:
    return {TP: Blocked(TP, reason, "message", OffsetRange(start, end))}


def records(
    request: LedgerRequest, at: State | None = None, seen: Observed | None = None
) -> list[Record]:
    plan = decide_request(at or state(), request, seen or observed(), ASKED)
    assert not isinstance(plan, Refusal), plan.message
    return [planned.make(header=HEADER) for planned in plan]


def refused(request: LedgerRequest, at: State | None = None, seen: Observed | None = None) -> str:
    plan = decide_request(at or state(), request, seen or observed(), ASKED)
    assert isinstance(plan, Refusal), plan
    return plan.message


def shown(found: list[Record]) -> list[dict[str, object]]:
    """The records without their headers."""
    as_dicts = [msgspec.json.decode(msgspec.json.encode(record)) for record in found]
    return [{k: v for k, v in record.items() if k != "header"} for record in as_dicts]


ASKED_JSON = {k: v for k, v in msgspec.to_builtins(ASKED).items() if v}
TP_JSON = {"topic": "clicks", "partition": 3}


def hole(start: int, end: int) -> dict[str, object]:
    piece = {"topic_partition": TP_JSON, "offsets": {"start": start, "end": end}}
    return {"type": "HOLE", "piece": piece, "reason": "INC-12", "decision": ASKED_JSON}


# ------------------------------------------------------------------------------------------- skip


def test_skip_records_exactly_the_expired_range() -> None:
    assert shown(records(SkipRequest(**BY), seen=observed(log_start=140))) == [hole(100, 140)]


def test_skip_until_passes_records_that_are_there() -> None:
    assert shown(records(SkipRequest(**BY, until=120))) == [hole(100, 120)]


def test_skip_of_a_topic_that_is_gone_records_up_to_its_last_known_end() -> None:
    gone = Observed(last_end=130)
    at = state(blocked=blocked(Reason.TOPIC_MISSING, 100, 150))

    drop = {
        "type": "DROP",
        "topic_partitions": [TP_JSON],
        "reason": "the topic is gone: INC-12",
    }
    assert shown(records(SkipRequest(**BY), seen=gone)) == [hole(100, 130), drop]
    assert shown(records(SkipRequest(**BY), at, Observed())) == [hole(100, 150), drop]


def lost_object(partition: int) -> LandedObject:
    key = f"clicks/dt=1/1_{partition}_00000000000000000040.json"
    return LandedObject(Upload(key, "u", (Part("e", 1),), "t"), ObjectKind.DATA, 5, 41, 59, 0)


def test_skip_gives_up_the_lost_objects_of_this_topic_partition_only() -> None:
    missing = {7: (lost_object(3), lost_object(4)), 8: (lost_object(4),)}
    at = state(blocked=blocked(Reason.OBJECT_LOST, 40, 60), missing=missing)

    (lost,) = records(SkipRequest(**BY), at)

    assert shown([lost])[0]["commit"] == 7
    assert lost.objects == (lost_object(3),)  # type: ignore[union-attr]
    assert lost.decision == ASKED  # type: ignore[union-attr]


@pytest.mark.parametrize(
    ("request_", "seen", "message"),
    [
        (SkipRequest(**BY), observed(), "nothing is lost: the log holds [0, 500), the checkpoint"),
        (SkipRequest(**BY, until=100), observed(), "everything before offset 100 is landed"),
        (SkipRequest(**BY, until=501), observed(), "the log ends at 500; the checkpoint is 100"),
        (SkipRequest(**BY), Observed(), "the topic is gone, and it is not known that records"),
        (
            SkipRequest(**BY),
            observed(topic_id="new"),
            "set spec.generation to 2, then `landfall reset --to earliest`",
        ),
    ],
)
def test_skip_is_refused_where_nothing_is_lost(
    request_: SkipRequest, seen: Observed, message: str
) -> None:
    assert message in refused(request_, seen=seen)


# ---------------------------------------------------------------------------------------- unblock


def unblocked(until: int) -> dict[str, object]:
    entry = {"topic_partition": TP_JSON} | ({"bad_records_until": until} if until >= 0 else {})
    return {"type": "UNBLOCK", "entries": [entry], "decision": ASKED_JSON}


def test_unblock_allows_bad_records_up_to_the_present_end_or_an_offset() -> None:
    seen = observed(stalled=Stalled(Reason.BAD_RECORDS, "too many"))

    assert shown(records(UnblockRequest(**BY), seen=seen)) == [unblocked(500)]
    assert shown(records(UnblockRequest(**BY, bad_records_until=120), seen=seen)) == [
        unblocked(120)
    ]


def test_unblock_accepts_a_truncated_log() -> None:
    at = state(blocked=blocked(Reason.DATA_LOSS))

    assert shown(records(UnblockRequest(**BY), at, observed(end=80))) == [unblocked(-1)]


@pytest.mark.parametrize(
    ("seen", "message"),
    [
        (observed(log_start=140), "offsets [100, 140) expired; `landfall skip` records the loss"),
        (Observed(), "`landfall skip` records what was lost"),
        (observed(topic_id="new"), "set spec.generation to 2"),
        (observed(end=100), "only after the checkpoint, 100"),
        (
            observed(stalled=Stalled(Reason.SOURCE_DENIED, "acl")),
            "stopped by SourceDenied; grant access, then `landfall retry`",
        ),
    ],
)
def test_unblock_is_refused_where_it_would_not_help(seen: Observed, message: str) -> None:
    assert message in refused(UnblockRequest(**BY), seen=seen)


# --------------------------------------------------------------------------------- drop and reset


def test_drop_says_how_much_is_not_landed() -> None:
    plan = decide_request(state(), DropRequest(**BY), observed(), ASKED)

    assert not isinstance(plan, Refusal)
    text = "DROP: clicks/3 leaves at offset 100; 400 offsets before 500 are not landed"
    assert plan[0].text == text
    assert shown([plan[0].make(header=HEADER)]) == [
        {
            "type": "DROP",
            "topic_partitions": [TP_JSON],
            "reason": "INC-12",
            "decision": ASKED_JSON,
        }
    ]


def test_reset_ahead_is_a_hole() -> None:
    assert shown(records(ResetRequest(**BY, to=200))) == [hole(100, 200)]
    assert shown(records(ResetRequest(**BY, to="latest"))) == [hole(100, 500)]


def added(start: int, topic_id: str = "id") -> dict[str, object]:
    entry = {"topic_partition": TP_JSON, "topic_id": topic_id, "start": start}
    return {"type": "ADD", "entries": [entry], "decision": ASKED_JSON}


def test_reset_back_drops_and_adds_in_a_new_generation() -> None:
    drop, add = shown(records(ResetRequest(**BY, to=40)))

    assert (drop["type"], drop["topic_partitions"]) == ("DROP", [TP_JSON])
    assert add == added(40)


def test_reset_of_the_same_topic_waits_for_no_object() -> None:
    seen = replace(observed(), is_due=True)

    assert shown(records(ResetRequest(**BY, to=40), seen=seen))[1] == added(40)


def test_reset_lets_in_what_was_dropped() -> None:
    out = State(generation=2, retired={TP: 1}, excluded=frozenset({TP}))

    assert shown(records(ResetRequest(**BY, to="earliest"), out, observed(log_start=7))) == [
        added(7)
    ]


def test_reset_of_a_recreated_topic_takes_its_new_id() -> None:
    found = shown(records(ResetRequest(**BY, to=0), seen=observed(topic_id="new")))

    assert found[1] == added(0, "new")


@pytest.mark.parametrize(
    ("at", "to", "seen", "message"),
    [
        (
            state(members={TP: Member("id", 2)}),
            40,
            observed(),
            (
                "generation 2 has named objects of it, and this is generation 2: set "
                "spec.generation to 3, so that no object is overwritten, then reset to 40"
            ),
        ),
        (state(retired={TP: 4}), 40, observed(), "set spec.generation to 5"),
        (state(), 100, observed(), "the checkpoint is at offset 100 already"),
        (state(), 501, observed(), "the log holds [0, 500)"),
        (state(), 20, observed(log_start=30), "the log holds [30, 500)"),
        (state(), 0, Observed(), "the log has none"),
        (
            state(),
            0,
            replace(observed(topic_id="new"), is_due=True),
            "objects of the former topic are committed and not known to be visible yet",
        ),
        (
            State(generation=2, retired={TP: 1}, excluded=frozenset({TP})),
            0,
            replace(observed(), is_due=True),
            "objects of the former topic",
        ),
    ],
)
def test_reset_is_refused_where_objects_would_be_overwritten_or_records_are_not_there(
    at: State, to: int, seen: Observed, message: str
) -> None:
    assert message in refused(ResetRequest(**BY, to=to), at, seen)


@pytest.mark.parametrize("request_", [SkipRequest(**BY), UnblockRequest(**BY), DropRequest(**BY)])
def test_what_is_not_in_the_ledger_is_named(request_: LedgerRequest) -> None:
    nothing = State(generation=2)
    dropped = replace(nothing, excluded=frozenset({TP}))

    assert refused(request_, nothing).startswith("clicks/3 is not in the ledger; ")
    assert "it was dropped" in refused(request_, dropped)


# ------------------------------------------------------------------------------------- next steps


def test_a_next_step_is_a_command_that_exists() -> None:
    for reason in NEXT_STEPS:
        words = next_step(reason, "clicks/3").split()
        assert words[0] == "landfall"
        assert words[1] in VERBS or "-".join(words[1:3]) in VERBS
    step = next_step(Reason.FILE_UNREADABLE, "hits/0")
    assert step == "landfall files retry GROUP.yaml hits --why '…'"


def test_what_no_command_helps_has_no_next_step() -> None:
    whole = {
        Reason.SOURCE_UNAVAILABLE,
        Reason.SPEC_INVALID,
        Reason.STORE_UNSAFE,
        Reason.OUTPUT_OCCUPIED,
        Reason.LEDGER_BROKEN,
        Reason.DESTINATION_CONFLICT,
        Reason.LEDGER_BEHIND,
        Reason.LEDGER_REWRITTEN,
    }

    assert set(Reason) - NEXT_STEPS.keys() == whole
    assert next_step(Reason.LEDGER_BROKEN, "clicks/3") == ""


@pytest.mark.parametrize(
    "wrong",
    [
        {"who": "", "why": "x", "topic": "t", "partition": 0},
        {"who": "x", "why": " ", "topic": "t", "partition": 0},
        {"who": "x", "why": "x", "topic": "", "partition": 0},
        {"who": "x", "why": "x", "topic": "t", "partition": -1},
    ],
)
def test_a_request_without_who_why_or_topic_partition_is_refused(wrong: dict[str, object]) -> None:
    with pytest.raises(msgspec.ValidationError):
        msgspec.convert(wrong, SkipRequest)
