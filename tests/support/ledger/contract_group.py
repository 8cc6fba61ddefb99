"""A group that has landed payloads of Avro in a folder, and new schemas of their producer."""

import json
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import yaml

from landfall.api.spec import Output
from landfall.ledger.offsets import TopicPartition
from landfall.store.urls import open_store
from tests.support.ledger.landed_group import Backup
from tests.support.ledger.sample_ledger import GROUP
from tests.support.payloads.avro import encoded

ORDERS = TopicPartition("orders", 0)
MIDNIGHT = 1_763_683_200_000  # 2025-11-21 00:00 UTC
AT: Any = {"type": "long", "logicalType": "timestamp-millis"}
COUPON: Any = {"name": "coupon", "type": ["null", "string"], "default": None}


def order(*fields: Any) -> Any:
    """A schema of orders with these fields."""
    return {"type": "record", "name": "Order", "namespace": "shop", "fields": [*fields]}


def named(name: str, type_: Any, **more: Any) -> Any:
    """A field of a schema."""
    return {"name": name, "type": type_, **more}


ID, TIME, QUANTITY = named("id", "long"), named("at", AT), named("quantity", "int")
PRESENT = order(ID, TIME, QUANTITY)


@dataclass
class ContractGroup:
    """A group, whose file and output root are in a folder.

    Attributes:
        folder: where.
        decode: of the group, without the format.
        output: of the group, without the URL.
        spec: other sections.
        present: the schema of what has landed.
    """

    folder: Path
    decode: dict[str, Any] = field(default_factory=dict)
    output: dict[str, Any] = field(
        default_factory=lambda: {"format": "Parquet", "columns": "FromSchema"}
    )
    spec: dict[str, Any] = field(default_factory=dict)
    present: Any = field(default_factory=lambda: PRESENT)

    @property
    def sections(self) -> dict[str, Any]:
        """The sections of the spec."""
        options = {"schema": json.dumps(self.present), **self.decode.get("options", {})}
        decode = {"timestamp": {"field": "at"}, **self.decode, "options": options}
        return {
            "source": {"kafka": {"bootstrapServers": "kafka:1", "topics": ["orders"]}},
            "decode": {"format": "Avro", **decode},
            "route": {"pattern": "dt={date}"},
            **self.spec,
        }

    def land(self, *values: Any) -> "ContractGroup":
        """Land payloads of the present schema, the first one at offset 0."""
        rows = [(offset, encoded(self.present, value)) for offset, value in enumerate(values)]
        output = {"url": self.url, **self.output}
        store = open_store(Output(url=self.url))
        landed = Backup({ORDERS: rows}, output, self.sections, store)
        landed.land(0, len(rows), tp=ORDERS).settle()
        return self

    @property
    def url(self) -> str:
        """The output root."""
        return f"file://{self.folder}/lake"

    def file(self) -> str:
        """Write the group's file, and return its path."""
        document = {
            "apiVersion": "landfall.dev/v1alpha1",
            "kind": "ConsumerGroup",
            "metadata": {"name": GROUP},
            "spec": {**self.sections, "output": {"url": self.url, **self.output}},
        }
        path = self.folder / "group.yaml"
        path.write_text(yaml.safe_dump(document))
        return str(path)

    def schema(self, declared: Any) -> str:
        """Write the file of a new schema, and return its path."""
        path = self.folder / "new.avsc"
        path.write_text(json.dumps(declared))
        return str(path)


def orders(count: int, **more: Any) -> list[dict[str, Any]]:
    """Values of so many orders, one a second."""
    return [
        {"id": number, "at": MIDNIGHT + 1000 * number, "quantity": number, **more}
        for number in range(count)
    ]
