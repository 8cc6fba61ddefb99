"""What each transform costs per record: ``python -m tests.bench.bench_transforms [NAME ...]``.

CPU time of this process, beside the decoder alone, on batches of 10,000 events of ten fields.
"""

import json
import os
import random
import sys
import tempfile
import time
from collections.abc import Callable
from hashlib import sha256
from pathlib import Path

from mmdb_writer import MMDBWriter
from netaddr import IPSet  # type: ignore[import-untyped]  # it has no stubs

from landfall.pipeline.records import Records
from tests.support.driver.transformed import Group, records

SECRETS = Path(__file__).parents[1] / "support" / "secrets"
ROWS, ROUNDS = 10_000, 15
COLUMNS = {
    "user": "String",
    "country": "String",
    "device": "String",
    "amount": "Float64",
    "n": "Int64",
    "at": "Timestamp",
    "ip": "String",
    "mail": "String",
    "ok": "Boolean",
    "kind": "String",
}
TEXT = {"fields": ["mail"]}
STEPS: dict[str, dict[str, object]] = {
    "Filter in": {"use": "Filter", "options": {"where": 'country in ("DE", "AT", "CH")'}},
    "Filter three": {
        "use": "Filter",
        "options": {"where": 'not matches(device, "^debug") and n >= 10 and kind != "test"'},
    },
    "Select": {"use": "Select", "options": {"fields": ["user", "country", "amount"]}},
    "Rename": {"use": "Rename", "options": {"user": "customer"}},
    "Cast": {"use": "Cast", "options": {"n": "String"}},
    "Set": {"use": "Set", "options": {"day": "{date}", "origin": "eu"}},
    "Flatten": {"use": "Flatten", "options": {}},
    "Mask": {"use": "Mask", "options": {**TEXT, "kind": "Mail"}},
    "Hash": {"use": "Hash", "options": {**TEXT, "secret": "mail-hash"}},
    "Sql": {
        "use": "Sql",
        "options": {"query": "SELECT *, upper(country) AS c FROM records WHERE kind <> 'test'"},
    },
    "LogId": {"use": "LogId", "options": {}},
}


def with_files(folder: Path) -> dict[str, dict[str, object]]:
    """The steps that read files, and these files: three devices, 256 networks."""
    table, networks = folder / "devices.csv", folder / "city.mmdb"
    table.write_text("device,owner\nphone,ann\ntablet,bob\ndebug-1,eve\n")
    writer = MMDBWriter(ip_version=6, ipv4_compatible=True)
    for i in range(256):
        found = {"country": {"iso_code": f"C{i}"}, "location": {"latitude": i / 2}}
        writer.insert_network(IPSet([f"10.1.{i}.0/24"]), found)
    writer.to_db_file(str(networks))
    lookup = {"file": str(table), "sha256": digest(table), "key": "device"}
    values = ["country.iso_code=code", "location.latitude=lat:Float64"]
    geo_ip = {"file": str(networks), "sha256": digest(networks), "ip": "ip", "values": values}
    return {
        "Lookup": {"use": "Lookup", "options": lookup},
        "GeoIp": {"use": "GeoIp", "options": geo_ip},
    }


def digest(file: Path) -> str:
    return sha256(file.read_bytes()).hexdigest()


def event(chosen: random.Random) -> dict[str, object]:
    return {
        "user": f"user-{chosen.randrange(10**6)}",
        "country": chosen.choice(["DE", "AT", "CH", "FR", "IT"]),
        "device": chosen.choice(["phone", "tablet", "debug-1"]),
        "amount": chosen.random() * 100,
        "n": chosen.randrange(1000),
        "at": 1_763_700_000_000 + chosen.randrange(10**6),
        "ip": f"10.1.{chosen.randrange(256)}.{chosen.randrange(256)}",
        "mail": f"user{chosen.randrange(10**5)}@example.com",
        "ok": chosen.random() < 0.5,
        "kind": chosen.choice(["click", "view", "test"]),
    }


def seconds(run: Callable[[], object]) -> float:
    """The median of the CPU seconds."""
    times = []
    for _ in range(ROUNDS):
        begun = time.process_time()
        run()
        times.append(time.process_time() - begun)
    return sorted(times)[ROUNDS // 2]


def main(names: list[str]) -> None:
    """Print one line for each step and form."""
    os.environ["LANDFALL_SECRETS"] = str(SECRETS)
    chosen = random.Random(7)  # the same events at every run
    rows = records(*(json.dumps(event(chosen)).encode() for _ in range(ROWS)))
    print(f"{'step':24} {'form':8} µs a record")
    with tempfile.TemporaryDirectory() as folder:
        steps = {**STEPS, **with_files(Path(folder))}
        measure({name: steps[name] for name in names or steps}, rows)


def measure(steps: dict[str, dict[str, object]], rows: Records) -> None:
    for name, step in steps.items():
        for form, columns in (("columns", COLUMNS), ("json", None)):
            try:
                stages = Group(
                    [step],
                    columns,
                    {"output__format": "Parquet"} if columns else None,
                ).pipeline()
            except Exception as error:  # noqa: BLE001  # a step that has one form only
                print(f"{name:24} {form:8} {str(error)[:60]}")
                continue
            decoded = stages.decoder.decode(rows)

            def run(stages: object = stages, decoded: object = decoded) -> None:
                after = decoded
                for transform in stages.transforms:  # type: ignore[attr-defined]
                    after = transform.apply(after)

            print(f"{name:24} {form:8} {seconds(run) / ROWS * 1e6:6.3f}")


if __name__ == "__main__":
    main(sys.argv[1:])
