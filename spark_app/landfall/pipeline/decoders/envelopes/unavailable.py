"""Values that a database did not log, because the change left them alone. Pure.

PostgreSQL does not log a large value (TOAST) that an update leaves alone, and Debezium sends the
text ``__debezium_unavailable_value`` for it, in the form of the value's type. Oracle logs no LOB of
a row that is deleted. A deleted row needs no values but its key's.

Sources: Debezium 3.6, ``io.debezium.connector.postgresql.PostgresValueConverter``; DBZ-4356.
"""

import base64
from collections.abc import Set as AbstractSet

from landfall.pipeline.decoders.envelopes.opened import DOCUMENT, ENCODE, UNAVAILABLE, Bad

_PLACEHOLDER = b"__debezium_unavailable_value"
_BASE64 = base64.b64encode(_PLACEHOLDER)
_BYTES = b",".join(b"%d" % byte for byte in _PLACEHOLDER)
_VALUES = frozenset(
    {
        b'"%s"' % _PLACEHOLDER,  # text, JSON, XML, numbers as text
        b'"%s"' % _BASE64,  # bytes
        b'["%s"]' % _PLACEHOLDER,  # a list of text
        b"[%s]" % _BYTES,  # a list of integers
        b'{"%s":"%s"}' % (_PLACEHOLDER, _PLACEHOLDER),  # hstore, as a map
        b'"{\\"%s\\":\\"%s\\"}"' % (_PLACEHOLDER, _PLACEHOLDER),  # hstore, as text
    }
)
"""Debezium's default ``unavailable.value.placeholder``, in values of each type."""


def without_unavailable(
    row: bytes, columns: AbstractSet[str], *, is_deleted: bool
) -> tuple[bytes, bytes]:
    """Return a row without such values, and the member that names them, if there are any.

    Args:
        row: a JSON object.
        columns: the names of the row that typed columns are read from, and ``_unavailable``.
        is_deleted: whether the row is deleted.

    Raises:
        Bad: a column reads one, none reads ``_unavailable``, and the row is not deleted.
    """
    if _PLACEHOLDER not in row and _BASE64 not in row and _BYTES not in row:
        return row, b""
    document = DOCUMENT.decode(row)
    missing = [name for name, value in document.items() if bytes(value) in _VALUES]
    lost = [name for name in missing if name in columns]
    if lost and UNAVAILABLE not in columns and not is_deleted:
        raise Bad(
            f"column {lost[0]}: its value was not logged, for the change left it alone; "
            "declare a column {name: _unavailable, type: List, items: {type: String}}, or "
            "set REPLICA IDENTITY FULL for the table"
        )
    if not missing:
        return row, b""
    gone = frozenset(missing)
    kept = {name: value for name, value in document.items() if name not in gone}
    return ENCODE(kept), b',"_unavailable":' + ENCODE(missing)
