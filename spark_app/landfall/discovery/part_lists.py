"""Part lists in a store: stored before a DISCOVER names them, and read by what it records of them.

Their bytes are ``landfall.ledger.feeds.part_lists``.
"""

from collections.abc import Sequence

from landfall.discovery import stored
from landfall.discovery.feed_keys import FeedKeys
from landfall.ledger import PartList
from landfall.ledger.feeds.part_lists import ListedPart, decode_list, encode_list
from landfall.store import Slots


def write(slots: Slots, keys: FeedKeys, first: int, parts: Sequence[ListedPart]) -> PartList:
    """Store a list of parts with the numbers from ``first`` on; return its entry for a DISCOVER.

    Raises:
        ValueError: there are too few or too many parts, or one of them is none of a file.
        Stalled: LEDGER_BROKEN, other bytes have the key.
        Retry: the store failed; calling again is safe.
    """
    named, body = encode_list(
        group=keys.group, lane=keys.lane, topic=keys.topic, first=first, parts=parts
    )
    stored.store(slots, named.key, body)
    return named


def read(slots: Slots, keys: FeedKeys, named: PartList) -> tuple[ListedPart, ...]:
    """The parts in the list that a DISCOVER names, in the order of their numbers.

    Raises:
        Stalled: LEDGER_BROKEN, the list is gone, damaged, or not as the DISCOVER records.
        Retry: the store failed.
    """
    body = stored.load(slots, named.key, named.sha256)
    try:
        return decode_list(keys.topic, named, body)
    except ValueError as error:
        raise stored.broken(str(error)) from error
