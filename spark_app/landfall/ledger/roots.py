"""Which keys are in the root of the ledger, where that is not the output root. Pure.

What is under ``_landfall/`` is the ledger's, but for dead letters, which are objects, and for the
mark that says where the ledger is. The root of a backfill (``object_names.side_root``) is divided
in the same way.
"""

import re

from landfall.ledger.object_names import SIDE, SYSTEM

_DEAD_LETTERS = "dead-letters"
"""As in ``object_names.dead_letters_prefix``."""
_DEAD_LETTER = re.compile(f"{SYSTEM}/[^/]+/{_DEAD_LETTERS}/")
_SIDE_ROOT = re.compile(f"{SYSTEM}/[^/]+/{SIDE}/[^/]+/")
LEDGER_MARK = f"{SYSTEM}/ledger.json"
"""Key of the mark in an output root that says where its ledger is, if that is another root."""
OUTPUT_MARK = f"{SYSTEM}/output.json"
"""Key of the mark in the root of a ledger that says where its objects are."""


def is_ledger_key(key: str) -> bool:
    """Whether a key is in the ledger's root, if that is not the output root."""
    if side := _SIDE_ROOT.match(key):
        return is_ledger_key(key[side.end() :])
    return key.startswith(f"{SYSTEM}/") and key != LEDGER_MARK and not _DEAD_LETTER.match(key)


def may_be_of_ledger(prefix: str) -> bool:
    """Whether keys with this prefix may be in the ledger's root, if that is not the output root."""
    if side := _SIDE_ROOT.match(prefix):
        return may_be_of_ledger(prefix[side.end() :])
    below = f"{SYSTEM}/"
    return below.startswith(prefix) or (prefix.startswith(below) and not _DEAD_LETTER.match(prefix))


def may_be_of_objects(prefix: str) -> bool:
    """Whether keys with this prefix may be in the output root, if the ledger is in another."""
    if side := _SIDE_ROOT.match(prefix):
        return may_be_of_objects(prefix[side.end() :])
    system, _, below = prefix.partition("/")
    folder = below.partition("/")[2]
    return (
        system != SYSTEM
        or "/" not in below
        or f"{_DEAD_LETTERS}/".startswith(folder)
        or folder.startswith((f"{_DEAD_LETTERS}/", f"{SIDE}/"))
        or f"{SIDE}/".startswith(folder)
    )
