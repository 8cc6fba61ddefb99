"""The tables of ``make chaos``, and when a run is sound."""

from dataclasses import replace

from tests.chaos import table
from tests.chaos.outcome import (
    MAX_KINDS_NAMED,
    CheckResult,
    FaultResult,
    GroupResult,
    LoadResult,
    Outcome,
    Pause,
    describe_kinds,
)
from tests.chaos.schedule import KAFKA, RAW, STORE, Fault, Kind


def result(
    kind: Kind, target: str, began: float, ended: float, *, injected: bool = True
) -> FaultResult:
    return FaultResult(Fault(0, began, kind, target), began, ended, injected, "")


LANDED = GroupResult(
    990, 10, (10.0, 20.0, 70.0, 118.0, 150.0, 400.0), 0, 12.0, CheckResult(), 300, 20
)
OUTCOME = Outcome(
    seed=7,
    minutes=2,
    results=(
        result(Kind.ERROR_500, STORE, 5, 14),
        result(Kind.DRIVER_FROZEN, RAW, 19, 60),
        result(Kind.DRIVER_FROZEN, "another", 19, 60),
        result(Kind.SCALED, RAW, 30, 30, injected=False),
        result(Kind.KAFKA_KILLED, KAFKA, 71, 80),
    ),
    requests_hit={"Error500": 30, "Reset": 12},
    load=LoadResult(
        acknowledged=1000, aborted=50, in_doubt=3, payload_bytes=6_000_000, seconds=120
    ),
    groups={RAW: LANDED},
    environment={"machine": "2 cores"},
)


def test_the_tables_list_what_was_done_and_its_outcome() -> None:
    assert table.markdown(OUTCOME) == (
        "| figure | value |\n"
        "| --- | --- |\n"
        "| seed, minutes | 7, 2 |\n"
        "| faults injected | 4, of 3 kinds |\n"
        "| store requests hit by faults | 42 (Error500 30, Reset 12) |\n"
        "| records produced | 1,000 acknowledged, 50 in aborted transactions, 3 in doubt |\n"
        "| load held | 8 records/s, 0.05 MB/s of payload |\n"
        "| raw: landed | 990 records and 10 dead letters, in 6 commits |\n"
        "| raw: replaced | 300 objects, by 20 others |\n"
        "| raw: missing, duplicates, misplaced, corrupted | 0, 0, 0, 0 |\n"
        "| raw: longest pause between commits | 50 s, during: driver frozen |\n"
        "| raw: lag at the end | 0 records, landed 12 s after load and faults ended |\n"
        "| machine | 2 cores |\n"
        "\n"
        "| fault | injected |\n"
        "| --- | --- |\n"
        "| driver frozen | 2 |\n"
        "| 500 | 1 |\n"
        "| broker killed | 1 |\n"
    )


def test_a_run_that_measured_growth_has_a_third_table() -> None:
    grown = replace(OUTCOME, growth=[("raw: ledger, KiB", "1.0 to 9.0")])

    assert table.markdown(grown) == table.markdown(OUTCOME) + (
        "\n| growth | first to last |\n| --- | --- |\n| raw: ledger, KiB | 1.0 to 9.0 |\n"
    )


def test_pauses_begin_before_the_end_of_the_load_and_end_with_a_commit() -> None:
    assert LANDED.longest_pause(120) == Pause(20.0, 70.0)
    assert LANDED.longest_pause(15) == Pause(0.0, 10.0)
    assert LANDED.longest_pause(160) == Pause(150.0, 400.0)


def test_a_run_is_sound_only_if_every_group_is() -> None:
    late = replace(LANDED, seconds_to_land=None)
    wrong = [
        replace(LANDED, check=CheckResult(**{name: 1}))
        for name in ("missing", "duplicates", "misplaced", "corrupted")
    ]
    hanging = replace(
        LANDED, check=CheckResult(committed_by_kafka=("10 of t, offsets 2970 to 2979",))
    )
    outcome = replace(OUTCOME, groups={RAW: hanging})
    assert outcome.is_sound
    assert "| raw: aborted by its producer, committed by Kafka | 10 of t" in table.markdown(outcome)
    odd = replace(LANDED, check=CheckResult(other=("fsck: I4 is broken",)))

    assert OUTCOME.is_sound
    for group in (late, odd, *wrong):
        assert not replace(OUTCOME, groups={RAW: LANDED, "parquet": group}).is_sound


def test_kinds_are_described_with_their_number() -> None:
    kinds = [Kind.AWAY, Kind.KAFKA_KILLED, Kind.KAFKA_KILLED]

    assert describe_kinds(kinds) == "broker killed (2), store away"
    assert describe_kinds(list(Kind)[: MAX_KINDS_NAMED + 2]).endswith(", and 2 other kinds")
