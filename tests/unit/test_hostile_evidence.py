"""The suite of ``make hostile`` lists what each attack got; here its parts are tried alone."""

import re
from pathlib import Path

import pytest

from tests.hostile import gadget
from tests.hostile.evidence import MADE, Attack, write
from tests.support.pages.markdown import DOCS, ROOT

FINDINGS = DOCS / "evidence/security-findings.md"


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


def findings() -> list[list[str]]:
    """The cells of each row of the page of findings."""
    rows = (line for line in FINDINGS.read_text().splitlines() if line.startswith("| "))
    return [re.split(r" ?(?<!\\)\| ?", row)[1:-1] for row in rows]


def test_each_finding_has_its_tests_or_the_reason_why_not() -> None:
    found, tests = list[str](), dict[str, int]()
    for finding, _, held in findings():
        found += re.findall(r"^([CHM]?\d+)\. ", finding)
        tests[found[-1] if found else ""] = tests.get(found[-1] if found else "", 0) + len(
            re.findall(r"`[a-z_/]+\.py::\w+`", held)
        )

    numbers = [f"M{n}" for n in range(1, 11)] + [str(n) for n in range(1, 11)]
    assert found == ["C1", "H1", "H2", "H3", *numbers]
    assert [each for each in found if not tests[each]] == []


def test_tests_of_findings_exist() -> None:
    named = re.findall(r"`([a-z0-9_/]+\.py)::(\w+)`", FINDINGS.read_text())

    assert len(named) > 60
    for file, name in named:
        assert f"def {name}(" in (ROOT / "tests" / file).read_text(), f"{file}::{name}"
