"""The example of ``contract check`` in the guide prints what the page shows."""

import json
from pathlib import Path
from typing import Any

import pytest
import yaml

from landfall.api.contract import ExitCode
from landfall.cli import main
from tests.support.ledger.contract_group import ContractGroup, orders
from tests.support.pages.markdown import DOCS, code

PAGE = DOCS / "guides/check-a-group.md"
COMMAND = "landfall contract check new.avsc --against group.yaml"


def block(language: str, word: str) -> str:
    """The text of the only block of the page in a language that has a word."""
    (found,) = [of.text for of in code(PAGE, language) if word in of.text]
    return found


class Documented(ContractGroup):
    """The group of the page, whose landed payloads had a schema without a registry."""

    @property
    def sections(self) -> dict[str, Any]:
        spec: dict[str, Any] = yaml.safe_load(block("yaml", "publish:"))
        del spec["output"]
        return spec


def test_the_page_shows_what_the_command_prints(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    values = [
        {**value, "id": 2**40 + 7} if value["id"] == 1000 else value for value in orders(1200)
    ]
    ContractGroup(tmp_path).land(*values)
    group = Documented(tmp_path)
    group.file()
    group.schema(json.loads(block("json", "coupon")))
    monkeypatch.chdir(tmp_path)

    ended = main(COMMAND.split()[1:])

    assert ended == ExitCode.FAULT
    assert f"$ {COMMAND}\n{capsys.readouterr().out}" == block("text", COMMAND)
