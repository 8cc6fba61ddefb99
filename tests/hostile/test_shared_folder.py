"""Who may write to a volume that a group reads from, or lands in: its files are its own."""

import gzip
import io
import os
import tarfile
import zipfile
from collections import Counter
from collections.abc import Iterator
from pathlib import Path

import pytest

from landfall.api.contract import ExitCode
from landfall.store.file import STAGING
from tests.hostile.world import CONTROL_CHARACTERS, World
from tests.support.files.folder_feed import FolderFeed, rows
from tests.support.landing.processes import Processes

pytestmark = [pytest.mark.full, pytest.mark.timeout(900, func_only=True)]

PARTY = "Who shares a folder"
SECRET = b'{"id": 99, "sasl.password": "planted"}\n'


@pytest.fixture
def processes(tmp_path: Path) -> Iterator[Processes]:
    made = Processes(tmp_path)
    yield made
    made.clear()


@pytest.fixture
def feed(tmp_path: Path) -> FolderFeed:
    made = FolderFeed(tmp_path / "shared")
    made.put("a.json", rows(range(5)))
    return made


@pytest.fixture
def secrets(tmp_path: Path) -> Path:
    folder = tmp_path / "secrets"
    folder.mkdir()
    (folder / "properties").write_bytes(SECRET)
    os.utime(folder / "properties", (0, 0))
    return folder


def land(feed: FolderFeed, processes: Processes) -> tuple[int, str]:
    """Land what is there; the exit code, and what the driver said."""
    document = feed.document({"badRecords": {"maxRatio": "1"}})
    process = processes.run(document, "--until-caught-up", "--http-port", "0", "--verbose")
    return process.end(), process.said


def everything(folder: Path) -> bytes:
    """All that files of a folder hold, unpacked."""
    bodies = [path.read_bytes() for path in folder.rglob("*") if path.is_file()]
    return b"".join(gzip.decompress(b) if b.startswith(b"\x1f\x8b") else b for b in bodies)


def test_links_among_the_files_of_a_feed(
    world: World, feed: FolderFeed, secrets: Path, processes: Processes
) -> None:
    folder = feed.root / "in"
    (folder / "b.json").symlink_to(secrets / "properties")
    (folder / "c.json").symlink_to("../../secrets/properties")
    (folder / "circle").symlink_to(".")
    (folder / "circle-2").symlink_to(".")
    os.mkfifo(folder / "pipe.json")
    feed.put("z.json", rows(range(5, 9)))
    tried = "links to a file of the pod's secrets, links in circles, a pipe"

    with world.attack(PARTY, "links in a feed", tried) as attack:
        code, said = land(feed, processes)
        attack.check(b"planted" not in everything(feed.root / "out"), "the secret, landed")
        attack.check("planted" not in said, "the secret, logged")
        attack.check(code == ExitCode.STALLED, f"a driver that ends with {code}: nothing is parked")
        attack.check(feed.landed() == Counter(range(9)), f"rows: {feed.landed()}")
        attack.saw("the links are parked and named; the files before and after them land")


@pytest.mark.parametrize("place", [f"{STAGING}/new", STAGING, "_landfall", "hits"])
def test_links_in_an_output_root(
    world: World, feed: FolderFeed, secrets: Path, processes: Processes, place: str
) -> None:
    link = feed.root / "out" / place
    link.parent.mkdir(parents=True, exist_ok=True)
    link.symlink_to(secrets)
    tried = f"`{place}` of the output root as a link to a folder of somebody else"

    with world.attack(PARTY, f"a link as `{place}`", tried) as attack:
        document = feed.document({"badRecords": {"maxRatio": "1"}})
        process = processes.run(document, "--until-caught-up", "--http-port", "0", "--verbose")
        process.wait_for(lambda: "a link leads out of" in process.said, "the link is reported")
        process.clear()
        held = {path.name: path.read_bytes() for path in secrets.iterdir()}
        attack.check(held == {"properties": SECRET}, f"a folder of others with {sorted(held)}")
        attack.saw("nothing is written, read or deleted there; the log names the link")


def archives() -> Iterator[tuple[str, bytes]]:
    """Archives whose members have hostile names."""
    packed = io.BytesIO()
    with zipfile.ZipFile(packed, "w") as archive:
        archive.writestr("../../../../tmp/x.json", rows([99]))
    yield "x.zip", packed.getvalue()
    packed = io.BytesIO()
    with tarfile.open(fileobj=packed, mode="w") as tar:
        member = tarfile.TarInfo("/etc/x.json")
        member.size = len(rows([99]))
        tar.addfile(member, io.BytesIO(rows([99])))
    yield "x.tar", packed.getvalue()
    yield "x.tar.gz", gzip.compress(packed.getvalue())


NAMES = [
    "-rf.json",
    "--config.json",
    "*.json",
    "[a-z]?.json",
    "$(id).json",
    "a;b|c.json",
    "a\nb.json",
    "\x1b[2J.json",
    "\u202enosj.json",
    "caf\u00e9.json",
    "cafe\u0301.json",
    "pay\u200bpal.json",
    "%2e%2e%2fx.json",
    "~root.json",
    " .json",
    "...json",
]


DAMAGED = "\x1b[2J\u202edamaged.json.gz"
"""A file that the log names, because it cannot be read."""


def test_names_of_files(world: World, feed: FolderFeed, processes: Processes) -> None:
    for number, name in enumerate(NAMES, 100):
        feed.put(name, rows([number]))
    for name, body in archives():
        feed.put(name, body)
    feed.put(DAMAGED, b"no gzip")
    tried = (
        "names that a shell, a glob, a terminal or a path would take for something else; archives"
    )

    with world.attack(PARTY, "names of files", tried) as attack:
        code, said = land(feed, processes)
        assert code in {ExitCode.OK, ExitCode.STALLED}, said[-3000:]
        landed = feed.landed()
        missing = [name for number, name in enumerate(NAMES, 100) if landed[number] != 1]
        assert not missing, said[-3000:]
        assert "damaged.json.gz" in said, said[-3000:]
        attack.check(not CONTROL_CHARACTERS & set(said), "control characters in the log")
        attack.check("\u202e" not in said, "text that is turned around in the log")
        attack.saw("each is a file with this name; archives are not unpacked")
