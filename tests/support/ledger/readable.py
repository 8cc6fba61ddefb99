"""A group's output root with a real ledger, for readers; objects are made by others' libraries."""

import gzip
import io
import json
import zlib
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import fastavro
import pyarrow as pa
import pyarrow.parquet as pq
from msgspec.structs import replace
from pyarrow import orc

from landfall import ledger
from landfall.api.spec import parse_group
from landfall.driver.core.stored_specs import store_spec
from landfall.lane import claim_output_root
from landfall.ledger.names.object_names import ObjectName
from landfall.ledger.offsets import OffsetRange, Slice, TopicPartition
from landfall.ledger.task_results import LandedObject, LandedSlice, ObjectKind
from landfall.objects import Upload
from landfall.store import Store
from landfall.store.urls import open_store
from tests.support.kubernetes.groups import document
from tests.support.ledger.sample_ledger import GROUP, LANE, SampleLedger, replace_header

Row = dict[str, Any]
CLICKS, ORDERS = TopicPartition("clicks", 0), TopicPartition("orders", 0)


def parquet(rows: Sequence[Row]) -> bytes:
    body = io.BytesIO()
    pq.write_table(pa.Table.from_pylist(list(rows)), body, row_group_size=5)
    return body.getvalue()


def _orc(rows: Sequence[Row]) -> bytes:
    body = io.BytesIO()
    orc.write_table(pa.Table.from_pylist(list(rows)), body)
    return body.getvalue()


def _avro(rows: Sequence[Row]) -> bytes:
    body = io.BytesIO()
    fields = [
        {"name": name, "type": "long" if isinstance(value, int) else "string"}
        for name, value in rows[0].items()
    ]
    fastavro.writer(body, {"type": "record", "name": "R", "fields": fields}, rows)
    return body.getvalue()


def _json(rows: Sequence[Row]) -> bytes:
    return gzip.compress(b"".join(json.dumps(row).encode() + b"\n" for row in rows))


def _text(rows: Sequence[Row]) -> bytes:
    return gzip.compress(b"".join(f"{row['id']}\n".encode() for row in rows))


BODIES: dict[str, Callable[[Sequence[Row]], bytes]] = {
    "Parquet": parquet,
    "Orc": _orc,
    "Avro": _avro,
    "Json": _json,
    "Text": _text,
}
EXTENSIONS = {"Parquet": ".parquet", "Orc": ".orc", "Avro": ".avro", "Json": ".json.gz"}


@dataclass
class Readable:
    """A group's ledger in a folder.

    Attributes:
        root: the folder.
        format: of what is landed next.
        route: ``spec.route`` of what is landed next.
        output: fields of ``spec.output`` beside the format, such as ``url`` and ``s3``.
        start: the offset at which its topic partitions enter.
    """

    root: Path
    format: str = "Parquet"
    route: dict[str, str] = field(default_factory=lambda: {"pattern": "dt={date}/hr={hour}"})
    output: Mapping[str, Any] = field(default_factory=dict)
    start: int = 0

    def __post_init__(self) -> None:
        self.store: Store = open_store(self.group.spec.output)
        claim_output_root(self.store, GROUP)
        self.ledger = SampleLedger(store=self.store)
        self.open().ledger.add(CLICKS, ORDERS, start=self.start)

    @property
    def url(self) -> str:
        return str(self.output.get("url", f"file://{self.root}/landed"))

    @property
    def group(self) -> Any:
        described = document(GROUP)
        described["spec"] |= {
            "output": {"url": self.url, "format": self.format, **self.output},
            "route": self.route,
        }
        return parse_group(described)

    def open(self, generation: int = 1) -> "Readable":
        """Begin an epoch with the present format and route."""
        self.ledger.open(generation, store_spec(self.store, self.group, LANE))
        return self

    def land(
        self, tp: TopicPartition, *parts: tuple[str, Sequence[Row]], complete: bool = True
    ) -> "Readable":
        """Land rows by output partition in one COMMIT; nothing says yet that they are visible."""
        start = self.ledger.state.checkpoint[tp]
        rows = sum(len(some) for _, some in parts)
        objects = tuple(self._upload(tp, start, *part) for part in parts)
        piece = Slice(tp, OffsetRange(start, start + rows))
        self.ledger.commit(LandedSlice(piece, objects, rows, 0, 0, 0, rows), complete=complete)
        return self

    def settle(self) -> int:
        """Record that everything so far is applied, and return the slot that says so."""
        applied = self.ledger.state.seq
        self.ledger.append(
            lambda h: ledger.Snapshot(header=replace_header(h, applied), key="k", sha256="s")
        )
        return self.ledger.state.seq

    def _upload(
        self, tp: TopicPartition, start: int, folders: str, rows: Sequence[Row]
    ) -> LandedObject:
        generation, extension = self.ledger.state.generation, EXTENSIONS.get(self.format, "")
        name = ObjectName(tp.topic, folders, generation, tp.partition, start, extension)
        body, token = BODIES[self.format](rows), f"token-{self.ledger.state.seq + 1}"
        upload_id = self.store.begin(name.key, token)
        upload = Upload(name.key, upload_id, (), token)
        upload = replace(upload, parts=(self.store.put_part(name.key, upload_id, 1, body),))
        last = start + len(rows) - 1
        return LandedObject(upload, ObjectKind.DATA, len(rows), start, last, zlib.crc32(body))
