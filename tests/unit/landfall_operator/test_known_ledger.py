"""The operator tells drivers how far their group's ledger has come."""

from dataclasses import replace
from datetime import timedelta

import pytest

from landfall.api.contract import KNOWN_LEDGER, LEDGER_ANCHOR
from landfall_operator.api.status import LedgerStatus
from landfall_operator.core.actions import Action, Apply, RemoveAnnotation
from landfall_operator.core.decide import decide
from landfall_operator.core.desired_state import desired_state
from landfall_operator.core.snapshot import GroupObservation
from landfall_operator.objects.names import ACCEPT_LEDGER
from landfall_operator.objects.pod_templates import OperatorContext, driver_template
from landfall_operator.reporting.group_status import report
from tests.support.operator.cluster_model import World, group

CONTEXT = OperatorContext("image", "landfall-system")
ACCEPT = {ACCEPT_LEDGER: "true"}


@pytest.fixture
def running() -> GroupObservation:
    world = World(group("good"))
    world.run(timedelta(minutes=5))
    return world.observe()


def landing(
    observed: GroupObservation,
    epoch: int,
    slot: int,
    known: LedgerStatus | None = None,
    tip: str = "",
) -> GroupObservation:
    """The same group, whose driver reports this position, and whose status has the other."""
    (driver,) = observed.drivers.values()
    assert driver.report
    status = replace(driver.report.status, epoch=epoch, slot=slot, tip=tip)
    answer = replace(driver.report, status=status)
    drivers = {driver.revision: replace(driver, report=answer)}
    written = observed.status.model_copy(update={"ledger": known})
    return replace(observed, drivers=drivers, status=written)


def silent(observed: GroupObservation) -> GroupObservation:
    (driver,) = observed.drivers.values()
    return replace(observed, drivers={driver.revision: replace(driver, report=None)})


def actions(observed: GroupObservation) -> tuple[Action, ...]:
    return decide(observed, desired_state(observed), CONTEXT)


def position_for_drivers(observed: GroupObservation, key: str = "ledger") -> str | None:
    """The position that the live ConfigMap gives to drivers; None if it is not applied."""
    applied = [a.manifest for a in actions(observed) if isinstance(a, Apply)]
    live = [m["data"] for m in applied if m["metadata"]["name"] == "clicks-driver" and "data" in m]
    return live[0].get(key, "") if live else None


def test_the_first_position_is_kept_and_handed_on(running: GroupObservation) -> None:
    first = landing(running, 1, 7)

    assert report(first, desired_state(first)).ledger == LedgerStatus(epoch=1, slot=7)
    assert position_for_drivers(first) == "1/7"


@pytest.mark.parametrize(
    ("epoch", "slot", "kept"),
    [(3, 100, 100), (3, 109, 100), (3, 110, 110), (4, 101, 101)],
)
def test_not_every_commit_is_written(
    running: GroupObservation, epoch: int, slot: int, kept: int
) -> None:
    later = landing(running, epoch, slot, LedgerStatus(epoch=3, slot=100))

    assert desired_state(later).ledger == LedgerStatus(epoch=epoch, slot=kept)


def test_the_position_outlives_drivers_that_do_not_answer(running: GroupObservation) -> None:
    known = LedgerStatus(epoch=3, slot=100)

    assert desired_state(silent(landing(running, 9, 9, known))).ledger == known


def test_a_driver_of_the_last_release_reports_none(running: GroupObservation) -> None:
    assert desired_state(landing(running, 1, -1)).ledger is None
    assert desired_state(landing(running, 1, 0, LedgerStatus(epoch=1, slot=0))).ledger


def test_drivers_read_it_when_they_start(running: GroupObservation) -> None:
    assert running.spec
    template = driver_template(running.spec, "image", "config", CONTEXT)
    (container,) = template["spec"]["containers"]

    assert {
        "name": KNOWN_LEDGER,
        "valueFrom": {
            "configMapKeyRef": {"name": "clicks-driver", "key": "ledger", "optional": True}
        },
    } in container["env"]


def test_drivers_get_none_if_the_user_accepts_their_ledger(running: GroupObservation) -> None:
    refused = silent(landing(running, 0, -1, LedgerStatus(epoch=3, slot=100)))

    assert position_for_drivers(refused) == "3/100"
    assert position_for_drivers(replace(refused, annotations=ACCEPT)) in {"", None}
    assert RemoveAnnotation(ACCEPT_LEDGER) not in actions(replace(refused, annotations=ACCEPT))


def test_the_annotation_goes_once_a_driver_lands(running: GroupObservation) -> None:
    landed = replace(landing(running, 1, 2, LedgerStatus(epoch=3, slot=100)), annotations=ACCEPT)

    assert RemoveAnnotation(ACCEPT_LEDGER) in actions(landed)
    status = report(landed, desired_state(landed))
    assert status.ledger == LedgerStatus(epoch=1, slot=2)
    after = replace(landed, annotations={}, status=status)
    assert RemoveAnnotation(ACCEPT_LEDGER) not in actions(after)
    assert position_for_drivers(after) == "1/2"


def test_an_annotation_in_advance_stays_until_it_is_needed(running: GroupObservation) -> None:
    early = replace(landing(running, 3, 100, LedgerStatus(epoch=3, slot=100)), annotations=ACCEPT)

    assert RemoveAnnotation(ACCEPT_LEDGER) not in actions(early)


TIP, OTHER = "ab" * 32, "cd" * 32


def test_the_hash_of_the_slot_is_kept_and_handed_on(running: GroupObservation) -> None:
    first = landing(running, 1, 7, tip=TIP)

    kept = report(first, desired_state(first)).ledger
    assert kept == LedgerStatus(epoch=1, slot=7, sha256=TIP)
    assert position_for_drivers(first, "anchor") == f"1/7:{TIP}"
    assert position_for_drivers(replace(first, annotations=ACCEPT), "anchor") in {"", None}
    assert running.spec
    (container,) = driver_template(running.spec, "image", "config", CONTEXT)["spec"]["containers"]
    assert {
        "name": LEDGER_ANCHOR,
        "valueFrom": {
            "configMapKeyRef": {"name": "clicks-driver", "key": "anchor", "optional": True}
        },
    } in container["env"]


@pytest.mark.parametrize("tip", ["", "3/4", TIP.upper(), TIP + "\n", "x" * 64])
def test_what_is_no_hash_is_not_kept(running: GroupObservation, tip: str) -> None:
    made = landing(running, 1, 7, tip=tip)

    assert desired_state(made).ledger == LedgerStatus(epoch=1, slot=7)
    assert position_for_drivers(made, "anchor") == ""


def test_a_position_of_the_last_release_gets_its_hash(running: GroupObservation) -> None:
    made = landing(running, 3, 101, LedgerStatus(epoch=3, slot=100), TIP)

    assert desired_state(made).ledger == LedgerStatus(epoch=3, slot=101, sha256=TIP)


def test_the_annotation_goes_once_a_driver_lands_with_another_history(
    running: GroupObservation,
) -> None:
    known = LedgerStatus(epoch=3, slot=100, sha256=TIP)
    landed = replace(landing(running, 4, 130, known, OTHER), annotations=ACCEPT)

    assert RemoveAnnotation(ACCEPT_LEDGER) in actions(landed)
    status = report(landed, desired_state(landed))
    assert status.ledger == LedgerStatus(epoch=4, slot=130, sha256=OTHER)
    after = replace(landed, annotations={}, status=status)
    assert position_for_drivers(after, "anchor") == f"4/130:{OTHER}"
