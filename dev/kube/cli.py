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
from dev.kube.cluster import EXISTING, Cluster, ControlPlane, Status
from dev.servers.cache import Missing
from dev.servers.cli import NOT_RUNNING
from dev.servers.server import STATE

COMMANDS = """\
  up        start it unless it runs, and print the path of its kubeconfig
  down      stop it; its objects are forgotten, its logs and the images in it stay; --purge forgets these, too
  status    print the path of its kubeconfig; exit code 3 when it does not run
  env       print what a client needs, kubectl and helm included, as shell exports
  enter     run a command (default: a shell) in the node's namespaces
  images    build Landfall's images of the sources as they are now, unless they are there
  load      the same, and have them in the running node; print what pods call them
  check     exit code 0 if this machine can run it; else say what it lacks
  packages  print which of Debian's packages it lacks, for apt-get install
  build     only build what it runs"""

CHOICES = ("up", "down", "status", "env", "images", "load", "enter", "check", "packages", "build")


def main() -> int:
    """Do what the command line says; exit code 1 when something is missing, 3 when ``status`` finds nothing running."""
    chosen, rest = _parser().parse_known_args()
    if rest and chosen.command != "enter":
        _parser().error(f"unrecognized arguments: {' '.join(rest)}")
    try:
        return _do(chosen, rest)
    except Missing as missing:
        print(missing, file=sys.stderr)
        return 1


def _do(chosen: argparse.Namespace, rest: Sequence[str]) -> int:
    cluster = (ControlPlane if chosen.control_plane else Cluster)(chosen.state)
    match chosen.command:
        case "up":
            return _print(cluster.up(), as_json=chosen.json)
        case "status":
            return _print(cluster.status(), as_json=chosen.json)
        case "env":
            return _export(cluster.status())
        case "down":
            cluster.down(purge=chosen.purge)
        case "check":
            cluster.check()
        case "build":
            _build(control_plane=chosen.control_plane)
        case _:
            _inside(Cluster(chosen.state), chosen.command, rest)
    return 0


def _inside(cluster: Cluster, command: str, rest: Sequence[str]) -> None:
    """What is about the node and its images."""
    match command:
        case "images":
            images.have()
        case "packages":
            print(" ".join(requirements.missing_packages()))
        case "load":
            print("\n".join(cluster.load()))
        case "enter":
            argv = [*cluster.node.inside(), *(rest or ["sh"])]
            os.execvp(argv[0], argv)  # noqa: S606  # the user's own command


def _build(*, control_plane: bool) -> None:
    programs.control_plane()
    programs.helm()
    if not control_plane:
        programs.node()


def _export(status: Status) -> int:
    for name, value in status.env.items():
        print(f"export {name}={shlex.quote(value)}")
    print(f'export PATH={shlex.quote(f"{programs.control_plane()}:{programs.helm()}")}:"$PATH"')
    return 0 if status.running else NOT_RUNNING


def _print(status: Status, *, as_json: bool) -> int:
    if as_json:
        print(json.dumps(asdict(status)))
    else:
        print(status.kubeconfig if status.running else "the cluster is not running")
    return 0 if status.running else NOT_RUNNING


def _parser() -> argparse.ArgumentParser:
    parser = argparse.ArgumentParser(
        prog="dev/cluster",
        formatter_class=argparse.RawDescriptionHelpFormatter,
        description=f"A real Kubernetes {programs.KUBERNETES} of one node on this machine.\n\n{COMMANDS}",
        epilog=f"With {EXISTING} set to a kubeconfig file, that cluster is used and none is started. KUBECONFIG alone is\n"
        "not taken for it: tests create and delete things, and it may name a cluster where that hurts.",
    )
    parser.add_argument("command", choices=CHOICES, help="see above")
    parser.add_argument(
        "--control-plane",
        action="store_true",
        help="another one, beside it: only the API, on loopback and without root; no pod ever runs",
    )
    parser.add_argument(
        "--state", type=Path, default=STATE, help="folder of all it has (default: .state)"
    )
    parser.add_argument(
        "--purge", action="store_true", help="with down: forget logs and images, too"
    )
    parser.add_argument("--json", action="store_true", help="print all there is to know as JSON")
    return parser
