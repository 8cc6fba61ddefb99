"""``kubectl landfall``: parse, ask, wait for the operator's answer, end with an exit code."""

import argparse
import re
import sys
import time
from collections.abc import Callable, Mapping, Sequence
from datetime import UTC, datetime, timedelta
from typing import Any, TextIO

from landfall.api.contract import ExitCode
from landfall.api.values import duration
from landfall.logs import visible
from landfall_operator.api.verbs import PAUSE, Verb, annotation
from landfall_operator.kubectl.client import Kubectl, KubectlError
from landfall_operator.objects.names import ACCEPT_LEDGER, revision_name
from landfall_operator.objects.pod_templates import GROUP_FOLDER

GROUP_FILE = f"{GROUP_FOLDER}/group.json"
POLL_SECONDS = 0.5
"""Seconds between two looks at a group whose operator has not answered yet."""

IN_THE_POD: Mapping[str, str] = {
    "status": "what is landed, what is late, and what is stopped",
    "audit": "compare the store with Kafka: nothing missing, nothing twice",
    "fsck": "check the ledger and its objects",
    "locate": "find the object that has a record",
    "cat": "print landed records",
    "skip": "continue after what is lost, and record what was skipped",
    "unblock": "land a blocked topic partition again",
    "drop": "land a topic partition no more",
    "reset": "land a topic partition from another offset on",
    "publish": "publish what landed; --dry-run shows what would be, --rebuild fills tables again",
    "replay-dead-letters": "land dead letters again, through the present decoder",
    "promote-backfill": "replace live objects with those that a backfill has landed",
    "undo": "bring back objects that a merge or a backfill has replaced",
}
"""Commands that run in the driver's pod, with what they do."""
_NAME = re.compile(r"[a-z0-9]([-.a-z0-9]*[a-z0-9])?")
"""The name of an object in Kubernetes."""
_NAMES_THERE: Mapping[str, str] = {"promote-backfill": "promote"}
"""The name of a command in ``landfall``, where the plugin's differs."""

_ACCEPT_LEDGER = ACCEPT_LEDGER.partition("/")[2]
_VERBS: Mapping[Verb, str] = {
    Verb.RETRY: "try again now what was rolled back or given up, and what the driver waits for",
    Verb.ROLLBACK: "land with the previous revision again",
    Verb.PROMOTE: "continue a rollout without waiting any longer, regardless of a trial",
    Verb.ABORT: "give a rollout up; the revision that landed before it stays or comes back",
    Verb.RESTART: "stop the driver, which hands over, and start it again",
}

_DESCRIPTION = """\
Asks the operator to do something with a ConsumerGroup, or runs a command of `landfall` in the pod
of its driver. The first kind sets an annotation (landfall.dev/<verb>) and waits for the operator's
answer, which is also in status.lastRequest and in an Event of the group.
"""

_ABOUT_TOP = """\
Show all groups of a namespace, or with -A of the cluster, from their status: again every few
seconds until you interrupt it, on a terminal in place. Groups that need a user come first, then
those with the oldest records that are not landed. No driver is asked.

examples:
  kubectl landfall top -n logs
  kubectl landfall top -A --once
  kubectl landfall top -A --once -o json | jq -r '.[] | select(.failures > 0) | .group'
"""

_EPILOG = """\
examples:
  kubectl landfall rollback clicks -n logs
  kubectl landfall rollback clicks --to g3-1a2b3c4d
  kubectl landfall pause clicks
  kubectl landfall top -A
  kubectl landfall status clicks
  kubectl landfall skip clicks clicks/3 --why 'expired, see INC-12'

exit codes: 0 done, 10 refused by the operator, 5 no answer in time; other commands end as in the
pod
"""


def main(argv: Sequence[str] | None = None) -> int:
    """Run one command and return its exit code."""
    arguments, rest = parser().parse_known_args(argv)
    kubectl = Kubectl(_connection(arguments))
    try:
        return int(_command(kubectl, arguments, rest))
    except KubectlError as failed:
        _say(str(failed), sys.stderr)
        return failed.exit_code
    except KeyboardInterrupt:
        return 130


