"""Which keys are in the root of the ledger, where that is not the output root. Pure.

What is under ``_landfall/`` is the ledger's, but for dead letters and copies of retired objects,
which are objects, and for the mark that says where the ledger is.
"""

import re

from landfall.ledger.object_names import SYSTEM

_DEAD_LETTERS = "dead-letters"
"""As in ``object_names.dead_letters_prefix``."""
_RETIRED = "-retired"
"""As in ``retired_names.retired_prefix``."""
_OBJECTS = re.compile(f"{SYSTEM}/[^/]+/({_DEAD_LETTERS}|[^/]+{_RETIRED})/")
LEDGER_MARK = f"{SYSTEM}/ledger.json"
"""Key of the mark in an output root that says where its ledger is, if that is another root."""
OUTPUT_MARK = f"{SYSTEM}/output.json"
"""Key of the mark in the root of a ledger that says where its objects are."""


def is_ledger_key(key: str) -> bool:
    """Whether a key is in the ledger's root, if that is not the output root."""
    return key.startswith(f"{SYSTEM}/") and key != LEDGER_MARK and not _OBJECTS.match(key)


def may_be_of_ledger(prefix: str) -> bool:
    """Whether keys with this prefix may be in the ledger's root, if that is not the output root."""
    below = f"{SYSTEM}/"
    return below.startswith(prefix) or (prefix.startswith(below) and not _OBJECTS.match(prefix))


def may_be_of_objects(prefix: str) -> bool:
    """Whether keys with this prefix may be in the output root, if the ledger is in another."""
    system, *below = prefix.split("/", 3)
    # A folder whose name may go on may be that of any lane's copies.
    return system != SYSTEM or len(below) < 3 or bool(_OBJECTS.match(prefix))
