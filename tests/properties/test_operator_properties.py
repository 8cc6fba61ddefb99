"""Whatever a user edits and whatever fails, the operator raises no error, stops acting once nothing
changes any more, and leaves exactly one driver that lands.
"""

from datetime import timedelta
from typing import Any

from hypothesis import given, settings
from hypothesis import strategies as st

from landfall.api.contract import (
    CommitStatus,
    DriverPhase,
    Failure,
    PartitionStatus,
    Rates,
    Status,
    Workers,
)
from landfall_operator.api.reasons import ConditionReason
from landfall_operator.api.revisions import digest_of, revision_of
from landfall_operator.api.status import GroupStatus, Rejected, RolloutStatus, Stage
from landfall_operator.core import rollout
from landfall_operator.core.desired_state import desired_state
from landfall_operator.core.schedules import run_status
from landfall_operator.core.snapshot import (
    GroupObservation,
    PodFailure,
    ReceivedStatus,
    RecordedSpec,
    RevisionDriver,
    sample_of,
)
from landfall_operator.reporting.group_status import report
from tests.support.examples import share
from tests.support.operator.cluster_model import START, TICK, World, decided, group
from tests.support.operator.cluster_model_drivers import ENVIRONMENT
from tests.support.operator.run_strategies import IDLES, RUNS, SCHEDULES

IMAGES = st.sampled_from(
    ["good", "better", "broken", "slow", "bad", "failing", "deaf", "odd", "endless"]
)
SPECS = st.fixed_dictionaries(
    {
        "image": IMAGES,
        "replicas": st.integers(0, 3),
        "state": st.sampled_from(["Running", "Running", "Running", "Suspended"]),
        "badRecords": st.sampled_from([{}, {"maxRatio": "0.5"}]),
        "uploadPolicy": st.sampled_from([{}, {"maxAge": "1m"}]),
        "upgrade": st.sampled_from(["HandOver", "Recreate", "Shadow", "Canary"]).map(
            lambda strategy: {"strategy": strategy, "trialTimeout": "30m"}
        ),
        "autoscaling": st.sampled_from([None, {"minReplicas": 1, "maxReplicas": 4}]),
    }
)
SLEEP = st.sampled_from(
    [
        {},
        {},
        {"schedule": {"cron": "5 * * * *", "boundary": "Hour"}},
        {"idle": {"scaleToZero": "5m", "lookEvery": "2m"}},
    ]
)
GROUPS = st.builds(lambda spec, sleep: group(**spec, **sleep), SPECS, SLEEP)
WORKING = SPECS.map(
    lambda spec: group(
        **{
            **spec,
            "state": "Running",
            "image": "good" if spec["image"] == "good" else "better",
        }
    )
)
"""Specs that land, unless something of the environment is away."""
FAULTS = st.one_of(
    st.tuples(st.just("crash"), st.none()),
    st.tuples(st.just("lose"), st.none()),
    st.tuples(st.just("away"), st.sampled_from(ENVIRONMENT)),
    st.tuples(st.just("back"), st.none()),
    st.tuples(
        st.just("wait"),
        st.sampled_from(
            [timedelta(seconds=15), timedelta(minutes=2), timedelta(minutes=12), timedelta(hours=2)]
        ),
    ),
)
STEPS = st.one_of(
    st.tuples(st.just("edit"), GROUPS),
    st.tuples(st.just("invalidate"), st.none()),
    st.tuples(st.just("rename"), st.none()),
    FAULTS,
)


def perform(world: World, step: tuple[str, Any]) -> None:
    match step:
        case ("edit", changed):
            world.edit(changed)
        case ("invalidate", _):
            world.edit(None, "not valid")
        case ("rename", _):
            rename_active(world)
        case _:
            fail(world, *step)
    world.settle()
    check_previous(world)


def fail(world: World, kind: str, value: Any) -> None:
    """Something of the cluster or of the environment fails, or comes back, or time passes."""
    match kind:
        case "crash":
            for deployed in world.drivers.values():
                deployed.pod = None
        case "lose":
            world.drivers.clear()
            world.hashes.clear()
            world.driver_specs.clear()
        case "away":
            world.away.add(value)
        case "back":
            world.away.clear()
        case "wait":
            world.run(value, TICK if value < timedelta(hours=1) else timedelta(minutes=4))


def rename_active(world: World) -> None:
    """The group was made by a former release, which named revisions by fewer fields."""
    active = world.status.rollout.active
    if active in world.drivers and world.status.rollout.stage is Stage.SETTLED:
        former = f"g1-former{len(world.records)}"
        if former not in world.drivers and world.is_whole(active):
            world.rename(active, former)