def parser() -> argparse.ArgumentParser:
    """The parser; unknown commands belong to the pod."""
    made = argparse.ArgumentParser(
        prog="kubectl landfall",
        description=_DESCRIPTION,
        epilog=_EPILOG,
        formatter_class=argparse.RawDescriptionHelpFormatter,
        allow_abbrev=False,
    )
    connection = _connection_options()
    commands = made.add_subparsers(dest="command", required=True, metavar="COMMAND")

    def new(name: str, summary: str, **more: Any) -> argparse.ArgumentParser:
        command: argparse.ArgumentParser = commands.add_parser(
            name,
            help=summary,
            description=summary,
            parents=[connection],
            allow_abbrev=False,
            **more,
        )
        command.add_argument("group", type=_name, metavar="GROUP", help="name of the ConsumerGroup")
        return command

    for verb, summary in _VERBS.items():
        command = new(str(verb), summary)
        if verb is Verb.ROLLBACK:
            command.add_argument(
                "--to",
                default="",
                metavar="REVISION",
                help="a revision of status.history (default: the one before the present one)",
            )
        command.add_argument(
            "--timeout",
            type=float,
            default=60.0,
            metavar="SECONDS",
            help="how long to wait for the operator's answer; 0: do not wait [60]",
        )
    new("pause", "keep the operator from changing anything about the group until `resume`")
    new("resume", "let the operator work on the group again")
    new(
        _ACCEPT_LEDGER,
        "let a driver continue with another ledger (LedgerBehind, LedgerRewritten)",
    )
    _add_top(commands, connection)
    for name, summary in IN_THE_POD.items():
        more = f"All further arguments go to `{_there(name)}`; its --help lists them."
        new(name, f"in the driver's pod: {summary}", epilog=more)
    return made


def _add_top(commands: Any, connection: argparse.ArgumentParser) -> None:
    command = commands.add_parser(
        "top",
        help="watch all groups of a namespace or of the cluster: state, lag, rate, failures",
        description=_ABOUT_TOP,
        formatter_class=argparse.RawDescriptionHelpFormatter,
        parents=[connection],
        allow_abbrev=False,
    )
    command.add_argument(
        "-A", "--all-namespaces", action="store_true", help="the groups of all namespaces"
    )
    command.add_argument("--once", action="store_true", help="print them once, then end")
    command.add_argument(
        "--interval",
        type=_interval,
        default=timedelta(seconds=5),
        metavar="DURATION",
        help="the time between two looks (default: 5s)",
    )
    command.add_argument(
        "-o", "--output", choices=["json"], help="print a JSON array for each look"
    )


def _interval(text: str) -> timedelta:
    try:
        found = duration(text)
    except ValueError as error:
        raise argparse.ArgumentTypeError(str(error)) from error
    if found < timedelta(seconds=1):
        raise argparse.ArgumentTypeError(f"must be at least 1s, got {text}")
    return found


def _connection_options() -> argparse.ArgumentParser:
    options = argparse.ArgumentParser(add_help=False)
    options.add_argument("-n", "--namespace", metavar="NAME", help="namespace of the group")
    options.add_argument("--context", metavar="NAME", help="context of the kubeconfig")
    options.add_argument("--kubeconfig", metavar="FILE", help="path of the kubeconfig")
    return options


def _connection(arguments: argparse.Namespace) -> list[str]:
    named = ("namespace", "context", "kubeconfig")
    return [f"--{name}={value}" for name in named if (value := getattr(arguments, name))]


def _command(kubectl: Kubectl, arguments: argparse.Namespace, rest: Sequence[str]) -> int:
    if arguments.command == "top":
        return _top(kubectl, arguments, rest)
    if arguments.command in IN_THE_POD:
        return _in_the_pod(kubectl, arguments.group, arguments.command, rest)
    if rest:
        parser().error(f"unrecognized arguments: {' '.join(rest)}{_meant(arguments)}")
    match arguments.command:
        case "pause":
            kubectl.annotate(arguments.group, f"{PAUSE}=true")
            print(
                f"{arguments.group}: the operator changes nothing until `kubectl landfall resume`"
            )
            return ExitCode.OK
        case name if name == _ACCEPT_LEDGER:
            kubectl.annotate(arguments.group, f"{ACCEPT_LEDGER}=true")
            print(f"{arguments.group}: the driver continues with the ledger that it finds")
            return ExitCode.OK
        case "resume":
            kubectl.annotate(arguments.group, f"{PAUSE}-")
            print(f"{arguments.group}: the operator works on the group again")
            return ExitCode.OK
    return _ask(kubectl, arguments)


