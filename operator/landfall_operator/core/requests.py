"""Changes a rollout as a user requests: ``landfall_operator.api.verbs``. Pure.

    retry      forgets the rejection and the crashes; a spec that was rolled back is tried again
    rollback   Settled, Opening or Watching: the active spec is rejected in favor of another one
    promote    Trying, or a trial that rejected it: the revision takes over all the same;
               Warming → Draining, without waiting for the target; Watching → Settled
    abort      before the next one opens: the requested spec is rejected, the active revision stays;
               afterwards like rollback
    restart    Settled, Opening or Watching → Draining, with the active revision as the target

A request never starts a driver itself. It changes stage and roles, and the passes that follow act
on these as always. So a request that is carried out twice, because the operator died before it
removed the annotation, does no more than one that is carried out once.
"""

from collections.abc import Callable, Mapping
from dataclasses import dataclass
from datetime import datetime

from landfall_operator.api.reasons import ConditionReason
from landfall_operator.api.revisions import digest_of, generation_of
from landfall_operator.api.status import (
    Rejected,
    RequestStatus,
    RolloutStatus,
    Stage,
    TrialResult,
)
from landfall_operator.api.status_values import whole_seconds
from landfall_operator.api.verbs import Verb, still_answered
from landfall_operator.core import trials
from landfall_operator.core.rollout import forgive, is_rollback
from landfall_operator.core.snapshot import GroupObservation, RecordedSpec

_RUNS = frozenset({Stage.SETTLED, Stage.OPENING, Stage.WATCHING})
_BEFORE_OPENING = frozenset({Stage.TRYING, Stage.WARMING, Stage.YIELDING, Stage.DRAINING})


@dataclass(frozen=True, slots=True)
class RequestResult:
    """The outcome of a request.

    Attributes:
        verb: what was requested.
        value: the value of the annotation; empty for one that is removed when it is answered.
        accepted: whether it was carried out.
        message: what happens now, or why it was refused and what to do instead.
        rollout: the rollout from now on.
    """

    verb: Verb
    value: str
    accepted: bool
    message: str
    rollout: RolloutStatus

    def status(self, now: datetime) -> RequestStatus:
        """Return what users read of it."""
        return RequestStatus(
            verb=str(self.verb), accepted=self.accepted, message=self.message, time=now
        )


class _RefusedError(Exception):
    """The request makes no sense now; the message names the reason, and what to do instead."""


def answer(observed: GroupObservation, rollout: RolloutStatus) -> RequestResult | None:
    """The answer to the group's request; None if there is none.

    Args:
        observed: the group and everything that belongs to it.
        rollout: the rollout as of this observation.
    """
    if observed.request is None:
        return None
    verb, value = observed.request
    try:
        changed, message = _CARRY_OUT[verb](observed, rollout, value)
    except _RefusedError as refused:
        return RequestResult(
            verb, value, accepted=False, message=f"refused: {refused}", rollout=rollout
        )
    return RequestResult(verb, value, accepted=True, message=message, rollout=changed)


def answered_requests(
    observed: GroupObservation, given: RequestResult | None
) -> dict[str, str] | None:
    """The values that are not carried out again, with this answer's; None without any."""
    kept = still_answered(observed.annotations, observed.status.answered_requests or {})
    new = {str(given.verb): given.value} if given and given.value else {}
    return {**kept, **new} or None


Changed = tuple[RolloutStatus, str]


def _retry(_observed: GroupObservation, rollout: RolloutStatus, _: str) -> Changed:
    rejected = rollout.rejected
    message = "the driver tries again what it waited for"
    if rejected:
        message = f"generation {rejected.generation} is tried again; {message}"
    return forgive(rollout), message


def _rollback(observed: GroupObservation, rollout: RolloutStatus, value: str) -> Changed:
    if rollout.stage in _BEFORE_OPENING:
        raise _RefusedError(_under_way(rollout))
    _check_runs(rollout)
    back = _fallback(observed, rollout, value)
    if rollout.rejected or _active_digest(observed, rollout) != _requested_digest(observed):
        raise _RefusedError(
            f"{rollout.active} is not what the spec asks for, but what it was rolled back to; "
            "apply the spec that you want"
        )
    changed = _rejecting(observed, rollout, "rolled back by request").model_copy(
        update={
            "stage": Stage.WATCHING,
            "since": _since(rollout, Stage.WATCHING, observed.now),
            "previous": back.revision,
            "retry": None,
        }
    )
    return changed, f"rolling back from {rollout.active} to {back.revision}"


def _promote(observed: GroupObservation, rollout: RolloutStatus, _: str) -> Changed:
    trial = rollout.trial
    if trial and (rollout.stage is Stage.TRYING or trials.is_rejected(rollout)):
        overruled = trials.given_up(trial, TrialResult.OVERRULED)
        changed = forgive(rollout) if trials.is_rejected(rollout) else rollout
        message = f"continuing with {trial.revision}, regardless of its trial"
        return changed.model_copy(update={"trial": overruled}), message
    match rollout.stage:
        case Stage.WARMING:
            message = f"stopping {rollout.active}; {rollout.target} starts when it has handed over"
            return _moved(rollout, Stage.DRAINING, observed.now), message
        case Stage.WATCHING:
            settled = _moved(forgive(rollout), Stage.SETTLED, observed.now)
            message = f"{rollout.active} is settled and not rolled back any more"
            return settled.model_copy(update={"previous": None}), message
        case Stage.YIELDING | Stage.DRAINING | Stage.OPENING:
            raise _RefusedError(f"{rollout.target or rollout.active} takes over already")
    raise _RefusedError("no rollout is under way")


