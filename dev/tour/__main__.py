"""Runs the tour phase by phase, and times each phase."""

import argparse
import os
import signal
import sys
from collections.abc import Callable
from contextlib import AbstractContextManager
from pathlib import Path
from uuid import uuid4

from dev.demo import final_checks, flights
from dev.demo.buckets.s3 import DemoS3Bucket
from dev.demo.drivers import Landfall
from dev.demo.stores import STORES
from dev.demo.story import Story
from dev.kube import programs
from dev.servers.cache import MissingTool
from dev.servers.hive_metastore import HIVE_METASTORE
from dev.servers.server import STATE
from dev.tour.catalog import TourMetastore
from dev.tour.kubectl import TourKubectl
from dev.tour.place import TourPlace
from dev.tour.tour import NAMESPACE, Tour

ABOUT = """\
Land real events with two groups on a Kubernetes cluster. On the way, delete a driver pod, scale a
group, upgrade a group, and stop a catalog that is published to; then check that every event landed
exactly once.
"""


def main() -> int:
    """Run the tour; exit code 1 if a flight is missing, duplicate or in the wrong partition."""
    arguments = argparse.ArgumentParser(prog="make demo-cluster", description=ABOUT)
    arguments.add_argument(
        "--stop", action="store_true", help="stop the cluster and all servers at the end"
    )
    arguments.add_argument(
        "--state",
        type=Path,
        default=STATE / "tour",
        help="the folder for the cluster, servers, data and logs (default: .state/tour)",
    )
    arguments.add_argument(
        "--store",
        choices=STORES,
        default="s3",
        help="the store in which one of the groups lands (default: s3, as the other one)",
    )
    chosen = arguments.parse_args()
    signal.signal(signal.SIGTERM, lambda *_: sys.exit("ended by SIGTERM"))
    place = TourPlace(chosen.state.resolve(), STORES[chosen.store])
    try:
        return _run(Story(), place, stop=chosen.stop)
    except MissingTool as missing:
        raise SystemExit(str(missing)) from None
    except KeyboardInterrupt:
        raise SystemExit("interrupted") from None
    finally:
        if chosen.stop:
            place.down()


def _run(story: Story, place: TourPlace, *, stop: bool) -> int:
    name = "S3" if place.store is STORES["s3"] else f"S3 and {place.store.title}"
    with story.phase(
        f"Start a real Kubernetes cluster, Kafka broker and {name} server on this machine"
    ):
        tour = _start(story, place)
    with story.phase("Load the images of operator and drivers into the cluster"):
        place.load_images(story.say)
    with story.phase("Install the operator: helm upgrade --install"):
        tour.install(place.values())
    catalog = TourMetastore(tour, place.server(HIVE_METASTORE))
    _phases(tour, catalog)
    with story.phase("Compare the partitions in the Hive metastore with the folders in the bucket"):
        catalog.compare()
    is_exact = final_checks.run(story, tour.landfall, tour.bucket, tour.groups())
    story.conclude(is_exact=is_exact)
    if not stop:
        _print_next_steps(story, place)
    return 0 if is_exact else 1


def _start(story: Story, place: TourPlace) -> Tour:
    env = place.up(story.say)
    name = f"tour-{uuid4().hex[:6]}"
    bucket = STORES["s3"].bucket(name, env)
    assert isinstance(bucket, DemoS3Bucket)
    backup = bucket if place.store is STORES["s3"] else place.store.bucket(name, env)
    flights.create_topics(env["LANDFALL_KAFKA"])
    landfall = Landfall(place.folder, {**env, "LANDFALL_SECRETS": str(place.folder / "secrets")})
    kubectl = TourKubectl(
        env["KUBECONFIG"], programs.control_plane() / "kubectl", programs.helm() / "helm", NAMESPACE
    )
    return Tour(story, kubectl, landfall, bucket, backup)


def _phases(tour: Tour, catalog: TourMetastore) -> None:
    story, watching = tour.story, tour.kubectl.watching
    with tour.producing():
        with (
            story.phase(
                f"{flights.COUNT:,} flights start to arrive; create two groups: kubectl apply"
            ),
            watching(story.show),
        ):
            tour.apply()
        with story.phase("Delete a driver pod"), watching(story.show):
            tour.kill("partition")
        with (
            story.phase("Scale: add a second executor to the running driver"),
            watching(story.show),
        ):
            tour.scale("backup", 2)
        with (
            story.phase("Upgrade: a new generation takes over while events arrive"),
            watching(story.show),
        ):
            tour.upgrade("partition")
        _publish(story, catalog, watching)
    with story.phase("Land the rest"), watching(story.show):
        tour.finish()
    with story.phase("Suspend both groups: kubectl patch, state: Suspended"), watching(story.show):
        tour.suspend()


def _publish(
    story: Story, catalog: TourMetastore, watching: Callable[..., AbstractContextManager[None]]
) -> None:
    with (
        story.phase("Publish: each folder that lands becomes a partition in a Hive metastore"),
        watching(story.show),
    ):
        catalog.start()
        catalog.publish()
    with story.phase("Stop the metastore: landing goes on"), watching(story.show):
        catalog.stop()
    with story.phase("Start the metastore: the publisher catches up"), watching(story.show):
        catalog.start_again()


def _print_next_steps(story: Story, place: TourPlace) -> None:
    shown = os.path.relpath(place.folder)
    story.console.print(
        "\nThe cluster, Kafka and S3 are still running, so you can explore them:\n"
        f'   eval "$(dev/cluster env --state {shown})"\n'
        f"   kubectl get consumergroups -n {NAMESPACE} -o wide\n"
        f"   kubectl describe consumergroup partition -n {NAMESPACE}\n"
        "   make demo-cluster-clean    # stop everything and delete the data",
        soft_wrap=True,
    )


if __name__ == "__main__":
    raise SystemExit(main())
