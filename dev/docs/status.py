"""The fields of ``/status``, from the types that a driver answers with."""

import inspect
import re
from collections.abc import Iterator, Mapping
from dataclasses import fields
from pathlib import Path

from dev.docs.text import prose
from landfall.api import contract
from landfall.api.compaction_status import CompactionStatus
from landfall.api.feed_status import FeedStatus

PAGE = Path(__file__).resolve().parents[2] / "docs/reference/http.md"
BEGIN, END = "<!-- status: made by `make crds` -->\n", "<!-- status: end -->\n"

KINDS: Mapping[str, type] = {
    "": contract.Status,
    "commits": contract.CommitStatus,
    "commits.last_failure": contract.Failure,
    "partitions[]": contract.PartitionStatus,
    "totals": contract.PartitionTotals,
    "rates": contract.Rates,
    "workers": contract.Workers,
    "publishers[]": contract.PublisherStatus,
    "completeness[]": contract.TopicCompleteness,
    "feeds[]": FeedStatus,
    "compaction": CompactionStatus,
}
"""The types by their place in the document."""

PLAIN: Mapping[str, str] = {
    "version": "version of the software",
    "group": "name of the group",
    "namespace": "namespace of the group",
    "generation": "generation that this driver lands under",
    "epoch": "epoch of this driver's OPEN",
    "lane": "lane of the ledger",
    "phase": "[phase](../concepts/handover.md#the-phases-of-a-driver) of the driver",
    "time": "when this was so, ISO 8601",
    "started": "when the driver started, ISO 8601",
    "lag_records": "offsets not landed yet, of all topic partitions",
    "lag_seconds": "age of the oldest record not landed yet",
    "overdue_seconds": "longest wait beyond the upload policy",
    "rounds": "batches in flight",
    "commits": "see [`commits`](#commits)",
    "rates": "see [`rates`](#rates)",
    "partitions": "see [`partitions[]`](#partitions)",
    "caught_up": "whether everything is landed that there was when the driver looked last",
    "message": "details, for people",
    "revision": "revision of the driver",
    "workers": "see [`workers`](#workers)",
    "feeds": "see [`feeds[]`](#feeds)",
    "compaction": "see [`compaction`](#compaction); null without spec.compact",
    "topic": "name of the topic",
    "partition": "number of the Kafka partition",
    "total": "commits in the ledger since its first slot",
    "failures": "failures since this driver started; a batch counts once for each reason",
    "consecutive_failures": "failures since the last commit; a batch counts once",
    "last_time": "when the last commit was made, ISO 8601",
    "last_failure": "see [`commits.last_failure`](#commitslast_failure)",
    "unapplied": "commits whose objects are not all visible yet",
    "reason": "one word for what failed",
    "landed_records": "records in committed data objects",
    "landed_bytes": "bytes of committed data objects",
    "input_bytes": "payload bytes read and committed",
    "dead_lettered": "records in committed dead-letter objects",
    "records_per_second": "records landed per second",
    "input_bytes_per_second": "payload bytes landed per second",
}
"""Meanings of fields that their types do not document."""


def page() -> str:
    """``docs/reference/http.md`` with the fields as they are now; the rest is written by hand."""
    before, _, rest = PAGE.read_text().partition(BEGIN)
    tables = "\n".join(line for path, kind in KINDS.items() for line in _section(path, kind))
    return f"{before}{BEGIN}\n{tables}\n{END}{rest.partition(END)[2]}"


def _section(path: str, kind: type) -> Iterator[str]:
    if path:
        yield f"### `{path}`\n"
    about = (inspect.getdoc(kind) or "").partition("\n\nAttributes:")[0]
    # what follows a semicolon names modules, for readers of the code
    yield prose(" ".join(re.sub(r"; see ``[\w.]+``", "", about).replace("``", "`").split())) + "\n"
    yield "| field | type | meaning |"
    yield "|---|---|---|"
    documented = dict(_documented(kind))
    for field in fields(kind):
        text = documented.get(field.name) or PLAIN[field.name]
        yield f"| `{field.name}` | {_type(str(field.type))} | {text} |"
    yield ""


def _documented(kind: type) -> Iterator[tuple[str, str]]:
    """Yield the fields that a class documents: in its docstring, or in a string below a field."""
    below = re.findall(r'    (\w+): [^\n]*\n    """(.*?)"""', inspect.getsource(kind), re.DOTALL)
    listed = (inspect.getdoc(kind) or "").partition("Attributes:\n")[2]
    named = re.findall(r"^ +(\w+): (.*(?:\n {8,}.*)*)", listed, re.MULTILINE)
    for name, text in (*below, *named):
        yield name, " ".join(text.replace("``", "`").split())


def _type(name: str) -> str:
    """As JSON has it."""
    optional = name.endswith(" | None") or "| None" in name
    plain = re.search(r"int|float|bool|str|tuple", name)
    words = {
        "int": "number",
        "float": "number",
        "bool": "true or false",
        "str": "text",
        "tuple": "list",
    }
    word = words[plain[0]] if plain else "text" if "Phase" in name else "mapping"
    return f"{word} or null" if optional else word
