"""Avro with a schema registry, through the whole data plane: real Kafka, real S3, Spark's workers.

The registry is a server of this process, so that a test can take it away.
"""

import hmac
import json
from collections.abc import Iterator, Sequence
from datetime import UTC, datetime, timedelta
from decimal import Decimal
from pathlib import Path
from typing import Any

import pytest
from pyspark import SparkContext

from landfall_audit import Unchecked
from tests.support.audit.independent_audit import FIRST_DAY, data_keys, parquet_rows
from tests.support.kafka.schema_registry import FakeRegistry, schema_registry
from tests.support.landing.group import Scene, landing
from tests.support.payloads.avro import Declared, encoded

pytestmark = pytest.mark.xdist_group("spark")

SECRETS = Path(__file__).parents[1] / "support/secrets"


def order(*more: Declared, id_type: str = "long") -> Declared:
    """A schema of orders: the fields of the first version, and more."""
    decimal = {"type": "bytes", "logicalType": "decimal", "precision": 9, "scale": 2}
    fields: list[Declared] = [
        {"name": "id", "type": id_type},
        {"name": "at", "type": {"type": "long", "logicalType": "timestamp-millis"}},
        {"name": "device", "type": "string"},
        {"name": "mail", "type": ["null", "string"]},
        {"name": "total", "type": decimal},
    ]
    return {"type": "record", "name": "Order", "fields": [*fields, *more]}


COUPON = {"name": "coupon", "type": ["string", "null"], "default": "none"}
V1, V2, V3 = 101, 102, 2**31 - 1
SCHEMAS: dict[int, Declared] = {
    V1: order(id_type="int"),
    V2: order(COUPON),
    V3: order(COUPON, {"name": "shop", "type": "int"}),
}
NOBODYS = 4711
"""A schema id that the registry does not know."""

TEXTS = ("device", "mail", "total", "coupon")
DEVICES = ("phone", "debug", "tablet")


def value(n: int, version: int) -> dict[str, Any]:
    """The order with this number, as its producer of that version means it."""
    made: dict[str, Any] = {
        "id": n,
        "at": FIRST_DAY + timedelta(hours=n % 30, milliseconds=n),
        "device": DEVICES[n % 3],
        "mail": None if n % 7 == 0 else f"User{n % 5}@Example.com",
        "total": Decimal(n * 17 - 400).scaleb(-2),
    }
    if version != V1:
        made["coupon"] = None if n % 4 == 0 else f"c{n}"
    return made | ({"shop": n} if version == V3 else {})


def payload(n: int, version: int) -> bytes:
    return b"\0" + version.to_bytes(4) + encoded(SCHEMAS[version], value(n, version))


def expected(offset: int, n: int, version: int) -> tuple[object, ...]:
    """What must be landed of an order, by the standard library alone."""
    given = {"coupon": "none", **value(n, version)}
    mail = given["mail"]
    key = (SECRETS / "mail-hash/key").read_bytes().strip()
    hashed = mail and hmac.new(key, mail.lower().encode(), "sha256").hexdigest()
    at = int(given["at"].timestamp() * 1000)
    return offset, n, at, given["device"], hashed, str(given["total"]), given["coupon"]


def spec(registry: FakeRegistry) -> dict[str, Any]:
    columns = {"id": "Int64", "at": "Timestamp"} | dict.fromkeys(TEXTS, "String")
    return {
        "decode": {
            "format": "Avro",
            "timestamp": {"field": "at", "unit": "Milliseconds"},
            "registry": {"urls": [registry.url]},
            "options": {"readerSchema": json.dumps(SCHEMAS[V2])},
            "columns": [{"name": name, "type": type_} for name, type_ in columns.items()],
        },
        "transforms": [
            {"use": "Filter", "options": {"drop": 'device == "debug"'}},
            {"use": "Hash", "options": {"fields": ["mail"], "secret": "mail-hash", "lower": True}},
        ],
        "route": {"pattern": "dt={date}/device={field:device}"},
        "output": {"format": "Parquet"},
        "badRecords": {"maxRatio": "0.5"},
    }


@pytest.fixture
def registry(monkeypatch: pytest.MonkeyPatch) -> Iterator[FakeRegistry]:
    monkeypatch.setenv("LANDFALL_SECRETS", str(SECRETS))
    with schema_registry() as made:
        yield made


def test_avro_of_evolving_schemas_lands_exactly_once_though_the_registry_goes_away(
    scene: Scene, context: SparkContext, registry: FakeRegistry
) -> None:
    topic = scene.topic()
    registry.add(V1, SCHEMAS[V1])
    registry.add(V2, SCHEMAS[V2])
    before = [(n, (V1, V2)[n % 2]) for n in range(500)]
    during = [(n, V3) for n in range(500, 700)]
    truncated = payload(0, V2)[:-3]
    unknown = b"\0" + NOBODYS.to_bytes(4) + payload(0, V2)[5:]
    scene.kafka.produce(topic, [payload(n, version) for n, version in before])
    scene.kafka.produce(topic, [truncated, unknown])

    with landing(scene.group(**spec(registry)), context) as driver:
        driver.wait_until_landed()
        registry.status = 503
        scene.kafka.produce(topic, [payload(n, version) for n, version in during])
        away = driver.wait_until(lambda s: s.commits.consecutive_failures, "the registry is away")
        registry.add(V3, SCHEMAS[V3])
        registry.status = 0
        back = driver.wait_until_landed()

    assert away.commits.last_failure
    assert away.commits.last_failure.reason == "SchemaRegistryUnavailable"
    assert away.lag_records == len(during)
    assert back.commits.consecutive_failures == 0
    numbered = [*enumerate(before), *enumerate(during, len(before) + 2)]
    assert landed(scene) == [
        expected(offset, n, version)
        for offset, (n, version) in numbered
        if value(n, version)["device"] != "debug"
    ]
    assert dead_letters(scene) == [
        (500, "decode", "avro: total: ends inside a value", truncated),
        (501, "decode", f"avro: schema id {NOBODYS} is not in the registry", unknown),
    ]
    totals = scene.state().totals
    assert (totals.landed + totals.filtered, totals.dead_lettered) == (700, 2)
    assert scene.faults(**spec(registry)) == []
    audited = scene.audited(**spec(registry)).results[topic, 0]
    assert (audited.expected, audited.found) == (totals.landed + 2, totals.landed + 2)
    assert set(audited.unchecked) == {Unchecked.PAYLOAD, Unchecked.PLACE}


def landed(scene: Scene) -> Sequence[tuple[object, ...]]:
    """Every row, by offset; each must be in its own directory."""
    columns = f'_offset, id, epoch_ms("at"), {", ".join(TEXTS)}'
    rows: list[tuple[Any, ...]] = []
    for key in data_keys(scene.bucket):
        found = parquet_rows(scene.bucket, [key], columns)
        assert {directory(at, device) for _, _, at, device, *_ in found} == {
            key.partition("/")[2].rpartition("/")[0]
        }
        rows += found
    return sorted(rows)


def directory(millis: int, device: str) -> str:
    return f"dt={datetime.fromtimestamp(millis / 1000, UTC):%Y-%m-%d}/device={device}"


def dead_letters(scene: Scene) -> Sequence[tuple[object, ...]]:
    keys = scene.bucket.keys("_landfall/scene/dead-letters/")
    return sorted(parquet_rows(scene.bucket, keys, '"offset", stage, error, value'))
