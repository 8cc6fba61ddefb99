"""Whoever may write to the bucket replaces a document: each command ends with a message.

An error that is no error of Landfall is a fault of the software: ``landfall`` ends with 1, a driver
is started again and again without a reason in its status.
"""

import gzip
import shutil
from collections.abc import Callable
from contextlib import suppress
from pathlib import Path

import msgspec
import pytest

from landfall import untrusted_json
from landfall.api.contract import ExitCode
from landfall.cli import main
from landfall.errors import LandfallError
from landfall.lane import Lane
from landfall.ledger.names.object_names import head_key
from landfall.store.file import FileStore
from tests.support.ledger.sample_ledger import GROUP, LANE
from tests.unit.cli.conftest import TP, Landed

DEEP = b"[" * 100_000
BODIES = {
    "brackets": DEEP,
    "an unknown field of brackets": b'{"x":' + DEEP,
    "a known field of brackets": b'{"type":"COMMIT","header":' + DEEP,
    "no UTF-8 in a name": b'{"type":"OPEN","header":{"owner":"\xff"}}',
    "half of a surrogate pair": b'{"type":"OPEN","header":{"owner":"\\ud800"}}',
    "numbers": b'{"type":"OPEN","header":{"seq":' + b"9" * 5_000 + b',"epoch":1e999}}',
    "a list": b"[1]",
    "nothing": b"",
    "a bomb of brackets": gzip.compress(DEEP),
}
Make = Callable[[str], Landed]


@pytest.mark.parametrize("body", BODIES.values(), ids=BODIES)
def test_a_json_of_others_is_a_value_or_a_decode_error(body: bytes) -> None:
    for kind in (dict, list[str], msgspec.Raw):
        with suppress(msgspec.DecodeError):
            untrusted_json.decode(body, type=kind)


@pytest.fixture
def documents(landed: Make) -> Landed:
    """A ledger of every kind of document that these commands read."""
    made = landed("Json")
    made.sample.commit(made.sample.land(TP, 10, 20)).applied()
    return made


@pytest.mark.parametrize("body", BODIES.values(), ids=BODIES)
def test_a_document_that_is_replaced_is_no_fault_of_the_software(
    documents: Landed, body: bytes, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    root, sound = documents.root, tmp_path / "sound"
    shutil.copytree(root, sound)
    files = [f.relative_to(root) for f in root.rglob("*") if f.is_file() and "_landfall" in str(f)]
    files.append(Path(head_key(GROUP, LANE)))
    assert len(files) > 3

    for file in files:
        (root / file).parent.mkdir(parents=True, exist_ok=True)
        (root / file).write_bytes(body)
        for command in (["fsck", documents.file], ["fsck", documents.file, "--deep"]):
            assert main(command) != ExitCode.ERROR, (file, capsys.readouterr())
        with suppress(LandfallError):
            Lane(FileStore(root), GROUP, LANE).read()
        shutil.rmtree(root)
        shutil.copytree(sound, root)