def _abort(observed: GroupObservation, rollout: RolloutStatus, value: str) -> Changed:
    if is_rollback(rollout):
        raise _RefusedError("a rollback is under way; retry tries the requested spec again")
    if rollout.stage in {Stage.OPENING, Stage.WATCHING} and rollout.previous:
        return _rollback(observed, rollout, value)
    trial = trials.present_trial(rollout)
    if trial:
        stays = _rejecting(observed, rollout, "given up by request").model_copy(
            update={"trial": trials.given_up(trial)}
        )
        message = f"{trial.revision} is given up; {rollout.active} stays"
        return _moved(stays, Stage.WATCHING, observed.now), message
    if rollout.stage not in _BEFORE_OPENING or not rollout.target:
        raise _RefusedError("no rollout is under way")
    stage = Stage.OPENING if rollout.stage is Stage.DRAINING else Stage.WATCHING
    stays = _rejecting(observed, rollout, "given up by request").model_copy(update={"target": None})
    message = f"{rollout.target} is given up; {rollout.active} stays"
    return _moved(stays, stage, observed.now), message


def _restart(observed: GroupObservation, rollout: RolloutStatus, _: str) -> Changed:
    if rollout.stage is Stage.DRAINING and rollout.target == rollout.active:
        return rollout, f"{rollout.active} restarts already"
    if rollout.stage in _BEFORE_OPENING:
        raise _RefusedError(_under_way(rollout))
    _check_runs(rollout)
    restarting = rollout.model_copy(update={"target": rollout.active})
    message = f"stopping {rollout.active}; it starts again when it has handed over"
    return _moved(restarting, Stage.DRAINING, observed.now), message


_CARRY_OUT: Mapping[Verb, Callable[[GroupObservation, RolloutStatus, str], Changed]] = {
    Verb.RETRY: _retry,
    Verb.ROLLBACK: _rollback,
    Verb.PROMOTE: _promote,
    Verb.ABORT: _abort,
    Verb.RESTART: _restart,
}


def _check_runs(rollout: RolloutStatus) -> None:
    if rollout.active is None or rollout.stage not in _RUNS:
        raise _RefusedError(
            "no driver runs" if not rollout.active else f"the group is {rollout.stage}"
        )


def _under_way(rollout: RolloutStatus) -> str:
    if trial := trials.present_trial(rollout):
        return f"{trial.revision} is being tried; abort gives it up, promote continues with it"
    return f"{rollout.target} is about to take over; abort gives it up, promote continues with it"


def _fallback(observed: GroupObservation, rollout: RolloutStatus, named: str) -> RecordedSpec:
    """The recorded spec to go back to: the named one, else the previous one, else the newest."""
    others = [r for r in observed.records if r.revision != rollout.active]
    named = named.partition(" ")[0]  # what follows only makes it another request
    if named:
        found = [r for r in others if named in {r.revision, r.label}]
        if not found:
            known = ", ".join(r.revision for r in reversed(others)) or "none"
            # A line break in it must not look like one of the message.
            shown = named if named.isprintable() else repr(named)
            raise _RefusedError(f"there is no other revision {shown}; kept are: {known}")
        return found[-1]
    previous = [r for r in others if r.revision == rollout.previous]
    if not (previous or others):
        raise _RefusedError("there is no other revision to go back to")
    return (previous or others)[-1]


def _rejecting(observed: GroupObservation, rollout: RolloutStatus, message: str) -> RolloutStatus:
    """The rollout with the requested spec rejected, so that only another one replaces it."""
    digest = _requested_digest(observed)
    failed = trials.next_revision(rollout)
    if not digest or not failed:
        raise _RefusedError("the spec is not valid; apply the spec that you want")
    rejected = Rejected(
        digest=digest,
        reason=ConditionReason.ROLLED_BACK,
        message=message,
        generation=generation_of(failed),
    )
    return rollout.model_copy(update={"rejected": rejected})


def _requested_digest(observed: GroupObservation) -> str | None:
    return digest_of(observed.spec) if observed.spec else None


def _active_digest(observed: GroupObservation, rollout: RolloutStatus) -> str | None:
    driver = observed.driver(rollout.active)
    record = observed.record(rollout.active)
    return driver.digest if driver else record.digest if record else None


def _moved(rollout: RolloutStatus, stage: Stage, now: datetime) -> RolloutStatus:
    return rollout.model_copy(update={"stage": stage, "since": whole_seconds(now)})


def _since(rollout: RolloutStatus, stage: Stage, now: datetime) -> datetime | None:
    return rollout.since if rollout.stage is stage else whole_seconds(now)
