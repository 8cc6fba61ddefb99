"""Names the columns of wrong rows: their range is read again, record by record.

It is done for the first few only, and only if there is a wrong row, so that an audit keeps no
values in memory. Rows that store no offset are named by the record that they were matched to.
"""

from collections.abc import Iterable, Iterator, Mapping
from decimal import Decimal

from landfall_audit import Fault, FaultKind
from landfall_audit.objects.rows import MessageLike, Rows
from landfall_audit.payloads import AuditLeftOut, BadPayload, Undecided

MAX_NAMED = 20
"""How many wrong records of a topic partition are named one by one."""
_MAX_SHOWN = 60
_NOTHING = object()
_SIMPLE = {"double", "number", "decimal", "time"}


def faults(
    name: str, reader: Rows, wrong: Iterable[MessageLike], landed: Mapping[int, object]
) -> Iterator[Fault]:
    """Yield the fault of each record.

    Args:
        name: of the topic partition.
        reader: makes what the rows must hold.
        wrong: the records.
        landed: what their rows hold, by offset.
    """
    assert reader.content_of is not None, "there is something to compare with"
    for record in wrong:
        what = f"{name} offset {record.offset()}"
        content = landed.get(record.offset(), _NOTHING)
        try:
            expected = reader.content_of(record)
        except AuditLeftOut as left_out:
            yield Fault(FaultKind.VALUE, what, f"is landed, and must be left out: {left_out}")
            continue
        except BadPayload as bad:
            yield Fault(FaultKind.VALUE, what, f"is landed, and must be a dead letter: {bad}")
            continue
        except Undecided:
            continue
        if content is not _NOTHING:
            yield Fault(FaultKind.VALUE, what, difference(expected, content))


def difference(expected: object, landed: object) -> str:
    """The first place at which two contents differ, and how, for people."""
    if expected == landed:
        return "its row was not the same when it was read again"
    path, wanted, found = _first(expected, landed, "")
    return f"{path or 'the row'} is {_shown(found)}, must be {_shown(wanted)}"


def _first(expected: object, landed: object, path: str) -> tuple[str, object, object]:
    of_expected, of_landed = _members(expected), _members(landed)
    if of_expected is None or of_landed is None:
        return path, expected, landed
    for key in [*of_expected, *(key for key in of_landed if key not in of_expected)]:
        wanted, found = of_expected.get(key, _NOTHING), of_landed.get(key, _NOTHING)
        if wanted != found:
            inner = f"{path}[{key}]" if isinstance(key, int) else f"{path}.{key}" * bool(path)
            return _first(wanted, found, inner or str(key))
    return path, expected, landed


def _members(content: object) -> Mapping[object, object] | None:
    """Return the members of a row, an object, a struct or a list, by name or position."""
    match content:
        case ("object" | "struct" | "map", tuple() as items):
            return dict(items)
        case ("list", tuple() as items):
            return dict(enumerate(items))
        case tuple() if content and all(
            isinstance(item, tuple) and len(item) == 2 for item in content
        ):
            return dict(content)
    return None


def _shown(content: object) -> str:
    match content:
        case None:
            text = "null"
        case (str() as text, "bool"):
            pass
        case (str() as kind, value) if kind in _SIMPLE:
            text = f"{value:f}" if isinstance(value, Decimal) else str(value)
        case ("object" | "struct" | "map" | "list" as kind, _):
            text = f"{'an' if kind == 'object' else 'a'} {kind}"
        case _:
            text = "absent" if content is _NOTHING else repr(content)
    return text if len(text) <= _MAX_SHOWN else f"{text[:_MAX_SHOWN]}…"
