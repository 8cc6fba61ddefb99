"""The command line of ``dev/cluster``."""

import argparse
import json
import os
import shlex
import sys
from collections.abc import Sequence
from dataclasses import asdict
from pathlib import Path

from dev.kube import images, programs, requirements
from dev.kube.cluster import EXISTING, Cluster, ClusterStatus, ControlPlane
from dev.servers.cache import MissingTool
from dev.servers.cli import NOT_RUNNING
from dev.servers.server import STATE

COMMANDS = """\
  up        start the cluster unless it is running, and print the path of its kubeconfig
  down      stop the cluster and delete its objects; --purge also deletes logs and images
  status    print the path of the kubeconfig; exit code 3 if the cluster is not running
  env       print shell exports for clients, with kubectl and helm on PATH
  enforce   have the node enforce NetworkPolicies, until it stops
  enter     run a command (default: a shell) in the namespaces of the node
  images    build Landfall's images from the current sources, unless they exist
  load      build the images and load them into the running node; print their names for pods
  check     exit code 0 if this machine can run the cluster; otherwise print what is missing
  packages  print the names of the missing Debian packages, for apt-get install
  build     build the programs without starting the cluster"""

CHOICES = (
    *("up", "down", "status", "env", "images", "load"),
    *("enforce", "enter", "check", "packages", "build"),
)


def main() -> int:
    """Run one command; returns the exit code.

    It is 1 when the machine lacks something, 3 when ``status`` or ``env`` finds no running cluster.
    """
    arguments, rest = _parser().parse_known_args()
    if rest and arguments.command != "enter":
        _parser().error(f"unrecognized arguments: {' '.join(rest)}")
    try:
        return _run(arguments, rest)
    except MissingTool as missing:
        print(missing, file=sys.stderr)
        return 1


def _run(arguments: argparse.Namespace, rest: Sequence[str]) -> int:
    cluster = (ControlPlane if arguments.control_plane else Cluster)(arguments.state)
    match arguments.command:
        case "up":
            return _print(cluster.up(), as_json=arguments.json)
        case "status":
            return _print(cluster.status(), as_json=arguments.json)
        case "env":
            return _export(cluster.status())
        case "down":
            cluster.down(purge=arguments.purge)
        case "check":
            cluster.check()
        case "build":
            _build(control_plane=arguments.control_plane)
        case _:
            _run_on_node(Cluster(arguments.state), arguments.command, rest)
    return 0


def _run_on_node(cluster: Cluster, command: str, rest: Sequence[str]) -> None:
    """Run a command that concerns the node or its images."""
    match command:
        case "images":
            images.ensure()
        case "packages":
            print(" ".join(requirements.missing_packages()))
        case "load":
            print("\n".join(cluster.load()))
        case "enforce":
            cluster.enforce()
        case "enter":
            argv = [*cluster.node.inside(), *(rest or ["sh"])]
            os.execvp(argv[0], argv)  # noqa: S606  # the user's own command


def _build(*, control_plane: bool) -> None:
    programs.control_plane()
    programs.helm()
    if not control_plane:
        programs.node()


def _export(status: ClusterStatus) -> int:
    for name, value in status.env.items():
        print(f"export {name}={shlex.quote(value)}")
    print(f'export PATH={shlex.quote(f"{programs.control_plane()}:{programs.helm()}")}:"$PATH"')
    return 0 if status.running else NOT_RUNNING


def _print(status: ClusterStatus, *, as_json: bool) -> int:
    if as_json:
        print(json.dumps(asdict(status)))
    else:
        print(status.kubeconfig if status.running else "the cluster is not running")
    return 0 if status.running else NOT_RUNNING


def _parser() -> argparse.ArgumentParser:
    parser = argparse.ArgumentParser(
        prog="dev/cluster",
        formatter_class=argparse.RawDescriptionHelpFormatter,
        description=f"Runs a real single-node Kubernetes {programs.KUBERNETES} on this machine."
        f"\n\n{COMMANDS}",
        epilog=f"If {EXISTING} names a kubeconfig file, that cluster is used and none is started.\n"
        "KUBECONFIG alone is ignored, because tests create and delete objects, and it may\n"
        "name a cluster where that does harm.",
    )
    parser.add_argument("command", choices=CHOICES, help="see above")
    parser.add_argument(
        "--control-plane",
        action="store_true",
        help="a separate control plane without node and pods, on loopback and without root",
    )
    parser.add_argument(
        "--state",
        type=Path,
        default=STATE,
        help="folder of everything the cluster has (default: .state)",
    )
    parser.add_argument(
        "--purge", action="store_true", help="with down: also delete logs and loaded images"
    )
    parser.add_argument(
        "--json",
        action="store_true",
        help="print kubeconfig, address, log folder and environment as JSON",
    )
    return parser
