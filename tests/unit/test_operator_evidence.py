"""``make operator-evidence`` shows what ``kubectl`` printed; here its parts are tried alone."""

from pathlib import Path

import pytest

from tests.support.operator.operator_evidence import FILE, MADE, scene

DESCRIBED = """Name:         clicks
Spec:
  Output:
    URL:  s3://lake
Status:
  Conditions:
    Last Transition Time:  2026-11-27T18:18:46Z
    Message:               fine
    Observed Generation:   1
    Reason:                AsExpected
    Status:                True
    Type:                  Ready
    Last Transition Time:  2026-11-27T18:18:46Z
    Message:               not this one
    Reason:                AsExpected
    Status:                False
    Type:                  Upgrading
  Phase:  Running
Events:
  Type    Reason   Age  From               Message
  ----    ------   ---- ----               -------
  Normal  Opening  91s  landfall-operator  starting g1-3794b7f3
"""


def kubectl(*arguments: str) -> str:
    return DESCRIBED if arguments[0] == "describe" else f"NAME\nclicks {'x' * 200}\n"


@pytest.fixture
def page(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    made = tmp_path / "operator.md"
    made.write_text(f"# Operator\n\n{MADE}\n\n## Another\n\nold\n\n## Scene\n\nold, too\n")
    monkeypatch.setenv(FILE, str(made))
    return made


def test_a_scene_shows_conditions_and_events_and_replaces_itself_alone(page: Path) -> None:
    with scene("Scene") as shown:
        shown.say("A word. " * 30)
        shown.get(kubectl)
        shown.describe(kubectl, "clicks", "Ready")

    text = page.read_text()
    assert text.startswith(
        f"# Operator\n\n{MADE}\n\n## Another\n\nold\n\n## Scene\n\nA word. A word."
    )
    assert "old, too" not in text
    assert max(map(len, text.splitlines())) <= 120
    assert "$ kubectl get consumergroups\nNAME\nclicks xxxx" in text
    assert "x…\n" in text
    shown_conditions = text.partition("  Conditions:\n")[2].partition("Events:")[0].split()
    assert shown_conditions == [
        *("Message:", "fine", "Reason:", "AsExpected"),
        *("Status:", "True", "Type:", "Ready"),
    ]
    assert "  Normal  Opening  91s  starting g1-3794b7f3\n```" in text


def test_a_scene_that_fails_is_not_written(page: Path) -> None:
    before = page.read_text()

    with pytest.raises(ZeroDivisionError), scene("Scene"):
        raise ZeroDivisionError

    assert page.read_text() == before
