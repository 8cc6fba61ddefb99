"""The command line of ``dev/kafka`` and ``dev/s3``."""

import argparse
import json
import shlex
import sys
from dataclasses import asdict
from pathlib import Path

from dev.servers.cache import Missing
from dev.servers.server import HOST, STATE, Kind, Server, Status

COMMANDS = """\
  up      start it unless it runs, and print its address
  down    stop it; its data stays
  status  print its address; exit code 3 when it does not run
  env     print what a client needs, as shell exports
  build   only fetch or build what it runs"""

NOT_RUNNING = 3  # as init scripts' `status` says it


def main(kind: Kind) -> int:
    """Do what the command line says; exit code 1 when something is missing, 3 when ``status`` finds nothing running."""
    chosen = _arguments(kind)
    server = Server(kind, chosen.state, chosen.host)
    try:
        return _do(chosen.command, server, as_json=chosen.json)
    except Missing as missing:
        print(missing, file=sys.stderr)
        return 1


def _do(command: str, server: Server, *, as_json: bool) -> int:
    match command:
        case "build":
            server.kind.build()
            return 0
        case "up":
            return _print(server.up(), as_json=as_json)
        case "down":
            server.down()
            return 0
        case "env":
            status = server.status()
            for name, value in status.env.items():
                print(f"export {name}={shlex.quote(value)}")
            return 0 if status.running else NOT_RUNNING
        case _:
            return _print(server.status(), as_json=as_json)


def _print(status: Status, *, as_json: bool) -> int:
    if as_json:
        print(json.dumps(asdict(status)))
    else:
        print(status.address if status.running else f"{status.name} is not running")
    return 0 if status.running else NOT_RUNNING


def _arguments(kind: Kind) -> argparse.Namespace:
    parser = argparse.ArgumentParser(
        prog=f"dev/{kind.name}",
        formatter_class=argparse.RawDescriptionHelpFormatter,
        description=f"A real {kind.name} server on this machine.\n\n{COMMANDS}",
        epilog=f"With {kind.existing} set, that server is used and none is started.",
    )
    parser.add_argument(
        "command", choices=("up", "down", "status", "env", "build"), help="see above"
    )
    parser.add_argument(
        "--state",
        type=Path,
        default=STATE,
        help="folder of its data, pid and log (default: .state)",
    )
    parser.add_argument(
        "--host", default=HOST, help="address of this machine to listen on (default: loopback)"
    )
    parser.add_argument(
        "--json", action="store_true", help="print address, pid, log and environment as JSON"
    )
    return parser.parse_args()
