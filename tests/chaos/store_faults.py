"""Faults that clients of the store see: rules of the proxy that are in force for a while."""

from collections.abc import Callable, Mapping

from tests.chaos.environment import Environment
from tests.chaos.faults import Fault as ProxyFault
from tests.chaos.faults import Operation, Rule
from tests.chaos.outcome import NotInjected
from tests.chaos.schedule import Fault, Kind

WRITES = (
    Operation.PUT_OBJECT,
    Operation.CREATE_UPLOAD,
    Operation.UPLOAD_PART,
    Operation.COMPLETE_UPLOAD,
    Operation.ABORT_UPLOAD,
)
OPERATION_CHOICES: tuple[tuple[Operation, ...], ...] = (
    (),
    WRITES,
    (Operation.PUT_OBJECT,),
    (Operation.COMPLETE_UPLOAD,),
    (Operation.UPLOAD_PART, Operation.CREATE_UPLOAD),
    (Operation.GET_OBJECT, Operation.HEAD_OBJECT, Operation.LIST_OBJECTS_V2, Operation.LIST_PARTS),
)
"""Which operations a fault may hit, one of them drawn: all, or those that are most critical."""

UPLOAD_ATTEMPTS = 30
"""How often a fault looks for open uploads to abort, before it is given up."""

MakeRule = Callable[[Fault], Rule]


def _rule(proxy_fault: ProxyFault, seconds: float = 0.0, jitter: float = 0.0) -> MakeRule:
    def make(fault: Fault) -> Rule:
        operations = OPERATION_CHOICES[fault.pick % len(OPERATION_CHOICES)]
        return Rule(
            fault=proxy_fault,
            operations=operations,
            probability=fault.share,
            seconds=seconds,
            jitter=jitter,
        )

    return make


def _rule_for_writes(
    proxy_fault: ProxyFault, operations: tuple[Operation, ...] = WRITES, seconds: float = 0.0
) -> MakeRule:
    def make(fault: Fault) -> Rule:
        return Rule(
            fault=proxy_fault,
            operations=operations,
            probability=fault.share,
            seconds=seconds,
            jitter=seconds * 0.9,
        )

    return make


RULES: Mapping[Kind, MakeRule] = {
    Kind.LATENCY: _rule(ProxyFault.LATENCY, seconds=1.5, jitter=1.5),
    Kind.RESET_BEFORE: _rule(ProxyFault.RESET),
    Kind.RESET_AFTER: _rule(ProxyFault.RESET_AFTER),
    Kind.ERROR_500: _rule(ProxyFault.ERROR_500),
    Kind.ERROR_503: _rule(ProxyFault.SLOW_DOWN),
    Kind.TRUNCATED: lambda fault: Rule(fault=ProxyFault.TRUNCATE, probability=fault.share),
    Kind.NO_ANSWER: _rule_for_writes(ProxyFault.ERROR_500_AFTER),
    Kind.LATE_EFFECT: _rule_for_writes(ProxyFault.DELAY, seconds=10.0),
    # Only S3's answer to a completion may be 200 with an error. A store that answered so to a PUT
    # would break its contract, and no client could be right.
    Kind.ERROR_IN_200: lambda fault: Rule(
        fault=(ProxyFault.ERROR_200, ProxyFault.ERROR_200_AFTER)[fault.pick % 2],
        operations=(Operation.COMPLETE_UPLOAD,),
        probability=max(fault.share, 0.5),
    ),
    Kind.SILENCE: _rule(ProxyFault.SILENCE),
    Kind.AWAY: lambda _: Rule(fault=ProxyFault.PARTITION),
    # Every request, as if the key had been rotated: drivers must come back by themselves.
    Kind.DENIED: lambda _: Rule(fault=ProxyFault.DENIED),
}


def inject_rule(environment: Environment, fault: Fault) -> str:
    """Put the rule of the fault's kind in force; the fault counts if it hit a request."""
    return _apply_for(environment, RULES[fault.kind](fault), fault.seconds)


def cut_off(environment: Environment, fault: Fault) -> str:
    """Cut one driver off from the store, by its pod's address; all other pods still reach it."""
    pods = sorted(
        environment.groups[fault.target].pods("driver").values(),
        key=lambda pod: pod["metadata"]["name"],
    )
    addresses = [pod["status"]["podIP"] for pod in pods if pod["status"].get("podIP")]
    if not addresses:
        raise NotInjected("no driver pod has an address")
    address = addresses[fault.pick % len(addresses)]
    return _apply_for(
        environment, Rule(fault=ProxyFault.PARTITION, clients=(address,)), fault.seconds
    )


def _apply_for(environment: Environment, rule: Rule, seconds: float) -> str:
    before = _hit_count(environment, rule)
    with environment.proxy.during(rule):
        environment.wait(seconds)
    # Rules of the same fault on the other track are counted, too: this only proves a hit roughly.
    hits = _hit_count(environment, rule) - before
    if not hits:
        raise NotInjected("no request was hit")
    operations = ", ".join(rule.operations) or "all"
    return f"{hits} hits of {rule.probability:.0%} of {operations}"


def _hit_count(environment: Environment, rule: Rule) -> int:
    return sum(environment.proxy.counts().faults.get(rule.fault, {}).values())


def abort_uploads(environment: Environment, fault: Fault) -> str:
    """Abort every open upload of a group, decided or not, as a bucket's lifecycle rule would."""
    bucket = environment.groups[fault.target].scene.bucket
    # An upload is open for a fraction of a second, so this waits until it finds some.
    for _ in range(UPLOAD_ATTEMPTS):
        if aborted := bucket.abort_uploads():
            return f"{aborted} uploads"
        environment.wait(0.3)
    raise NotInjected("no upload was open")


INJECTORS: Mapping[Kind, Callable[[Environment, Fault], str]] = {
    **dict.fromkeys(RULES, inject_rule),
    Kind.CUT_OFF: cut_off,
    Kind.UPLOADS_GONE: abort_uploads,
}
