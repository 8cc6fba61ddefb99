"""The law of the hot path: CPU time and memory are bounded by bytes, cells and files.

``python -m tests.bench.random_shapes --count 40 --seed 7`` lands topics of random shapes: how many
columns are declared and how many of them a record has, of which types; how long payloads, keys and
headers are; over how many output partitions rows are spread; to which format. Each is landed in a
process of its own, as ``tests.bench.shapes`` does it. Then the cost

    fixed + a * input bytes + b * cells + c * files + d * columns of files

with non-negative factors is fitted to the CPU time of all of them (least relative squares). The
bench fails if a shape costs more than ``FACTOR`` times what the law says, or if its memory rises
above that of the idle worker by more than a pod leaves a task. A new cliff shows as such a shape,
whose seed and description are printed.
"""

import argparse
import json
import math
import os
import subprocess
import sys
from dataclasses import asdict, dataclass
from itertools import combinations
from random import Random
from typing import Any

import numpy as np
import numpy.typing as npt

from landfall.driver.spark.malloc import MALLOC
from tests.bench.shapes import MOST_MIB, TABLE, Measured, Shape, landed
from tests.bench.whole_tables import markdown

FACTOR = 3.0
_INPUT_BYTES = 16_000_000
_TYPES = ("Int64", "Float64", "String", "Timestamp", "Boolean")
_ENVELOPE = 4
_TERMS = ("fixed, ms", "ns per byte", "ns per cell", "us per file", "us per column of a file")
_UNITS = (1e3, 1e9, 1e9, 1e6, 1e6)


