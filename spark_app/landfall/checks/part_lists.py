"""Whether the lists of parts that DISCOVERs name are stored as they were: invariant I12. Pure."""

from landfall.checks import Finding, Invariant
from landfall.ledger import PartList
from landfall.ledger.feeds.part_lists import decode_list


def check_list(topic: str, named: PartList, slot: int, stored: bytes | None) -> Finding | None:
    """The finding for a list that is not stored, or not as it was; None if all is well.

    Args:
        topic: of the feed.
        named: what the DISCOVER says of the list.
        slot: of the DISCOVER.
        stored: the bytes under its key; None if there are none.
    """
    if stored is None:
        return Finding(Invariant.I12, "a stored list", "list missing", slot, key=named.key)
    try:
        decode_list(topic, named, stored)
    except ValueError as error:
        return Finding(Invariant.I12, f"SHA-256 {named.sha256[:12]}", str(error), slot)
    return None
