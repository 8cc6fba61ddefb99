"""The suite of ``make hostile`` lists what each attack got; here its parts are tried alone."""

from pathlib import Path

import pytest

from tests.hostile import gadget
from tests.hostile.evidence import MADE, Attack, write


def test_the_page_keeps_its_text_and_gets_new_tables(tmp_path: Path) -> None:
    page = tmp_path / "hostile.md"
    page.write_text(f"# Hostile\n\n{MADE}\nan old table\n")
    attack = Attack("Tenant", "a|b", "x")
    attack.saw("one thing")
    attack.saw("another")

    write(page, [attack, Attack("Producer", "c", "y")])

    text = page.read_text()
    assert text.startswith(f"# Hostile\n\n{MADE}\n")
    assert "an old table" not in text
    assert text.index("## Producer") < text.index("## Tenant")
    assert r"| a\|b | x | one thing; another | nothing |" in text


def test_what_an_attacker_got_is_kept() -> None:
    attack = Attack("Tenant", "a", "b")

    attack.check(holds=True, got="a key")
    attack.check(holds=False, got="a file")

    assert attack.loot == ["a file"]


def test_the_gadget_says_that_it_ran(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv(gadget.LOOT, str(tmp_path))

    gadget.step(None)

    (note,) = tmp_path.iterdir()
    assert note.read_text().startswith("called in ")
