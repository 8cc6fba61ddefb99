"""Runs the demo phase by phase, and times each phase."""

import argparse
import os
import shutil
import signal
import sys
from pathlib import Path
from uuid import uuid4

from rich.tree import Tree

from dev.demo import final_checks, flights, lake, proof
from dev.demo.buckets import DemoBucket, landed
from dev.demo.drivers import Group, Landfall
from dev.demo.landing import land
from dev.demo.stores import STORES, DemoStore
from dev.demo.story import Story
from dev.servers.cache import MissingTool
from dev.servers.kafka import KAFKA
from dev.servers.server import STATE, Server

ABOUT = """\
Land real events from Kafka in S3, or in another store, with two groups, kill one driver with
SIGKILL on the way, and check with DuckDB that every event landed exactly once. In S3, one group
publishes what it lands as Iceberg tables, which DuckDB reads; Spark reads the same by its name.
"""


def main() -> int:
    """Run the demo; exit code 1 if a flight is missing, duplicate or in the wrong partition."""
    arguments = argparse.ArgumentParser(prog="make demo", description=ABOUT)
    arguments.add_argument("--stop", action="store_true", help="stop all servers at the end")
    arguments.add_argument(
        "--store", choices=STORES, default="s3", help="the store to land in (default: s3)"
    )
    arguments.add_argument(
        "--state",
        type=Path,
        default=STATE / "demo",
        help="the folder for servers, data and logs (default: .state/demo)",
    )
    chosen = arguments.parse_args()
    signal.signal(signal.SIGTERM, lambda *_: sys.exit("ended by SIGTERM"))
    folder, store = chosen.state.resolve(), STORES[chosen.store]
    try:
        return _demo(Story(), folder, store, stop=chosen.stop)
    except MissingTool as missing:
        raise SystemExit(str(missing)) from None
    except KeyboardInterrupt:
        raise SystemExit("interrupted") from None
    finally:
        if chosen.stop:
            for kind in (KAFKA, store.server):
                Server(kind, folder).down(at_once=True)


def _demo(story: Story, folder: Path, store: DemoStore, *, stop: bool) -> int:
    name = store.title
    with story.phase(f"Start a real Kafka broker and a real {name} server on this machine"):
        landfall, bucket = _start(story, folder, store)
    groups = [landfall.group(name, bucket) for name in ("lake", "partition")]
    topics = ", ".join(map(flights.topic, flights.AIRPORTS))
    with story.phase(f"Produce {flights.COUNT:,} flights as JSON events into {topics}"):
        _produce(story, landfall.env["LANDFALL_KAFKA"])
    with (
        story.phase("Land them with two groups at once, and kill -9 one driver on the way"),
        story.progress() as bars,
    ):
        land(landfall, bucket, groups, bars)
    with story.phase("List what landed"):
        for group in groups:
            _draw(story, bucket, group)
    is_exact = final_checks.run(story, landfall, bucket, groups)
    is_exact &= lake.run(story, landfall, bucket, groups[0])
    story.conclude(is_exact=is_exact)
    if not stop:
        _print_next_steps(story, folder, store)
    return 0 if is_exact else 1


def _start(story: Story, folder: Path, store: DemoStore) -> tuple[Landfall, DemoBucket]:
    """Fresh servers, unless the environment names existing ones, and a new bucket."""
    servers = [Server(KAFKA, folder), Server(store.server, folder)]
    for server in servers:
        server.down(at_once=True)
        shutil.rmtree(server.home)
    for left in (*folder.glob("*.log"), *folder.glob("catalog.db")):
        left.unlink()
    env: dict[str, str] = {}
    for server in servers:
        status = server.up()
        env |= status.env
        existing = "" if status.pid else "  (existing server)"
        story.say(f"{status.name:5} {status.address}{existing}")
    bucket = store.bucket(f"demo-{uuid4().hex[:6]}", env)
    flights.create_topics(env["LANDFALL_KAFKA"])
    landfall = Landfall(folder, {**env, "LANDFALL_SECRETS": str(folder / "secrets")})
    landfall.save_secret(store.server.name, bucket)
    return landfall, bucket


def _produce(story: Story, bootstrap: str) -> None:
    with story.progress() as progress:
        bar = progress.add_task("produced", total=flights.COUNT, note="")
        size = flights.produce(bootstrap, lambda events: progress.advance(bar, events))
        progress.update(bar, completed=flights.COUNT, note=f"{size / 1e6:.0f} MB")


def _draw(story: Story, bucket: DemoBucket, group: Group) -> None:
    sizes = landed(bucket, group.name)
    total = f"{len(sizes):,} objects, {sum(sizes.values()) / 1e6:.1f} MB"
    tree = Tree(f"{bucket.url(group.name)}  [dim]{total}")
    for topic, output_partitions in sorted(proof.output_partitions(sizes).items()):
        branch = tree.add(f"{topic}  [dim]{len(output_partitions)} output partitions")
        first = min(output_partitions)
        leaf = branch.add(first)
        prefix = f"{group.name}/{topic}/{first}/"
        for key in [key for key in sorted(sizes) if key.startswith(prefix)][:2]:
            leaf.add(f"{Path(key).name}  [dim]{sizes[key]:,} B")
        if len(output_partitions) > 1:
            branch.add(f"[dim]… to {max(output_partitions)}")
    story.console.print(tree)


def _print_next_steps(story: Story, folder: Path, store: DemoStore) -> None:
    shown, server = os.path.relpath(folder), store.server.name
    secrets = "" if server == "s3" else f"   export LANDFALL_SECRETS={shown}/secrets\n"
    story.console.print(
        f"\nKafka and {store.title} are still running, so you can explore what landed:\n"
        f'   eval "$(dev/{server} env --state {shown})"\n'
        f"{secrets}"
        f"   .venv/bin/landfall status {shown}/partition.yaml --partitions\n"
        f"   .venv/bin/landfall locate {shown}/partition.yaml flights.JFK 0 4711\n"
        "   make demo-clean    # stop the servers and delete the data",
        soft_wrap=True,
    )


if __name__ == "__main__":
    raise SystemExit(main())
