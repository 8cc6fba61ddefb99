"""Refuses a ledger that is shorter than the group's was. Pure.

The ledger is found by the output's URL and endpoint. Behind another endpoint, a bucket of the same
name has no ledger, or an old copy: landing there would write everything again or, if the checkpoint
comes from Kafka's retention, leave a gap.
"""

from landfall.api.contract import LedgerPosition
from landfall.api.spec import Root
from landfall.errors import Reason, Stalled
from landfall.ledger import State


def check_known(state: State, known: LedgerPosition | None, root: Root) -> None:
    """Return if a ledger in this state has reached what is known of the group's ledger.

    Raises:
        Stalled: LEDGER_BEHIND, it has not.
    """
    if known is None or LedgerPosition(state.epoch, state.seq).reaches(known):
        return
    found = f"ends at epoch {state.epoch}, slot {state.seq}" if state.seq >= 0 else "is empty"
    endpoint = f" at {root.access.endpoint}" if root.access.endpoint else ""
    field = f"spec.{root.section}.{root.access_field}.endpoint"
    raise Stalled(
        Reason.LEDGER_BEHIND,
        f"the ledger in {root.url}{endpoint} {found}, and this group's had reached epoch "
        f"{known.epoch}, slot {known.slot}: restore {field}, or annotate the group with "
        "landfall.dev/accept-ledger=true if it is to go on with this ledger",
    )
