"""Keys in the root of the ledger, where that is not the output root. Pure.

What is under ``_landfall/`` is the ledger's, but for dead letters and copies of retired objects,
which are objects, and for the mark that names the ledger's root. The root of a backfill
(``side_root``) is divided in the same way.
"""

import re

from landfall.ledger.names.object_names import LANE_NAME, SIDE, SYSTEM, group_prefix
from landfall.untrusted_json import parse_document

_DEAD_LETTERS = "dead-letters(@[0-9a-f]{16})?"
"""As in ``object_names.dead_letters_prefix``."""
_RETIRED = "-retired"
"""As in ``retired_names.retired_prefix``."""
_OBJECTS = re.compile(f"{SYSTEM}/[^/]+/({_DEAD_LETTERS}|[^/]+{_RETIRED})/")
_SIDE_ROOT = re.compile(f"{SYSTEM}/[^/]+/{SIDE}/[^/]+/")
LEDGER_MARK = f"{SYSTEM}/ledger.json"
"""Key of the mark in an output root that names its ledger's root, if that is another root."""
_ANYWHERE = frozenset({"s3", "gs", "abfss"})
"""Schemes whose server the reader's own settings name, and not the URL."""
OUTPUT_MARK = f"{SYSTEM}/output.json"
"""Key of the mark in the root of a ledger that names its objects' root."""


def marked_ledger(objects_url: str, mark: bytes) -> str:
    """Return the URL of the ledger that the mark in an output root names.

    A program that may write there chooses where its readers look next, with their credentials. So
    it may be any bucket of an object store, but no folder of the reader's machine and no other
    server of HDFS than the objects'.

    Raises:
        ValueError: it names none, or one that a mark may not name.
    """
    try:
        url = parse_document(mark)["url"]
    except (ValueError, KeyError, TypeError) as error:
        raise ValueError(f"it names no ledger: {mark[:100]!r}") from error
    if not isinstance(url, str):
        raise ValueError(f"it names no ledger: {mark[:100]!r}")  # noqa: TRY004  # of a file
    scheme, _, path = url.partition("://")
    if scheme not in _ANYWHERE and (scheme, path.partition("/")[0]) != _server(objects_url):
        raise ValueError(
            f"it names {url[:100]!r}: a mark may name an object store, or the server of the objects"
        )
    return url


def _server(url: str) -> tuple[str, str]:
    scheme, _, path = url.partition("://")
    return scheme, path.partition("/")[0]


def may_be_of_letters(prefix: str) -> bool:
    """Return whether dead letters in places of their own may have this prefix."""
    if side := _SIDE_ROOT.match(prefix):
        return may_be_of_letters(prefix[side.end() :])
    system, *below = prefix.split("/", 3)
    if not below or system != SYSTEM:
        return not below and SYSTEM.startswith(system)
    # A folder whose name may continue may belong to any place, or to any lane's copies.
    is_open = len(below) < 3 or below[1] == SIDE
    return is_open or below[1].startswith("dead-letters@") or below[1].endswith(_RETIRED)


def side_root(group: str, name: str) -> str:
    """The output root of a backfill, relative to its group's root; no data object is in it.

    Raises:
        ValueError: a name is not legal.
    """
    if not LANE_NAME.fullmatch(name) or len(name) > 63:
        raise ValueError(f"not a name of lower-case letters, digits and -: {name!r}")
    return f"{side_prefix(group)}{name}"


def side_prefix(group: str) -> str:
    """Return the prefix of the keys of all backfills of a group.

    Raises:
        ValueError: the group's name is not legal.
    """
    return f"{group_prefix(group)}{SIDE}/"


def side_root_of(group: str, key: str) -> str:
    """The root of the group's backfill that a key is in; empty if it is in none."""
    prefix = side_prefix(group)
    name, slash, _ = key.removeprefix(prefix).partition("/")
    return f"{prefix}{name}" if key.startswith(prefix) and slash else ""


def is_ledger_key(key: str) -> bool:
    """Return whether a key is in the ledger's root, if that is not the output root."""
    if side := _SIDE_ROOT.match(key):
        return is_ledger_key(key[side.end() :])
    return key.startswith(f"{SYSTEM}/") and key != LEDGER_MARK and not _OBJECTS.match(key)


def may_be_of_ledger(prefix: str) -> bool:
    """Return whether keys with this prefix may be in the ledger's root, if that is another root."""
    if side := _SIDE_ROOT.match(prefix):
        return may_be_of_ledger(prefix[side.end() :])
    below = f"{SYSTEM}/"
    return below.startswith(prefix) or (prefix.startswith(below) and not _OBJECTS.match(prefix))


def may_be_of_objects(prefix: str) -> bool:
    """Return whether keys with this prefix may be in the output root, if the ledger is not."""
    if side := _SIDE_ROOT.match(prefix):
        return may_be_of_objects(prefix[side.end() :])
    system, *below = prefix.split("/", 3)
    # A folder whose name may continue may belong to any lane's copies.
    is_open = len(below) < 3 or below[1] == SIDE
    return system != SYSTEM or is_open or bool(_OBJECTS.match(prefix))
