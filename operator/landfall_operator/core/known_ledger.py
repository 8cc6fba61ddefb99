"""Remembers how far a group's ledger has come, so that its drivers refuse any other. Pure.

A driver reads the position when it starts (``landfall.api.contract.KNOWN_LEDGER``), and the
hash of the slot there (``LEDGER_ANCHOR``), which whoever may write to the store cannot change. The
user lets it continue with another ledger by the annotation ``ACCEPT_LEDGER``: then it gets neither,
and the annotation is removed once a driver lands there.
"""

from landfall.api.contract import LedgerAnchor, LedgerPosition, is_sha256
from landfall_operator.api.status import LedgerStatus
from landfall_operator.core.snapshot import GroupObservation
from landfall_operator.objects.names import ACCEPT_LEDGER

_WORTH_A_WRITE = 10
"""The slot is kept anew when it has grown by one in so many: a write per commit costs too much."""


def known_ledger(observed: GroupObservation, active: str | None) -> LedgerStatus | None:
    """What the group's ledger has reached at least; None if no driver has said so yet."""
    known, driver = observed.status.ledger, observed.driver(active)
    status = driver.fresh_status(observed.now) if driver else None
    if not driver or not status or not driver.lands(observed.now) or status.slot < 0:
        return known
    sha256 = status.tip if is_sha256(status.tip) else None
    if known and known.epoch == status.epoch and (known.sha256 or not sha256):
        growth = status.slot - known.slot
        if growth == 0 or 0 < _WORTH_A_WRITE * growth < known.slot:
            return known
    return LedgerStatus(epoch=status.epoch, slot=status.slot, sha256=sha256)


def position_for_drivers(observed: GroupObservation, ledger: LedgerStatus | None) -> str:
    """The position that drivers which start now are given; empty for none."""
    return "" if ACCEPT_LEDGER in observed.annotations else position(ledger)


def is_accepted(observed: GroupObservation, ledger: LedgerStatus | None) -> bool:
    """Whether the annotation has done its work: a driver lands that was given no position.

    Its ledger is behind the one that was known, or as long and has another history. The latter
    shows by the driver's OPEN, which raises the epoch.
    """
    before = observed.status.ledger
    return (
        ACCEPT_LEDGER in observed.annotations
        and ledger is not None
        and before is not None
        and (ledger.epoch > before.epoch or not _position(ledger).reaches(_position(before)))
    )


def position(ledger: LedgerStatus | None) -> str:
    """The position as text; empty for None."""
    return str(_position(ledger)) if ledger else ""


def anchor_for_drivers(observed: GroupObservation, ledger: LedgerStatus | None) -> str:
    """The anchor that drivers which start now are given; empty for none."""
    if ledger is None or not ledger.sha256 or ACCEPT_LEDGER in observed.annotations:
        return ""
    return str(LedgerAnchor(_position(ledger), ledger.sha256))


def _position(ledger: LedgerStatus) -> LedgerPosition:
    return LedgerPosition(ledger.epoch, ledger.slot)
