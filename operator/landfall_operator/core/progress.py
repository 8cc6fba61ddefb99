"""What the rollout's status remembers of each pass, apart from its stages. Pure.

Obstacles, crashes and commits are observed at one moment and matter later, also to an operator that
has been restarted. So they are kept in the status, which is written only when one of them changes.
"""

from landfall_operator.api.reasons import is_environment
from landfall_operator.api.revisions import digest_of
from landfall_operator.api.status import Crashes, Held, RolloutStatus, Stage
from landfall_operator.api.status_values import whole_seconds
from landfall_operator.core.driver_health import STARTING, has_committed, judged_driver, obstacle
from landfall_operator.core.rollout import forgive
from landfall_operator.core.snapshot import Driver, GroupObservation
from landfall_operator.core.trials import is_outdated, with_result


def with_progress(observed: GroupObservation, rollout: RolloutStatus) -> RolloutStatus:
    """The rollout with what this observation adds; its stage and its roles stay the same."""
    rollout = _with_present_names(observed, _without_outdated_rejection(observed, rollout))
    driver = judged_driver(observed, rollout)
    held = _held(observed, rollout, driver)
    ended = rollout.held is not None and held is None
    committed = _committed(observed, rollout)
    first_commit = rollout.stage is Stage.WATCHING and committed != rollout.committed
    updates = {
        "held": held,
        "committed": committed,
        "crashes": _crashes(observed, rollout, driver),
        "resumed": whole_seconds(observed.now) if ended or first_commit else rollout.resumed,
    }
    return with_result(observed, rollout.model_copy(update=updates))


def _without_outdated_rejection(
    observed: GroupObservation, rollout: RolloutStatus
) -> RolloutStatus:
    """Drops the rejection once the user asks for another spec, which then gets its own attempt.

    A spec that the environment kept from starting gets another attempt when it is due.
    """
    if rollout.rejected is None or observed.spec is None:
        return rollout
    if digest_of(observed.spec) != rollout.rejected.digest or is_outdated(rollout, observed.spec):
        return forgive(rollout)
    active = observed.record(rollout.active)
    went_back = active is not None and active.digest != rollout.rejected.digest
    due = rollout.retry is not None and observed.now >= rollout.retry.time
    if went_back and due and not rollout.target and is_environment(rollout.rejected.reason):
        return rollout.model_copy(update={"rejected": None})
    return rollout


def _with_present_names(observed: GroupObservation, rollout: RolloutStatus) -> RolloutStatus:
    """The roles, under the names that revisions of the former scheme get when they start again."""

    def present(revision: str | None) -> str | None:
        record = None if observed.driver(revision) else observed.record(revision)
        return record.revision if record else revision

    roles = ("active", "target", "previous", "committed")
    return rollout.model_copy(update={role: present(getattr(rollout, role)) for role in roles})


def _held(observed: GroupObservation, rollout: RolloutStatus, driver: Driver | None) -> Held | None:
    found = obstacle(observed, driver)
    if found is None:
        return None
    since = rollout.held.since if rollout.held else whole_seconds(observed.now)
    return Held(reason=found.reason, since=since)


def _committed(observed: GroupObservation, rollout: RolloutStatus) -> str | None:
    active = observed.driver(rollout.active)
    return rollout.active if active and has_committed(observed, active) else rollout.committed


def _crashes(
    observed: GroupObservation, rollout: RolloutStatus, driver: Driver | None
) -> Crashes | None:
    """The crashes of the judged driver since its last commit; None while there are none."""
    if driver is None:
        return None
    known = rollout.crashes
    if known is None or known.revision != driver.revision:
        # A driver that is watched may have crashed before it was: these are not counted.
        seen = 0 if rollout.stage in STARTING else driver.restarts
        known = Crashes(revision=driver.revision, pod=driver.pod, restarts=seen, count=0)
    if not driver.pod:
        return known if known.count else None
    seen = known.restarts if known.pod == driver.pod else 0
    cause = driver.pod_failure or driver.last_exit
    own = cause is None or not is_environment(cause.reason)
    count = known.count + (max(0, driver.restarts - seen) if own else 0)
    if has_committed(observed, driver):
        count = 0
    if not driver.restarts and not count:
        return None
    return Crashes(revision=driver.revision, pod=driver.pod, restarts=driver.restarts, count=count)
