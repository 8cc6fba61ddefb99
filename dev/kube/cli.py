"""The command line of ``dev/cluster``."""

import argparse
import json
import shlex
import sys
from dataclasses import asdict
from pathlib import Path

from dev.kube import programs
from dev.kube.cluster import EXISTING, ControlPlane, Status
from dev.servers.cache import Missing
from dev.servers.cli import NOT_RUNNING
from dev.servers.server import STATE

COMMANDS = """\
  up      start it unless it runs, and print the path of its kubeconfig
  down    stop it; its objects are forgotten, its logs stay
  status  print the path of its kubeconfig; exit code 3 when it does not run
  env     print what a client needs, as shell exports
  build   only build what it runs"""


def main() -> int:
    """Do what the command line says; exit code 1 when something is missing, 3 when ``status`` finds nothing running."""
    chosen = _arguments()
    try:
        return _do(chosen)
    except Missing as missing:
        print(missing, file=sys.stderr)
        return 1


def _do(chosen: argparse.Namespace) -> int:
    cluster = ControlPlane(chosen.state)
    match chosen.command:
        case "build":
            programs.control_plane()
            return 0
        case "up":
            return _print(cluster.up(), as_json=chosen.json)
        case "down":
            cluster.down()
            return 0
        case "env":
            status = cluster.status()
            for name, value in status.env.items():
                print(f"export {name}={shlex.quote(value)}")
            return 0 if status.running else NOT_RUNNING
        case _:
            return _print(cluster.status(), as_json=chosen.json)


def _print(status: Status, *, as_json: bool) -> int:
    if as_json:
        print(json.dumps(asdict(status)))
    else:
        print(status.kubeconfig if status.running else "the cluster is not running")
    return 0 if status.running else NOT_RUNNING


def _arguments() -> argparse.Namespace:
    parser = argparse.ArgumentParser(
        prog="dev/cluster",
        formatter_class=argparse.RawDescriptionHelpFormatter,
        description=f"A real Kubernetes {programs.KUBERNETES} on this machine.\n\n{COMMANDS}",
        epilog=f"With {EXISTING} set to a kubeconfig file, that cluster is used and none is started. KUBECONFIG alone is"
        " not taken for it: tests create and delete things, and it may name a cluster where that hurts.",
    )
    parser.add_argument("command", choices=("up", "down", "status", "env", "build"), help="see above")
    parser.add_argument(
        "--control-plane", action="store_true", help="only the API, on loopback and without root: no pod ever runs"
    )
    parser.add_argument("--state", type=Path, default=STATE, help="folder of all it has (default: .state)")
    parser.add_argument("--json", action="store_true", help="print kubeconfig, log folder and environment as JSON")
    return parser.parse_args()
