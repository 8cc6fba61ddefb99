"""``landfall explain`` is safe for files of anybody, so it ends, and with a message."""

import itertools
from pathlib import Path

import pytest

from landfall.api.contract import ExitCode
from landfall.cli import main
from landfall_migrate.cli.command import UnreadableError, _json, _yaml

_LETTERS = "abcdefghi"
LISTS = "a: &a [x,x,x,x,x,x,x,x,x]\n" + "".join(
    f"{name}: &{name} [{','.join([f'*{before}'] * 9)}]\n"
    for before, name in itertools.pairwise(_LETTERS)
)
MERGED = "a: &a {x: 1, y: 2}\n" + "".join(
    f"{name}: &{name} {{<<: [{','.join([f'*{before}'] * 9)}]}}\n"
    for before, name in itertools.pairwise(_LETTERS)
)
FILES = {
    "lists of lists": ("group.yaml", LISTS, "more than 100000 values"),
    "merged mappings": ("group.yaml", MERGED, "more than 100000 values"),
    "a list in itself": ("group.yaml", "a: &a [*a]", "more than 100000 values"),
    "brackets of YAML": ("group.yaml", "[" * 20_000, "nested too deeply"),
    "brackets of JSON": ("group.json", '{"a":' * 100_000, "nested too deeply"),
    "a number of YAML": ("group.yaml", f"a: {'9' * 5_000}", "invalid YAML: "),
    "a number of JSON": ("group.json", f'{{"a": {"9" * 5_000}}}', "invalid JSON: "),
    "a date": ("group.yaml", "a: 2001-99-99", "invalid YAML: "),
}


@pytest.mark.parametrize("name", FILES)
def test_a_group_file_of_anybody_is_refused_with_a_message(
    name: str, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    file, text, message = FILES[name]
    (tmp_path / file).write_text(text)

    assert main(["explain", str(tmp_path / file), "clicks"]) == ExitCode.USAGE
    assert message in capsys.readouterr().err


@pytest.mark.parametrize("name", FILES)
def test_settings_of_another_program_are_refused_with_a_message(name: str, tmp_path: Path) -> None:
    file, text, _ = FILES[name]
    (tmp_path / file).write_text(text)

    with pytest.raises(UnreadableError, match=file):
        (_yaml if file.endswith("yaml") else _json)(str(tmp_path / file))


def test_aliases_that_a_person_wrote_are_read(tmp_path: Path) -> None:
    (tmp_path / "a.yaml").write_text("a: &a {x: [1, 2]}\nb: {<<: *a, y: *a}\nc: *a\n")

    found = _yaml(str(tmp_path / "a.yaml"))

    inner = {"x": [1, 2]}
    assert found == {"a": inner, "b": {**inner, "y": inner}, "c": inner}
