"""Tells the tour's story, phase by phase, and times it."""

import argparse
import os
import signal
import sys
from pathlib import Path
from uuid import uuid4

from dev.demo import flights, proof, verdict
from dev.demo.drivers import Landfall
from dev.demo.story import Story
from dev.kube import programs
from dev.servers.cache import Missing
from dev.servers.server import STATE
from dev.tour.kubectl import Kubectl
from dev.tour.place import Place
from dev.tour.tour import NAMESPACE, Tour


def main() -> int:
    """Tell it all; exit code 1 when a flight is missing, landed twice or lies in the wrong place."""
    arguments = argparse.ArgumentParser(prog="make demo-cluster", description=__doc__)
    arguments.add_argument(
        "--stop", action="store_true", help="stop the cluster, Kafka and S3 at the end"
    )
    arguments.add_argument(
        "--state",
        type=Path,
        default=STATE / "tour",
        help="folder of all of it (default: .state/tour)",
    )
    chosen = arguments.parse_args()
    signal.signal(signal.SIGTERM, lambda *_: sys.exit("ended by SIGTERM"))
    place = Place(chosen.state.resolve())
    try:
        return _tell(Story(), place, stop=chosen.stop)
    except Missing as missing:
        raise SystemExit(str(missing)) from None
    except KeyboardInterrupt:
        raise SystemExit("interrupted") from None
    finally:
        if chosen.stop:
            place.down()


def _tell(story: Story, place: Place, *, stop: bool) -> int:
    with story.phase("A Kubernetes cluster, Kafka and S3, real ones, on this machine"):
        tour = _start(story, place)
    with story.phase("The images of operator and drivers"):
        place.load_images(story.say)
    with story.phase("helm install"):
        tour.install(place.values())
    _deeds(tour)
    sound = verdict.told(story, tour.landfall, tour.bucket, tour.groups())
    if not stop:
        _look_around(story, place)
    return 0 if sound else 1


def _start(story: Story, place: Place) -> Tour:
    env = place.up(story.say)
    bucket = proof.Bucket(env["LANDFALL_S3"], f"tour-{uuid4().hex[:6]}", {**os.environ, **env})
    bucket.client.create_bucket(Bucket=bucket.name)
    flights.create_topics(env["LANDFALL_KAFKA"])
    landfall = Landfall(place.folder, {**env, "LANDFALL_SECRETS": str(place.folder / "secrets")})
    kubectl = Kubectl(
        env["KUBECONFIG"], programs.control_plane() / "kubectl", programs.helm() / "helm", NAMESPACE
    )
    return Tour(story, kubectl, landfall, bucket)


def _deeds(tour: Tour) -> None:
    story, watching = tour.story, tour.kubectl.watching
    with tour.producing():
        with (
            story.phase(f"{flights.COUNT:,} flights begin to arrive; kubectl apply -f: two groups"),
            watching(story.show),
        ):
            tour.apply()
        with story.phase("A driver pod is deleted in the middle"), watching(story.show):
            tour.kill("partition")
        with story.phase("Scale: a second executor for the running driver"), watching(story.show):
            tour.scale("backup", 2)
        with (
            story.phase("Upgrade: a new generation takes over while events arrive"),
            watching(story.show),
        ):
            tour.upgrade("partition")
    with story.phase("The rest arrives and lands"), watching(story.show):
        tour.finish()
    with story.phase("kubectl patch: state: Suspended; both drain"), watching(story.show):
        tour.suspend()


def _look_around(story: Story, place: Place) -> None:
    shown = os.path.relpath(place.folder)
    story.console.print(
        "\nThe cluster, Kafka and S3 still run, so look around:\n"
        f'   eval "$(dev/cluster env --state {shown})"\n'
        f"   kubectl get consumergroups -n {NAMESPACE} -o wide\n"
        f"   kubectl describe consumergroup partition -n {NAMESPACE}\n"
        "   make demo-cluster-clean    # when done",
        soft_wrap=True,
    )


if __name__ == "__main__":
    raise SystemExit(main())
