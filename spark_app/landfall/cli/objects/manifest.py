"""``landfall manifest``: list the landed objects of a topic, for engines that read objects."""

import argparse
import sys
from pathlib import Path

import msgspec

from landfall.api.contract import ExitCode
from landfall.cli.text import console
from landfall.errors import Reason, Stalled
from landfall.reading import Choice, LandedGroup, Scan, manifests, open_group


def manifest(arguments: argparse.Namespace) -> ExitCode:
    """Write a list of the objects that are visible at a slot.

    Raises:
        Stalled: SPEC_INVALID, the arguments do not fit each other, or there is no such slot.
    """
    is_symlink = arguments.format == "Symlink"
    if is_symlink != bool(arguments.write or (is_symlink and arguments.output)):
        advice = "add --write, or -o FOLDER" if is_symlink else "--write is for --format Symlink"
        raise Stalled(Reason.SPEC_INVALID, f"manifest: {advice}")
    group = open_group(arguments.group)
    scan = _scan(group, arguments)
    if not is_symlink:
        _print(scan, arguments)
    elif arguments.write:
        whole = not arguments.output_partition
        count = manifests.write_symlinks(scan, group.store, arguments.scheme, whole=whole)
        _report(scan, count, f"{scan.root}/…/{manifests.FOLDER}/")
    else:
        found = manifests.symlinks(scan, arguments.scheme)
        for key, body in found.items():
            _write(arguments.output / key, body)
        _report(scan, len(found), str(arguments.output))
    return ExitCode.OK


def _scan(group: LandedGroup, arguments: argparse.Namespace) -> Scan:
    console.require_topics(group.name, [arguments.topic], group.topics())
    choice = Choice()
    if arguments.output_partition:
        choice["output_partition"] = arguments.output_partition
    try:
        return group.scan(arguments.topic, slot=arguments.slot, **choice)
    except ValueError as error:
        raise Stalled(Reason.SPEC_INVALID, str(error)) from error


def _print(scan: Scan, arguments: argparse.Namespace) -> None:
    if arguments.format == "Json":
        body = msgspec.json.encode(manifests.described(scan, arguments.scheme)) + b"\n"
    else:
        body = "".join(f"{url}\n" for url in manifests.urls(scan, arguments.scheme)).encode()
    if arguments.output:
        _write(arguments.output, body)
        _report(scan, 1, str(arguments.output))
    else:
        sys.stdout.buffer.write(body)
        sys.stdout.buffer.flush()


def _write(path: Path, body: bytes) -> None:
    try:
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_bytes(body)
    except OSError as error:
        raise Stalled(Reason.SPEC_INVALID, f"{path}: {error.strerror}") from error


def _report(scan: Scan, count: int, where: str) -> None:
    objects = console.counted(len(scan.files()), "object")
    rows, lists = console.counted(scan.rows, "row"), console.counted(count, "manifest")
    console.err().print(
        f"{scan.topic} through slot {scan.slot}: {objects}, {rows}; {lists} in {where}",
        markup=False,
    )