@dataclass(frozen=True)
class Drawn:
    """A random shape.

    Attributes:
        rows: of the topic.
        columns: that are declared.
        present: how many of them a record has.
        types: of the columns, in turn.
        text_bytes: of a text.
        key_bytes: of a key; 0 for none.
        header_bytes: of a header; 0 for none.
        folders: the output partitions.
        format: of the files.
    """

    rows: int
    columns: int
    present: int
    types: tuple[str, ...]
    text_bytes: int
    key_bytes: int
    header_bytes: int
    folders: int
    format: str

    @classmethod
    def of(cls, seed: int) -> "Drawn":
        """Draw a shape; logarithms are uniform, so that narrow and wide ones are alike often."""
        random = Random(seed)

        def between(least: float, most: float) -> int:
            return round(least * math.pow(most / least, random.random()))

        columns = between(1, 1_000)
        present = columns if random.random() < 0.6 else between(1, columns)
        types = tuple(random.sample(_TYPES, random.randint(1, len(_TYPES))))
        text = between(1, 2_000) if random.random() < 0.5 else between(1, 20)
        of_texts = text * present * ("String" in types) // len(types)
        key = between(1, 10_000) if random.random() < 0.2 else 0
        header = between(1, 10_000) if random.random() < 0.2 else 0
        rows = max(1, _INPUT_BYTES // (20 * present + of_texts + key + header + 20))
        rows = min(rows, 2_000_000 // columns + 1)
        folders = between(1, 500) if random.random() < 0.7 else 1
        format_ = random.choice(("Parquet", "Parquet", "Orc", "Json"))
        return cls(rows, columns, present, types, text, key, header, min(folders, rows), format_)

    @property
    def shape(self) -> Shape:
        """As ``tests.bench.shapes`` lands it."""
        columns = [
            {"name": f"c{n}", "type": self.types[n % len(self.types)]} for n in range(self.columns)
        ]
        decode: dict[str, Any] = {"format": "Json"}
        if self.format != "Json":
            decode["columns"] = columns
        route = {"pattern": "f={field:folder}"}
        spec = {**TABLE, "decode": decode, "route": route, "output": {"format": self.format}}
        return Shape(
            self.rows,
            self._payload,
            spec,
            key_bytes=self.key_bytes,
            header_bytes=self.header_bytes,
        )

    def _payload(self, offset: int) -> bytes:
        first = offset * 31 % self.columns
        names = sorted((first + n) % self.columns for n in range(self.present))
        cells = ",".join(f'"c{n}":{self._value(n, offset)}' for n in names)
        return f'{{"folder":{offset * 7919 % self.folders},{cells}}}'.encode()

    def _value(self, column: int, offset: int) -> str:
        number = (offset * 7919 + column * 31) % 1_000_003
        match self.types[column % len(self.types)]:
            case "String":
                return f'"{number:0{self.text_bytes}}"'
            case "Float64":
                return f"{number}.25"
            case "Boolean":
                return "true" if number % 2 else "false"
            case "Timestamp":
                return str(1_763_700_000_000 + number)
            case _:
                return str(number)


def terms(drawn: Drawn, run: Measured) -> list[float]:
    """What the law multiplies: 1, input bytes, cells, files, columns of all files."""
    # JSON has no cells but those that are read, and files of it have no columns.
    is_table = drawn.format != "Json"
    cells = drawn.rows * (drawn.columns if is_table else 1)
    of_files = run.objects * (drawn.columns + _ENVELOPE) if is_table else 0
    return [1.0, run.input_bytes, cells, run.objects, of_files]


def fitted(
    costs: npt.NDArray[np.float64], of_terms: npt.NDArray[np.float64]
) -> npt.NDArray[np.float64]:
    """The non-negative factors of the least sum of squared relative errors, shape (terms,)."""
    relative = of_terms / costs[:, None]
    best, least = np.zeros(of_terms.shape[1]), np.inf
    for size in range(1, of_terms.shape[1] + 1):
        for chosen in map(list, combinations(range(of_terms.shape[1]), size)):
            found, *_ = np.linalg.lstsq(relative[:, chosen], np.ones(len(costs)), rcond=None)
            error = float(((relative[:, chosen] @ found - 1) ** 2).sum())
            if (found >= 0).all() and error < least:
                best, least = np.zeros(of_terms.shape[1]), error
                best[chosen] = found
    return best


def main() -> None:
    """Land the shapes, fit the law, and print both; fails if a shape is beyond it."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--count", type=int, default=40, help="how many shapes")
    parser.add_argument("--seed", type=int, default=7, help="of the first; the others follow")
    parser.add_argument("--one", type=int, help="land only the shape of this seed, print figures")
    options = parser.parse_args()
    if options.one is not None:
        print(json.dumps(asdict(landed(Drawn.of(options.one).shape))))
        return
    malloc = {name: str(value) for name, value in MALLOC.items()}
    env = {**os.environ, **malloc, "ARROW_DEFAULT_MEMORY_POOL": "system"}  # as in executors
    drawn, runs = [], []
    for seed in range(options.seed, options.seed + options.count):
        command = [sys.executable, "-m", "tests.bench.random_shapes", "--one", str(seed)]
        made = subprocess.run(command, env=env, check=True, capture_output=True, text=True)
        drawn.append(Drawn.of(seed))
        runs.append(Measured(**json.loads(made.stdout)))
        print(f"{seed}: {drawn[-1]}: {runs[-1]}", file=sys.stderr, flush=True)
    costs = np.array([run.cpu_seconds for run in runs])
    of_terms = np.array([terms(shape, run) for shape, run in zip(drawn, runs, strict=True)])
    factors = fitted(costs, of_terms)
    ratios = costs / (of_terms @ factors)
    print(markdown(_TERMS, [[f"{f * u:.2g}" for f, u in zip(factors, _UNITS, strict=True)]]))
    peak = max(run.peak_mib for run in runs)
    spread = f"{np.min(ratios):.2f} to {np.max(ratios):.2f}, median {np.median(ratios):.2f}"
    print(f"\n{len(runs)} shapes cost {spread} times what the law says; peak {peak:.0f} MiB")
    beyond = [
        f"seed {options.seed + i}: {ratios[i]:.1f} times, {runs[i].peak_mib:.0f} MiB, {drawn[i]}"
        for i in range(len(runs))
        if ratios[i] > FACTOR or runs[i].peak_mib > MOST_MIB
    ]
    if beyond:
        sys.exit("beyond the law:\n" + "\n".join(beyond))


if __name__ == "__main__":
    main()
