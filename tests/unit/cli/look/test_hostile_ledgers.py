"""What a writer of the bucket puts into one group's ledger stops no command about a root."""

import json
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

from landfall.api.contract import ExitCode
from landfall.cli import main
from tests.support.ledger.sample_ledger import GROUP, LANE
from tests.unit.cli.conftest import Landed
from tests.unit.cli.look.test_ls import copy

EVIL = "shop-2"
TIMES = {
    "closes no tag": "[/nope]",
    "a link": "[link=http://evil]now[/link]",
    "control characters": "\x1b]0;owned\x07",
    "no date": "2026-99-99T00:00:00Z",
    "long": "2026" * 20_000,
    "the first year": "0001-01-01T00:00:00+23:59",
    "empty": "",
}


def forge(root: Path, change: Callable[[dict[str, Any]], None]) -> None:
    """Change the records of the last slot, and its hash."""
    copy(root, EVIL)
    *_, last = sorted((root / "_landfall" / EVIL / LANE).glob("*/*.json"))
    body = json.loads(last.read_bytes())
    change(body)
    last.write_bytes(json.dumps(body).encode())


@pytest.mark.parametrize("time", TIMES.values(), ids=TIMES)
@pytest.mark.parametrize("command", [["top", "--count", "1"], ["ls"]], ids=["top", "ls"])
def test_times(
    landed: Callable[[str], Landed],
    command: list[str],
    time: str,
    capsys: pytest.CaptureFixture[str],
) -> None:
    made = landed("Json")
    forge(made.root, lambda body: body["header"].update(time=time))
    name, *options = command

    assert main([name, f"file://{made.root}", *options]) == ExitCode.OK

    out = capsys.readouterr().out
    assert GROUP in out
    assert "\x1b]" not in out


@pytest.mark.parametrize("size", [2**62, 2**63, 10**30, 10**400], ids=["62", "63", "100", "1329"])
@pytest.mark.parametrize("command", [["top", "--count", "1"], ["ls"]], ids=["top", "ls"])
def test_numbers(
    landed: Callable[[str], Landed],
    command: list[str],
    size: int,
    capsys: pytest.CaptureFixture[str],
) -> None:
    def grow(body: dict[str, Any]) -> None:
        for of in body["slices"]:
            of["piece"]["offsets"]["end"] = of["landed"] = of["input_bytes"] = size
            of["objects"][0] |= {"rows": size, "last_offset": size - 1}
            of["objects"][0]["upload"]["parts"][0]["size"] = size

    made = landed("Json")
    forge(made.root, grow)
    name, *options = command

    code = main([name, f"file://{made.root}", *options])

    assert code in {ExitCode.OK, ExitCode.FAULT}
    assert f"{GROUP}  " in capsys.readouterr().out
