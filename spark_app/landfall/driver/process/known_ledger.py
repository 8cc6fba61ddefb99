"""Refuses a ledger that is shorter than the group's was, or has another history.

The ledger is found by the output's URL and endpoint. At another endpoint, a bucket of the same name
has no ledger, or an old copy: landing there would write everything again or, if the checkpoint
comes from Kafka's retention, leave a gap.

Hashes chain the slots without a key, so a program that may write to the store can change a slot and
all hashes after it. The operator therefore keeps the hash of a slot, the anchor, in Kubernetes.
"""

from landfall.api.contract import LedgerAnchor, LedgerPosition
from landfall.api.spec import Root
from landfall.errors import Reason, Retry, Stalled
from landfall.lane import Lane
from landfall.ledger import State, digest


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
        "landfall.dev/accept-ledger=true to continue with this ledger",
    )


def check_anchor(lane: Lane, state: State, anchor: LedgerAnchor | None, root: Root) -> None:
    """Return if a ledger in this state has the slot of the anchor, as it was.

    Raises:
        Stalled: LEDGER_REWRITTEN, it has another one.
        Retry: the slot was rolled up since the state was read.
    """
    if anchor is None or state.seq < anchor.position.slot:
        return  # ``check_known`` is about a ledger that is shorter
    slot = anchor.position.slot
    body = lane.read_slot(state, slot)
    if body is None:
        raise Retry(f"slot {slot} of the ledger is elsewhere since it was listed")
    if digest(body) != anchor.sha256:
        raise Stalled(
            Reason.LEDGER_REWRITTEN,
            f"the ledger in {root.url} is not the one that this group wrote: slot {slot} has the "
            f"hash {digest(body)[:12]}, and had {anchor.sha256[:12]}. Restore the bucket, or "
            "annotate the group with landfall.dev/accept-ledger=true if the bucket comes from a "
            f"backup and the group is to continue with it; landfall fsck --anchor {anchor} "
            "compares them",
        )