def _meant(arguments: argparse.Namespace) -> str:
    if arguments.command != Verb.PROMOTE:
        return ""
    return (
        f"; promote is about a rollout, and promote-backfill {arguments.group} NAME makes a "
        "backfill live"
    )


def _top(kubectl: Kubectl, arguments: argparse.Namespace, rest: Sequence[str]) -> int:
    # The other commands need no status, whose models take half a second to import.
    from landfall_operator.kubectl.top import top  # noqa: PLC0415

    if rest:
        parser().error(f"unrecognized arguments: {' '.join(rest)}")
    top(
        kubectl,
        everywhere=arguments.all_namespaces,
        interval=arguments.interval,
        once=arguments.once,
        as_json=arguments.output == "json",
    )
    return ExitCode.OK


def _ask(kubectl: Kubectl, arguments: argparse.Namespace) -> int:
    """Set the annotation of a verb, and wait until the operator has answered."""
    verb = Verb(arguments.command)
    name = arguments.group
    before = _last_request(kubectl.group(name))
    value = _value(getattr(arguments, "to", ""))
    kubectl.annotate(name, f"{annotation(verb)}={value}")
    if not arguments.timeout:
        print(f"{name}: asked; see status.lastRequest")
        return ExitCode.OK
    answer = _wait(
        lambda: _answer(kubectl.group(name), verb, value, before),
        time.monotonic() + arguments.timeout,
    )
    if answer is None:
        print(
            f"{name}: no answer within {arguments.timeout:g} s; is the operator running? The "
            f"annotation {annotation(verb)} stays until it answers",
            file=sys.stderr,
        )
        return ExitCode.UNAVAILABLE
    if value:
        kubectl.annotate(name, f"{annotation(verb)}-")
    accepted = bool(answer["accepted"])
    _say(f"{name}: {answer['message']}", sys.stdout if accepted else sys.stderr)
    return ExitCode.OK if accepted else ExitCode.REFUSED


def _value(revision: str) -> str:
    """The annotation's value: a revision may be named again, so each request has another one."""
    return f"{revision} {datetime.now(UTC):%Y-%m-%dT%H:%M:%S.%fZ}" if revision else ""


def _answer(
    group: Mapping[str, Any], verb: Verb, value: str, before: Mapping[str, Any]
) -> Mapping[str, Any] | None:
    """The operator's answer; None until it has written the status, and removed a bare annotation.

    An annotation with a value stays, for tools that apply it from Git.
    """
    last = _last_request(group)
    pending = not value and annotation(verb) in group["metadata"].get("annotations", {})
    return last if not pending and last != before and last.get("verb") == verb else None


def _last_request(group: Mapping[str, Any]) -> Mapping[str, Any]:
    found: Mapping[str, Any] = group.get("status", {}).get("lastRequest", {})
    return found


def _wait(
    look: Callable[[], Mapping[str, Any] | None], deadline: float
) -> Mapping[str, Any] | None:
    while (found := look()) is None and time.monotonic() < deadline:
        time.sleep(POLL_SECONDS)
    return found


def _in_the_pod(kubectl: Kubectl, name: str, command: str, rest: Sequence[str]) -> int:
    active = kubectl.group(name).get("status", {}).get("rollout", {}).get("active")
    if not active:
        raise KubectlError(f"{name}: no driver has been started yet", ExitCode.UNAVAILABLE)
    words = [*_there(command).split(), GROUP_FILE, *rest]
    if not _NAME.fullmatch(active):
        raise KubectlError(f"{name}: status.rollout.active is no revision: {active!r}", 1)
    return kubectl.execute(revision_name(name, active), words)


def _name(text: str) -> str:
    """A name that kubectl takes for no option, and that is one of an object."""
    if not _NAME.fullmatch(text):
        raise argparse.ArgumentTypeError(f"not the name of a group: {text!r}")
    return text


def _say(text: str, to: TextIO) -> None:
    """Print text that may come from another tenant's group, without commands to the terminal."""
    print(visible(text, lines=True), file=to)


def _there(command: str) -> str:
    """Return the name of a command in the pod."""
    return f"landfall {_NAMES_THERE.get(command, command)}"
