"""What each attack tried, what was seen, and what it got: the tables of ``docs/evidence``.

An attack that got anything fails its test, so a table is written by a run without failures only.
"""

from collections.abc import Iterable
from dataclasses import dataclass, field
from pathlib import Path

from tests.support.pages import sections

MADE = "<!-- What follows is written by `make hostile`. -->"
"""The line of the page after which the table begins."""


@dataclass
class Attack:
    """One attack.

    Attributes:
        party: who attacks.
        name: what the attack is called.
        tried: what was done.
        observed: what was seen.
        loot: what the attacker got that it must not have.
    """

    party: str
    name: str
    tried: str
    observed: list[str] = field(default_factory=list)
    loot: list[str] = field(default_factory=list)

    def saw(self, what: str) -> None:
        """Note what the attack led to."""
        self.observed.append(what)

    def check(self, holds: object, got: str) -> None:
        """Note what the attacker got, unless a condition holds."""
        if not holds:
            self.loot.append(got)


def write(file: Path, attacks: Iterable[Attack]) -> None:
    """Replace the tables of the parties that have attacked; those of others stay."""
    played: dict[str, list[Attack]] = {}
    for attack in attacks:
        played.setdefault(attack.party, []).append(attack)
    sections.replace(file, MADE, {party: _table(of) for party, of in played.items()})


def _table(attacks: list[Attack]) -> str:
    lines = ["| attack | tried | observed | got |", "|---|---|---|---|"]
    for attack in sorted(attacks, key=lambda each: each.name):
        cells = (attack.name, attack.tried, "; ".join(attack.observed), _got(attack))
        lines.append(f"| {' | '.join(cell.replace('|', chr(92) + '|') for cell in cells)} |")
    return "\n".join(lines)


def _got(attack: Attack) -> str:
    return "; ".join(attack.loot) or "nothing"
