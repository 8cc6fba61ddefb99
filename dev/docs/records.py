"""The ledger's records, as picture and table, from the types and the table that fold them."""

import inspect
import re
import textwrap
from collections.abc import Iterator
from typing import get_type_hints

from dev.docs.drawing import AMBER, BLUE, GREEN, GREY, INK, MUTED, Box, Drawing, Style, Tone
from landfall import ledger
from landfall.ledger import MAY_FOLLOW, Header, LaneOwnership, Open, Record, Yield

HEAD = """# Ledger records

<!-- Made by `make crds` from the record types and the table of what may follow what. -->

The ledger of a group is a chain of small JSON objects, one per slot, in the output root:
`<root>/_landfall/<group>/<lane>/<epoch>/<index>.json`, ten digits each. Each slot is created once,
if absent, and never changed; old ones are rolled up into segments. A state folded from the first
slot (or from a snapshot) contains which offsets are landed, which objects are decided but perhaps
not visible yet, and who may write next. Why this gives exactly once is in [Exactly
once](../concepts/exactly-once.md).

![Which records may follow in which state of the lane](../images/ledger-records.svg)

## Records

| type | what it does | fields |
|---|---|---|"""

FOLLOW = """
## What may follow

| the lane is | a record of these types may follow |
|---|---|"""

BESIDE = """
## Next to the slots

| object | what it is |
|---|---|
| `<lane>-head.json` | a hint at the last snapshot; it decides nothing |
| `<lane>-snapshots/<slot>.json` | a state, which a SNAPSHOT names |
| `<lane>-segments/…seg` | closed stretches of slots, which a SEGMENT names |
| `<lane>-specs/<sha256>.json` | what objects are made by: the part of the spec that an OPEN names |
| `<lane>-schemas/<sha256>.json` | a schema of payloads, which slices name in `schemas` |
| `<lane>-schemas/<registry>/<id>.json` | which of these a registry calls by an id |
| `<lane>-expired/<slot>.json` | dead letters that slots up to this one name have expired |
| `dead-letters/` | dead letters, objects as any other until they expire |
| `dead-letters@<place>/` | the same, in the root that `badRecords.url` names (ADR 65) |
| `side/<name>/` | the output root of a [backfill](../guides/backfill.md), with its ledger |

A stored schema has `kind`, `schema`, and by name the `references` that it needs; `<registry>` is
the beginning of the SHA-256 of the registry's first URL. A task creates both objects, if absent,
before the COMMIT that names the schema, and nothing deletes one
([decision 14](../adr/0014-a-commit-names-its-schemas.md))."""

COMMON = """
## Every record

Every record has a `header`:

| field | type | meaning |
|---|---|---|"""


def _kinds() -> tuple[type[Record], ...]:
    kinds: tuple[type[Record], ...] = Record.__args__
    return kinds


def tag(kind: type[Record]) -> str:
    """Its ``type`` in JSON."""
    return str(kind.__struct_config__.tag)


def after(holding: LaneOwnership, kind: type[Record]) -> LaneOwnership:
    """Return the ownership of the lane after a record of this kind."""
    if kind is Open:
        return LaneOwnership.HELD
    return LaneOwnership.YIELDED if kind is Yield else holding


def page() -> str:
    """``docs/reference/ledger.md``."""
    return "\n".join([HEAD, *_records(), FOLLOW, *_follow(), BESIDE, COMMON, *_header()]) + "\n"


def _records() -> Iterator[str]:
    for kind in _kinds():
        text = " ".join((inspect.getdoc(kind) or "").replace("``", "`").split())
        fields = ", ".join(f"`{name}`" for name in kind.__struct_fields__ if name != "header")
        yield f"| {tag(kind)} | {text} | {fields} |"


def _follow() -> Iterator[str]:
    for holding, kinds in MAY_FOLLOW.items():
        yield f"| {holding} | {', '.join(map(tag, kinds))} |"


def _header() -> Iterator[str]:
    texts = dict(
        re.findall(r"^ +(\w+): (.*(?:\n {12,}.*)*)", ledger.Header.__doc__ or "", re.MULTILINE)
    )
    types = {int: "number", str: "text"}
    for name, kind in get_type_hints(Header).items():
        text = " ".join(texts.get(name, "of the record format").split())
        yield f"| `{name}` | {types[kind]} | {text} |"


AT: dict[LaneOwnership, Box] = {
    LaneOwnership.NOBODY_YET: Box(40, 96, 150, 52),
    LaneOwnership.HELD: Box(330, 96, 150, 52),
    LaneOwnership.YIELDED: Box(620, 96, 150, 52),
}
TONES: dict[LaneOwnership, Tone] = {
    LaneOwnership.NOBODY_YET: GREY,
    LaneOwnership.HELD: GREEN,
    LaneOwnership.YIELDED: AMBER,
}


WIDEST = 72
"""How many characters of a line of record kinds fit into the picture."""


def picture() -> str:
    """``docs/images/ledger-records.svg``.

    Raises:
        ValueError: the table has a transition that does not fit into this picture.
    """
    drawn = {
        (LaneOwnership.NOBODY_YET, LaneOwnership.HELD): ("M190 122H328", (259, 114)),
        (LaneOwnership.HELD, LaneOwnership.YIELDED): ("M480 122H618", (549, 114)),
        (LaneOwnership.YIELDED, LaneOwnership.HELD): ("M695 96V56H405V94", (550, 49)),
        (LaneOwnership.HELD, LaneOwnership.HELD): ("M445 148V186H365V150", (405, 206)),
    }
    moves: dict[tuple[LaneOwnership, LaneOwnership], list[type[Record]]] = {}
    for holding, kinds in MAY_FOLLOW.items():
        for kind in kinds:
            moves.setdefault((holding, after(holding, kind)), []).append(kind)
    if moves.keys() != drawn.keys():
        raise ValueError(
            f"no place in the picture of the records: {sorted(moves.keys() ^ drawn.keys())}"
        )
    most = len(" ".join(map(tag, moves[LaneOwnership.HELD, LaneOwnership.HELD])))
    below = 16 * (most // WIDEST)
    drawing = Drawing(
        810,
        250 + below,
        "Ledger records: who has the lane, and which records may be appended then",
    )
    style = Style(size=12, color=INK, mono=True, halo=True)
    for move, (path, place) in drawn.items():
        drawing.path(path, BLUE)
        x, y = place
        lines = textwrap.wrap(" ".join(map(tag, moves[move])), WIDEST, break_long_words=False)
        for number, line in enumerate(lines):
            drawing.words(x, y + 16 * number, line, style)
    for holding, box in AT.items():
        drawing.labelled(box, ["lane", str(holding)], TONES[holding])
    note = Style(size=11.5, color=MUTED)
    drawing.words(
        405,
        228 + below,
        "an OPEN while the lane is held raises the epoch: it fences the driver before",
        note,
    )
    return drawing.svg()
