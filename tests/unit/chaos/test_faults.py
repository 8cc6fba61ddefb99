"""The fault proxy's rules: which requests they hit."""

import pytest

from tests.chaos.faults import Fault, Operation, Rule, Rules, S3Request, parse_request

PUT = S3Request(Operation.PUT_OBJECT, "b/k", "10.0.0.1")


@pytest.mark.parametrize(
    ("method", "target", "operation", "key"),
    [
        ("GET", "/", Operation.LIST_BUCKETS, ""),
        ("PUT", "/b", Operation.CREATE_BUCKET, "b"),
        ("GET", "/b/?list-type=2&prefix=a%2F&encoding-type=url", Operation.LIST_OBJECTS_V2, "b/"),
        ("GET", "/b?prefix=a&list-type=2", Operation.LIST_OBJECTS_V2, "b"),
        ("GET", "/b?uploads&prefix=a", Operation.LIST_UPLOADS, "b"),
        ("GET", "/b?lifecycle", Operation.OTHER, "b"),
        ("POST", "/b?delete", Operation.DELETE_OBJECTS, "b"),
        ("PUT", "/b/k", Operation.PUT_OBJECT, "b/k"),
        ("GET", "/b/a%20b/%25", Operation.GET_OBJECT, "b/a b/%"),
        ("HEAD", "/b/k", Operation.HEAD_OBJECT, "b/k"),
        ("DELETE", "/b/k", Operation.DELETE_OBJECT, "b/k"),
        ("POST", "/b/k?uploads", Operation.CREATE_UPLOAD, "b/k"),
        ("PUT", "/b/k?uploadId=u&partNumber=3", Operation.UPLOAD_PART, "b/k"),
        ("PUT", "/b/k?partNumber=3&uploadId=u", Operation.UPLOAD_PART, "b/k"),
        ("POST", "/b/k?uploadId=u", Operation.COMPLETE_UPLOAD, "b/k"),
        ("DELETE", "/b/k?uploadId=u", Operation.ABORT_UPLOAD, "b/k"),
        ("GET", "/b/k?uploadId=u&max-parts=5", Operation.LIST_PARTS, "b/k"),
        ("PUT", "/b/k?tagging", Operation.OTHER, "b/k"),
    ],
)
def test_an_operation_is_parsed_from_method_and_target(
    method: str, target: str, operation: Operation, key: str
) -> None:
    assert parse_request(method, target, "10.0.0.1") == S3Request(operation, key, "10.0.0.1")


@pytest.mark.parametrize(
    ("rule", "is_hit"),
    [
        (Rule(fault=Fault.RESET), True),
        (Rule(fault=Fault.RESET, operations=(Operation.GET_OBJECT, Operation.PUT_OBJECT)), True),
        (Rule(fault=Fault.RESET, operations=(Operation.GET_OBJECT,)), False),
        (Rule(fault=Fault.RESET, key="^b/k$"), True),
        (Rule(fault=Fault.RESET, key="_landfall/"), False),
        (Rule(fault=Fault.RESET, clients=("10.0.0.2", "10.0.0.1")), True),
        (Rule(fault=Fault.RESET, clients=("10.0.0.0/24",)), True),
        (Rule(fault=Fault.RESET, clients=("10.0.1.0/24",)), False),
        (Rule(fault=Fault.RESET, probability=0), False),
        (Rule(fault=Fault.RESET, times=0), False),
    ],
)
def test_a_rule_hits_the_requests_that_it_matches(rule: Rule, is_hit: bool) -> None:
    rules = Rules(seed=1)
    rules.add(rule)

    assert (rules.choose_fault(PUT) is not None) is is_hit


def test_a_rule_stops_after_its_number_of_times() -> None:
    rules = Rules(seed=1)
    rules.add(Rule(fault=Fault.RESET, times=2))

    assert [rules.choose_fault(PUT) is not None for _ in range(4)] == [True, True, False, False]


def test_a_restored_hit_does_not_count() -> None:
    rules = Rules(seed=1)
    active = rules.add(Rule(fault=Fault.TRUNCATE, times=1))
    assert rules.choose_fault(PUT) is active

    active.restore()

    assert rules.choose_fault(PUT) is active


def test_latencies_come_on_top_of_the_first_other_fault() -> None:
    rules = Rules(seed=1)
    slow, reset, _ = (
        rules.add(Rule(fault=fault)) for fault in (Fault.LATENCY, Fault.RESET, Fault.ERROR_500)
    )

    assert (rules.latencies(PUT), rules.choose_fault(PUT)) == ([slow], reset)


def test_a_seed_hits_the_same_requests_whatever_other_rules_do() -> None:
    def hits(seed: int, others: int) -> list[bool]:
        rules = Rules(seed)
        rules.add(Rule(fault=Fault.RESET, operations=(Operation.GET_OBJECT,), probability=0.5))
        rules.add(Rule(fault=Fault.ERROR_500, operations=(Operation.PUT_OBJECT,), probability=0.5))
        for _ in range(others):
            rules.choose_fault(S3Request(Operation.GET_OBJECT, "b/k", "10.0.0.1"))
        return [rules.choose_fault(PUT) is not None for _ in range(100)]

    assert hits(7, 0) == hits(7, 50) != hits(8, 0)
    assert 20 < sum(hits(7, 0)) < 80


def test_seconds_vary_by_the_jitter_and_are_never_negative() -> None:
    active = Rules(seed=1).add(Rule(fault=Fault.LATENCY, seconds=0.1, jitter=0.2))

    drawn = [active.seconds() for _ in range(1000)]

    assert min(drawn) == 0
    assert 0.25 < max(drawn) <= 0.3


def test_a_lifted_rule_hits_nothing() -> None:
    rules = Rules(seed=1)
    first, second = (
        rules.add(Rule(fault=Fault.RESET)),
        rules.add(Rule(fault=Fault.PARTITION, clients=("10.0.0.1",))),
    )
    assert (rules.partition_of("10.0.0.1"), rules.partition_of("10.0.0.2")) == (second, None)

    assert rules.lift(second.number) == [second]
    assert (rules.partition_of("10.0.0.1"), rules.choose_fault(PUT)) == (None, first)
    assert (rules.lift(), rules.lift(), rules.choose_fault(PUT)) == ([first], [], None)


def test_a_client_that_is_not_an_address_is_rejected() -> None:
    with pytest.raises(ValueError, match="driver-0"):
        Rules(seed=1).add(Rule(fault=Fault.RESET, clients=("driver-0",)))