def check_previous(world: World) -> None:
    """A revision that never committed is never rolled back to."""
    rollout = world.status.rollout
    previous = world.observe().record(rollout.previous)
    assert previous is None or previous.digest in world.committed


def finish(world: World) -> None:
    """Ask for a new spec that works, and wait longer than any timeout."""
    world.away.clear()
    world.edit(group("good", route={"pattern": "final={date}"}))
    world.run(timedelta(minutes=30), timedelta(minutes=1))
    world.run(timedelta(hours=3), timedelta(minutes=20))


@settings(max_examples=share(25))
@given(GROUPS, st.lists(STEPS, max_size=8))
def test_after_any_history_the_last_good_spec_lands_alone(
    first: Any, steps: list[tuple[str, Any]]
) -> None:
    world = World(first)
    for step in steps:
        perform(world, step)

    finish(world)

    assert world.landing == ["good"]
    assert [(d.image, d.replicas) for d in world.drivers.values()] == [("good", 1)]
    assert (world.status.phase, world.status.rollout.stage) == ("Running", Stage.SETTLED)
    assert world.group
    assert world.status.rollout.active == revision_of(world.group)


@settings(max_examples=share(25))
@given(
    GROUPS,
    st.lists(STEPS, max_size=6),
    st.tuples(WORKING, st.sampled_from(ENVIRONMENT)),
    st.lists(FAULTS, max_size=5),
)
def test_after_any_outage_what_is_asked_for_lands(
    first: Any, steps: list[tuple[str, Any]], during: tuple[Any, str], faults: list[Any]
) -> None:
    asked, outage = during
    world = World(first)
    for step in steps:
        perform(world, step)
    world.away.add(outage)
    world.edit(asked)
    world.run(timedelta(hours=1), timedelta(minutes=1))
    for step in faults:
        perform(world, step)

    world.away.clear()
    world.run(timedelta(minutes=30), timedelta(minutes=1))
    world.run(timedelta(hours=4), timedelta(minutes=4))

    assert [d.digest for d in world.drivers.values()] == [digest_of(asked)]
    assert world.landing == [asked.spec.image]
    assert world.status.rollout.rejected is None


@settings(max_examples=share(15))
@given(GROUPS, st.lists(STEPS, max_size=8))
def test_after_any_history_a_deleted_group_loses_its_finalizer(
    first: Any, steps: list[tuple[str, Any]]
) -> None:
    world = World(first)
    for step in steps:
        perform(world, step)

    world.deleting = True
    world.run(timedelta(minutes=30), timedelta(minutes=1))

    assert not world.finalizer
    assert all(d.replicas == 0 for d in world.drivers.values())


@settings(max_examples=share(15))
@given(GROUPS, st.lists(STEPS, max_size=6), st.integers(0, 5))
def test_an_operator_that_dies_between_any_two_actions_continues(
    first: Any, steps: list[Any], done: int
) -> None:
    world = World(first)
    for step in steps:
        match step:
            case ("edit", changed):
                world.edit(changed)
        _, actions = decided(world.observe())
        for action in actions[:done]:
            world.execute(action)
        perform(world, step)

    finish(world)

    assert (world.landing, len(world.drivers)) == (["good"], 1)


# ------------------------------------------------------------------------- observations of any kind

REVISIONS = [revision_of(group(image)) for image in ("good", "better", "bad")]
MAYBE_REVISION = st.one_of(st.none(), st.sampled_from([*REVISIONS, "g9-gone"]))
COUNTS = st.integers(0, 10**12)
SECONDS = st.floats(0, 10**7, allow_nan=False)
TIMES = st.integers(-1000, 100_000).map(lambda seconds: START + timedelta(seconds=seconds))

