"""What each built-in transform costs per record: ``python -m tests.bench.bench_transforms``.

CPU time of this process, beside the decoder alone, on batches of 10,000 events of ten fields.
"""

import json
import os
import random
import time
from collections.abc import Callable
from pathlib import Path

from tests.support.transformed import Group, records

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


def main() -> None:
    os.environ["LANDFALL_SECRETS"] = str(SECRETS)
    chosen = random.Random(7)  # the same events at every run
    rows = records(*(json.dumps(event(chosen)).encode() for _ in range(ROWS)))
    print(f"{'step':24} {'form':8} µs a record")
    for name, step in STEPS.items():
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
    main()
