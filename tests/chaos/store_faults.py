"""Faults that a client of the store sees: rules of the proxy, in force for a while."""

from collections.abc import Callable, Mapping

from tests.chaos.environment import Environment
from tests.chaos.faults import Fault as Blow
from tests.chaos.faults import Operation, Rule
from tests.chaos.outcome import NotApplied
from tests.chaos.schedule import Fault, Kind

WRITES = (
    Operation.PUT_OBJECT,
    Operation.CREATE_UPLOAD,
    Operation.UPLOAD_PART,
    Operation.COMPLETE_UPLOAD,
    Operation.ABORT_UPLOAD,
)
NARROWED: tuple[tuple[Operation, ...], ...] = (
    (),
    WRITES,
    (Operation.PUT_OBJECT,),
    (Operation.COMPLETE_UPLOAD,),
    (Operation.UPLOAD_PART, Operation.CREATE_UPLOAD),
    (Operation.GET_OBJECT, Operation.HEAD_OBJECT, Operation.LIST_OBJECTS_V2, Operation.LIST_PARTS),
)
"""Whom a fault may strike: everything, or what hurts most."""

Make = Callable[[Fault], Rule]


def _rule(blow: Blow, seconds: float = 0.0, jitter: float = 0.0) -> Make:
    def make(fault: Fault) -> Rule:
        operations = NARROWED[fault.pick % len(NARROWED)]
        return Rule(
            fault=blow,
            operations=operations,
            probability=fault.share,
            seconds=seconds,
            jitter=jitter,
        )

    return make


def _of_writes(
    blow: Blow, operations: tuple[Operation, ...] = WRITES, seconds: float = 0.0
) -> Make:
    def make(fault: Fault) -> Rule:
        return Rule(
            fault=blow,
            operations=operations,
            probability=fault.share,
            seconds=seconds,
            jitter=seconds * 0.9,
        )

    return make


RULES: Mapping[Kind, Make] = {
    Kind.LATENCY: _rule(Blow.LATENCY, seconds=1.5, jitter=1.5),
    Kind.RESET_BEFORE: _rule(Blow.RESET),
    Kind.RESET_AFTER: _rule(Blow.RESET_AFTER),
    Kind.ERROR_500: _rule(Blow.ERROR_500),
    Kind.ERROR_503: _rule(Blow.SLOW_DOWN),
    Kind.TRUNCATED: lambda fault: Rule(fault=Blow.TRUNCATE, probability=fault.share),
    Kind.NO_ANSWER: _of_writes(Blow.ERROR_500_AFTER),
    Kind.LATE_EFFECT: _of_writes(Blow.DELAY, seconds=10.0),
    # S3 answers so to completions; a 200 to a PUT that did nothing would be a store that lies
    Kind.ERROR_IN_200: lambda fault: Rule(
        fault=(Blow.ERROR_200, Blow.ERROR_200_AFTER)[fault.pick % 2],
        operations=(Operation.COMPLETE_UPLOAD,),
        probability=max(fault.share, 0.5),
    ),
    Kind.SILENCE: _rule(Blow.SILENCE),
    Kind.AWAY: lambda _: Rule(fault=Blow.PARTITION),
}


def strike(stage: Environment, fault: Fault) -> str:
    """Have such a rule in force; counts if a request was hit."""
    return _during(stage, RULES[fault.kind](fault), fault.seconds)


def cut_off(stage: Environment, fault: Fault) -> str:
    """One driver alone does not reach the store, by its pod's address; its executors and the others
    do.
    """
    pods = sorted(
        stage.groups[fault.target].pods("driver").values(), key=lambda pod: pod["metadata"]["name"]
    )
    addresses = [pod["status"]["podIP"] for pod in pods if pod["status"].get("podIP")]
    if not addresses:
        raise NotApplied("no driver has an address")
    address = addresses[fault.pick % len(addresses)]
    return _during(stage, Rule(fault=Blow.PARTITION, clients=(address,)), fault.seconds)


def _during(stage: Environment, rule: Rule, seconds: float) -> str:
    before = _hits(stage, rule)
    with stage.proxy.during(rule):
        stage.rest(seconds)
    # while another rule of the same kind is in force, some of these are its own
    hits = _hits(stage, rule) - before
    if not hits:
        raise NotApplied("no request came by")
    whom = ", ".join(rule.operations) or "all"
    return f"{hits} hits of {rule.probability:.0%} of {whom}"


def _hits(stage: Environment, rule: Rule) -> int:
    return sum(stage.proxy.counts().faults.get(rule.fault, {}).values())


INJECTORS: Mapping[Kind, Callable[[Environment, Fault], str]] = {
    **dict.fromkeys(RULES, strike),
    Kind.CUT_OFF: cut_off,
}
