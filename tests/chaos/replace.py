"""``python -m tests.chaos.replace``: kill drivers that merge, for minutes; see ``replacing``.

It starts Kafka, S3 and a proxy that breaks requests; no node is needed. The exit code is 1 if
anything is wrong in the end, or a reader saw what must not be.
"""

import argparse
import sys
import time
from pathlib import Path
from tempfile import TemporaryDirectory

from dev.servers.server import STATE
from tests.bench.environment import servers
from tests.chaos.replacing import Replacing
from tests.support.landing.group import Scene


def main() -> int:
    """Run, and print what was done and what is wrong; returns the exit code."""
    parser = argparse.ArgumentParser(prog="python -m tests.chaos.replace", description=__doc__)
    parser.add_argument("--minutes", type=float, default=5)
    parser.add_argument("--seed", type=int, default=int(time.time()))
    parser.add_argument("--sort", action="store_true", help="merged rows are sorted")
    parser.add_argument("--folder", type=Path, help="where logs stay")
    options = parser.parse_args()
    with TemporaryDirectory() as temporary, servers(STATE / "chaos-replacing") as ours:
        folder = options.folder or Path(temporary)
        folder.mkdir(exist_ok=True, parents=True)
        scene = Scene(ours.broker, ours.s3.create_bucket())
        run = Replacing(scene, folder, options.seed, sorts=options.sort)
        wrong = run.run(60 * options.minutes)
    lines = [f"seed {options.seed}, {options.minutes:g} minutes"]
    lines += [f"{count:>10,}  {name}" for name, count in run.done.items()]
    lines += [f"WRONG: {each}" for each in wrong] or ["nothing is wrong"]
    sys.stdout.write("\n".join(lines) + "\n")
    return 1 if wrong else 0


if __name__ == "__main__":
    sys.exit(main())
