"""Groups and Backfills in every state that a tool may wait in, with what the tools should see."""

from collections.abc import Callable
from dataclasses import dataclass
from datetime import timedelta
from typing import Any

from landfall_operator.api.backfill_status import BackfillPhase, BackfillStatus
from landfall_operator.api.status import GroupStatus
from landfall_operator.api.verbs import PAUSE
from landfall_operator.core.backfill_snapshot import MissingSpec
from landfall_operator.core.backfills import decide
from tests.support.operator.cluster_model import World, group
from tests.support.operator.seen_backfills import RUNNING, at, compared, seen

Json = dict[str, Any]
MINUTE = timedelta(minutes=1)


@dataclass(frozen=True)
class State:
    """An object in a state.

    Attributes:
        name: the state, in words.
        made: returns the object as the API server has it.
        kstatus: what kstatus should compute.
        argo: the health that Argo CD should show.
        deployed: the status of the condition Deployed; None for a Backfill.
    """

    name: str
    made: Callable[[], Json]
    kstatus: str
    argo: str
    deployed: str | None = None


def _running(image: str = "good", **spec: Any) -> World:
    world = World(group(image, **spec))
    world.run(5 * MINUTE)
    return world


def _stored(world: World) -> Json:
    status = world.status.model_dump(mode="json", by_alias=True, exclude_none=True)
    return _object("ConsumerGroup", world.generation, status, world.annotations)


def _object(kind: str, generation: int, status: Json, annotations: Json | None = None) -> Json:
    metadata = {"name": "clicks", "generation": generation, "annotations": annotations or {}}
    return {
        "apiVersion": "landfall.dev/v1alpha1",
        "kind": kind,
        "metadata": metadata,
        "spec": {},
        "status": status,
    }


def _starting() -> Json:
    world = World(group("slow"))
    world.run(MINUTE / 2)
    return _stored(world)


def _landing() -> Json:
    return _stored(_running())


def _replacing_is_refused() -> Json:
    """Landing while the store refuses to delete what a merge has replaced."""
    made = _landing()
    refused = {"type": "Replaced", "status": "False", "reason": "ReplacedObjectsNotDeleted"}
    made["status"]["conditions"].append(refused | {"message": "a/1: AccessDenied"})
    return made


def _paused_and_edited() -> Json:
    world = _running()
    world.annotations[PAUSE] = "true"
    world.edit(group("better"))
    world.run(MINUTE)
    return _stored(world)


def _rolling_out() -> Json:
    world = _running()
    world.edit(group("slow"))
    world.run(MINUTE)
    return _stored(world)


def _rolled_out() -> Json:
    world = _running()
    world.edit(group("better"))
    world.run(5 * MINUTE)
    return _stored(world)


def _rolled_back() -> Json:
    world = _running()
    world.edit(group("broken"))
    world.run(20 * MINUTE)
    assert world.landing == ["good"]
    return _stored(world)


def _invalid() -> Json:
    world = _running()
    world.edit(None, "spec.topics: wrong")
    world.run(MINUTE)
    return _stored(world)


def _suspended() -> Json:
    world = _running()
    world.edit(group(state="Suspended"))
    world.run(10 * MINUTE)
    assert world.landing == []
    return _stored(world)


def _without_commits() -> Json:
    world = _running()
    world.crashing.add("good")
    world.run(5 * MINUTE)
    return _stored(world)


GROUPS = (
    State(
        "created, seen by no operator",
        lambda: _object(
            "ConsumerGroup", 1, {"observedGeneration": GroupStatus().observed_generation}
        ),
        "InProgress",
        "Progressing",
    ),
    State("its first driver starts", _starting, "InProgress", "Progressing", "False"),
    State("landing", _landing, "Current", "Healthy", "True"),
    State("landing, refused a deletion", _replacing_is_refused, "Current", "Healthy", "True"),
    State("paused, then edited", _paused_and_edited, "InProgress", "Suspended", "False"),
    State("rolling out", _rolling_out, "InProgress", "Progressing", "False"),
    State("rolled out, and watched", _rolled_out, "Current", "Healthy", "True"),
    State("rolled back", _rolled_back, "Failed", "Degraded", "False"),
    State("not valid", _invalid, "Failed", "Degraded", "False"),
    State("suspended", _suspended, "Current", "Suspended", "True"),
)


def _backfill(status: BackfillStatus | None = None, **changes: Any) -> Callable[[], Json]:
    def made() -> Json:
        decided = decide(seen(status, **changes)).status
        return _object(
            "Backfill", 2, decided.model_dump(mode="json", by_alias=True, exclude_none=True)
        )

    return made


BACKFILLS = (
    State(
        "created, seen by no operator",
        lambda: _object(
            "Backfill", 1, {"observedGeneration": BackfillStatus().observed_generation}
        ),
        "InProgress",
        "Progressing",
    ),
    State(
        "without its group",
        _backfill(landing=MissingSpec("GroupNotFound", "there is no ConsumerGroup clicks")),
        "InProgress",
        "Progressing",
    ),
    State(
        "landing", _backfill(at(BackfillPhase.LANDING), pod=RUNNING), "InProgress", "Progressing"
    ),
    State("compared", _backfill(compared()), "Current", "Healthy"),
    State(
        "compared, to be promoted",
        _backfill(compared(), spec={"promote": "Automatic"}),
        "InProgress",
        "Progressing",
    ),
    State("promoted", _backfill(at(BackfillPhase.PROMOTED)), "Current", "Healthy"),
    State("failed", _backfill(at(BackfillPhase.FAILED, reason="Failed")), "Failed", "Degraded"),
    State("not valid", _backfill(spec={"share": "many"}), "Failed", "Degraded"),
)

STATES = (*GROUPS, *BACKFILLS)
NAMES = [f"group {each.name}" for each in GROUPS] + [f"backfill {each.name}" for each in BACKFILLS]