STATUSES = st.builds(
    Status,
    version=st.just("0"),
    group=st.just("clicks"),
    namespace=st.just("logs"),
    generation=st.just(1),
    epoch=st.integers(1, 9),
    lane=st.just("0"),
    phase=st.sampled_from(DriverPhase),
    time=st.just(START.isoformat()),
    started=st.just(START.isoformat()),
    lag_records=COUNTS,
    lag_seconds=SECONDS,
    overdue_seconds=SECONDS,
    rounds=st.integers(0, 4),
    commits=st.builds(
        CommitStatus,
        total=COUNTS,
        failures=COUNTS,
        consecutive_failures=st.integers(0, 20),
        last_time=st.one_of(st.none(), st.just(START.isoformat())),
        last_failure=st.one_of(
            st.none(),
            st.builds(
                Failure,
                time=st.just(START.isoformat()),
                reason=st.sampled_from(["StoreUnavailable", "SourceDenied", "Other"]),
                message=st.text(max_size=400),
            ),
        ),
        unapplied=st.integers(0, 4),
    ),
    rates=st.builds(
        Rates,
        landed_records=COUNTS,
        landed_bytes=COUNTS,
        input_bytes=COUNTS,
        dead_lettered=COUNTS,
        records_per_second=SECONDS,
        input_bytes_per_second=SECONDS,
        arrived_records=st.one_of(st.none(), COUNTS),
        task_seconds=st.one_of(st.none(), SECONDS),
    ),
    partitions=st.lists(
        st.builds(
            PartitionStatus,
            topic=st.just("clicks"),
            partition=st.integers(0, 9),
            checkpoint=COUNTS,
            end_offset=COUNTS,
            lag_records=COUNTS,
            lag_seconds=SECONDS,
            overdue_seconds=SECONDS,
            blocked=st.sampled_from(
                [None, None, "BadRecordsOverLimit", "DataLoss", "SomethingNew"]
            ),
        ),
        max_size=4,
    ).map(tuple),
    workers=st.one_of(st.none(), st.builds(Workers, *[st.integers(0, 9)] * 3)),
    schedule=st.one_of(st.none(), SCHEDULES),
)
REPORTS = st.one_of(st.none(), st.builds(ReceivedStatus, STATUSES, TIMES))
POD_FAILURES = st.one_of(
    st.none(), st.builds(PodFailure, st.sampled_from(ConditionReason), st.text(max_size=20))
)


def driver(revision: str) -> st.SearchStrategy[RevisionDriver]:
    return st.builds(
        RevisionDriver,
        revision=st.just(revision),
        digest=st.sampled_from([digest_of(group("good")), "other"]),
        image=st.just("good"),
        replicas=st.integers(0, 1),
        pods=st.integers(0, 2),
        restarts=st.integers(0, 5),
        terminating=st.booleans(),
        pod_failure=POD_FAILURES,
        report=REPORTS,
    )


ROLLOUTS = st.builds(
    RolloutStatus,
    stage=st.sampled_from(Stage),
    since=st.one_of(st.none(), TIMES),
    active=MAYBE_REVISION,
    target=MAYBE_REVISION,
    previous=MAYBE_REVISION,
    rejected=st.one_of(
        st.none(),
        st.builds(
            Rejected,
            digest=st.sampled_from([digest_of(group("good")), digest_of(group("bad"))]),
            reason=st.sampled_from(ConditionReason),
            message=st.just("why"),
            generation=st.just(1),
        ),
    ),
)


@st.composite
def observations(draw: st.DrawFn) -> GroupObservation:
    spec = draw(st.one_of(st.none(), GROUPS))
    drivers = {
        revision: draw(driver(revision)) for revision in draw(st.sets(st.sampled_from(REVISIONS)))
    }
    reports = [d.report for d in drivers.values() if d.report]
    return GroupObservation(
        now=draw(TIMES),
        name="clicks",
        namespace="logs",
        uid="u",
        generation=draw(st.integers(1, 9)),
        deleting=draw(st.booleans()),
        finalizer=draw(st.booleans()),
        spec=spec,
        spec_error="" if spec else "not valid",
        status=GroupStatus(
            rollout=draw(ROLLOUTS),
            runs=draw(st.one_of(st.none(), st.lists(RUNS.map(run_status), max_size=2).map(tuple))),
            idle=draw(st.one_of(st.none(), IDLES)),
        ),
        records=tuple(
            RecordedSpec(i, made, "good", START)
            for i, made in enumerate(draw(st.lists(GROUPS, max_size=3)))
        ),
        drivers=drivers,
        samples=tuple(sorted(filter(None, map(sample_of, reports)), key=lambda s: s.time)),
    )


@settings(max_examples=share(150))
@given(observations())
def test_every_observation_gives_actions_and_a_status(observed: GroupObservation) -> None:
    desired, actions = decided(observed)
    status = report(observed, desired)

    assert decided(observed) == (desired, actions)
    assert GroupStatus.model_validate_json(status.model_dump_json(by_alias=True)) == status


@settings(max_examples=share(50))
@given(observations())
def test_deletion_comes_before_everything_else(observed: GroupObservation) -> None:
    stage = desired_state(observed).rollout.stage

    assert not observed.deleting or stage in {Stage.DELETING, Stage.DELETED}


@given(st.sampled_from(Stage), st.frozensets(st.sampled_from(rollout.RolloutEvent)))
def test_the_next_event_is_in_the_row_of_the_stage(
    stage: Stage, events: frozenset[rollout.RolloutEvent]
) -> None:
    event = rollout.next_event(stage, events)

    assert event is None or (event in events and event in rollout.TABLE[stage])
