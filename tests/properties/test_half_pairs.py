"""JSON with halves of surrogate pairs is read, landed and audited with U+FFFD instead of each."""

import gzip
import json
from pathlib import Path

import duckdb
import msgspec
from hypothesis import given
from hypothesis import strategies as st

from landfall.cli.objects.read_back import normalizer
from landfall.ledger.task_results import LandedSlice
from landfall.pipeline.decoders import Wanted
from landfall.pipeline.decoders.documents import as_list
from landfall.pipeline.decoders.json import JsonDecoder
from landfall.store.memory import MemoryStore
from landfall_audit.objects.rows import rows_of
from tests.support.audit.audited_spec import for_auditor
from tests.support.audit.auditor_fakes import Message
from tests.support.driver.slice_landing import MIDNIGHT, TP, content, group, land_rows, records_of

TEXTS = st.lists(
    st.one_of(
        st.sampled_from(
            ["\ud83d", "\ude00", "\udbff", "\udfff", "\\", '"', "u", "d83d", "é", "😀"]
        ),
        st.characters(max_codepoint=0x7F),
    ),
    max_size=8,
).map("".join)


def as_characters(text: str) -> str:
    """Return the text as a decoder of UTF-16 reads it that replaces halves of pairs."""
    return text.encode("utf-16-le", "surrogatepass").decode("utf-16-le", "replace")


@given(texts=st.lists(TEXTS, min_size=1, max_size=5), is_upper=st.booleans())
def test_halves_are_replaced_and_nothing_else_changes(texts: list[str], *, is_upper: bool) -> None:
    payloads = [json.dumps({"s": text, "n": 1}).encode() for text in texts]
    # A backslash of the text itself is escaped, too, and begins no escape.
    if is_upper and not any("\\" in text for text in texts):
        payloads = [p.replace(b"\\ud8", b"\\uD8").replace(b"\\ude", b"\\uDE") for p in payloads]
    # A character outside of the BMP is the pair that it is written as.
    whole = [as_characters(text) for text in texts]

    decoded = JsonDecoder.of({}, Wanted((("s",),), json=True)).decode(
        records_of(TP, list(range(len(texts))), payloads)
    )

    landed = decoded.records.values.to_pylist()
    assert not decoded.bad
    assert as_list(decoded.fields["s",]) == whole  # type: ignore[arg-type]
    assert [msgspec.json.decode(body) for body in landed] == [{"s": s, "n": 1} for s in whole]
    kept = [as_characters(json.loads(p)["s"]) == json.loads(p)["s"] for p in payloads]
    assert [body == p for body, p in zip(landed, payloads, strict=True)] == kept
    of_verify, of_audit = normalizer("Json"), rows_of(for_auditor(group().spec)).hash_of
    assert of_audit is not None
    for body, payload in zip(landed, payloads, strict=True):
        assert of_verify(payload) == body
        assert of_audit(Message(0, payload)) == hash(body)


def test_duckdb_reads_what_landed(tmp_path: Path) -> None:
    store = MemoryStore()
    rows = [
        (101, b'{"ts":%d,"s":"whole \\ud83d\\ude00"}' % MIDNIGHT),
        (102, b'{"ts":%d,"s":"cut \\ud83d","t":"\\\\ud83d"}' % MIDNIGHT),
        (103, b'{"ts":%d,"\\ude00":1}' % MIDNIGHT),
    ]

    result = land_rows(rows, store)

    assert isinstance(result, LandedSlice)
    assert (result.landed, result.dead_lettered) == (3, 0)
    ((_, body),) = content(result, store).items()
    file = tmp_path / "landed.json"
    file.write_bytes(gzip.decompress(body))
    found = duckdb.connect().sql(f"SELECT s, t FROM read_json('{file}')").fetchall()
    assert found == [("whole 😀", None), ("cut \ufffd", "\\ud83d"), (None, None)]


def test_text_keeps_the_bytes() -> None:
    store, payload = MemoryStore(), b'{"ts":%d,"s":"cut \\ud83d"}' % MIDNIGHT

    result = land_rows(
        [(101, payload)], store, output={"url": "s3://b", "format": "Text", "codec": "None"}
    )

    assert [*content(result, store).values()] == [payload + b"\n"]


def test_a_step_reads_them_too() -> None:
    store = MemoryStore()
    rows = [(101, b'{"ts":%d,"s":"cut \\ud83d","more":1}' % MIDNIGHT)]

    result = land_rows(
        rows,
        store,
        transforms=[{"use": "Select", "options": {"fields": ["ts", "s"]}}],
        output={"url": "s3://b", "format": "Text", "codec": "None"},
    )

    (body,) = content(result, store).values()
    assert json.loads(body) == {"ts": MIDNIGHT, "s": "cut \ufffd"}
