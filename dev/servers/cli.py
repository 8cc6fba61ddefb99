"""The command line of ``dev/kafka``, ``dev/s3`` and the like."""

import argparse
import json
import shlex
import sys
from dataclasses import asdict
from pathlib import Path

from dev.servers.cache import MissingTool
from dev.servers.server import HOST, STATE, Server, ServerKind, ServerStatus

COMMANDS = """\
  up      start the server unless it is running, and print its address
  down    stop the server and keep its data
  status  print the address of the server; exit code 3 if it is not running
  env     print the environment variables that clients need, as shell exports
  build   download or build the programs without starting the server"""

NOT_RUNNING = 3  # the exit code of init scripts' `status`


def main(kind: ServerKind) -> int:
    """Run one command; returns the exit code.

    It is 1 when the machine lacks something, 3 when ``status`` or ``env`` finds no running server.
    """
    arguments = _arguments(kind)
    server = Server(kind, arguments.state, arguments.host)
    try:
        return _run(arguments.command, server, as_json=arguments.json)
    except MissingTool as missing:
        print(missing, file=sys.stderr)
        return 1


def _run(command: str, server: Server, *, as_json: bool) -> int:
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


def _print(status: ServerStatus, *, as_json: bool) -> int:
    if as_json:
        print(json.dumps(asdict(status)))
    else:
        print(status.address if status.running else f"{status.name} is not running")
    return 0 if status.running else NOT_RUNNING


def _arguments(kind: ServerKind) -> argparse.Namespace:
    parser = argparse.ArgumentParser(
        prog=f"dev/{kind.name}",
        formatter_class=argparse.RawDescriptionHelpFormatter,
        description=f"Runs a real {kind.name} server on this machine.\n\n{COMMANDS}",
        epilog=f"If {kind.existing} names a server, that one is used and none is started.",
    )
    parser.add_argument(
        "command", choices=("up", "down", "status", "env", "build"), help="see above"
    )
    parser.add_argument(
        "--state",
        type=Path,
        default=STATE,
        help="folder for data, process id and log (default: .state)",
    )
    parser.add_argument("--host", default=HOST, help="address to listen on (default: loopback)")
    parser.add_argument(
        "--json", action="store_true", help="print address, process id, log and environment as JSON"
    )
    return parser.parse_args()
