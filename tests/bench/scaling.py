"""``make bench ARGS=--scale``: how landing scales with task slots, simulated, and what bounds it.

The driver, its plans, checks, records and completions are the real ones; executors, Kafka and the
store are simulated (``tests.bench.simulated``). What tasks cost are round figures near those that
were measured. So the tables show what waiting for the driver and uneven work leave of more slots.
They show neither a broker nor a network nor memory that many tasks share.
"""

import argparse
import os
from collections.abc import Mapping, Sequence
from dataclasses import replace

from landfall.driver.decide.batch_size import SLOTS_OF_MAX_BYTES
from landfall.driver.process.run import tune_garbage_collector
from tests.bench.simulated.executors import COSTS, Costs
from tests.bench.simulated.group import Landing, group, land
from tests.bench.whole_tables import markdown
from tests.support.driver.fakes import FakeLog

SLOTS = (1, 2, 4, 8, 16)
GIGABYTES = 64
TOPICS = ("8 Kafka partitions", "one has half of all", "one Kafka partition")


def topic(name: str, records: int) -> FakeLog:
    """A log of so many records, divided among Kafka partitions as the name says."""
    ends = {
        "8 Kafka partitions": [records // 8] * 8,
        "one has half of all": [records // 2, *[records // 14] * 7],
        "one Kafka partition": [records],
    }
    return FakeLog().write("t", *ends[name])


def speeds(costs: Costs = COSTS) -> Mapping[str, Sequence[Landing]]:
    """What each topic takes with each number of slots."""
    records = GIGABYTES * 10**9 // costs.message_bytes
    return {name: [land(topic(name, records), slots, costs) for slots in SLOTS] for name in TOPICS}


def speed_table(landed: Mapping[str, Sequence[Landing]]) -> str:
    """A row for each number of slots: how many times the speed of one slot, and more of them."""
    rows = []
    for at, slots in enumerate(SLOTS):
        times = [same[at].mb_per_second / same[0].mb_per_second for same in landed.values()]
        hot = landed[TOPICS[-1]][at]
        row = [str(slots), *(f"{each:.2f}" for each in times)]
        rows.append([*row, f"{hot.busy:.0%}", f"{hot.driver_seconds / hot.seconds:.1%}"])
    heads = ("slots", *landed, "its slots busy", "its driver, of one core")
    return markdown(heads, rows)


RESULTS = {100: 20, 1_000: 5, 10_000: 2}
"""By the results in a COMMIT, one of each topic partition, how many slices each of these has."""
MANY_SLOTS = 10_000


def limits(costs: Costs = COSTS) -> Mapping[int, Landing]:
    """Topics of slices of 1 MiB, with a slot for each: the driver never waits for tasks."""
    found = {}
    for results, slices in RESULTS.items():
        log, records = FakeLog(), int(slices * 2**20 * costs.ratio / costs.message_bytes)
        for number in range(results // 10):
            log.write(f"t{number}", *[records] * 10)
        most = results * 2**20 * SLOTS_OF_MAX_BYTES // MANY_SLOTS
        of = group(uploadPolicy={"maxBytes": "1Mi"}, tuning={"maxRoundBytes": most})
        found[results] = land(log, MANY_SLOTS, replace(costs, completion=0.0), of)
    return found


def limit_table(found: Mapping[int, Landing]) -> str:
    """What the driver computes for each result of a task and for each COMMIT."""
    rows = [
        [
            f"{results:,}",
            f"{each.slices:,}",
            f"{each.commits:,}",
            f"{each.driver_seconds / each.commits * 1e3:,.0f}",
            f"{each.driver_seconds / each.slices * 1e6:,.0f}",
            f"{each.slices / each.driver_seconds:,.0f}",
            f"{each.slot_bytes / each.slices:,.0f}",
        ]
        for results, each in found.items()
    ]
    heads = (
        "topic partitions", "results of slices", "COMMITs", "ms of CPU for a COMMIT",
        "µs of CPU for a result", "results for a CPU-second", "bytes of the ledger for a result",
    )  # fmt: skip
    return markdown(heads, rows)


def main(_: argparse.Namespace) -> None:
    """Simulate all and print the tables, ready for the documentation."""
    tune_garbage_collector()  # as a driver does
    print(f"load average {os.getloadavg()[0]:.1f}; {GIGABYTES} GB, {COSTS}\n")
    print(speed_table(speeds()), end="\n\n")
    print(limit_table(limits()))


if __name__ == "__main__":
    main(argparse.Namespace())
