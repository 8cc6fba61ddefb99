"""Mistakes that people make get one line each: the field, what is expected, and what was found."""

from collections.abc import Callable
from pathlib import Path

import pytest
import yaml

from landfall.api.contract import ExitCode
from landfall.api.spec import parse_group
from landfall.cli import main
from landfall.errors import Stalled
from landfall_operator.api.validation import parsed
from tests.support.operator.wrong_specs import WRONG_SPECS, WrongSpec

every_mistake = pytest.mark.parametrize("wrong", WRONG_SPECS, ids=lambda wrong: wrong.id)


@pytest.fixture
def written(tmp_path: Path) -> Callable[[WrongSpec], Path]:
    def write(wrong: WrongSpec) -> Path:
        file = tmp_path / "group.yaml"
        file.write_text(yaml.safe_dump(wrong.resource()))
        return file

    return write


def test_there_are_75_mistakes() -> None:
    assert len({wrong.written for wrong in WRONG_SPECS}) >= 75


@every_mistake
def test_a_mistake_is_one_line_with_its_place_and_what_is_expected(wrong: WrongSpec) -> None:
    with pytest.raises(Stalled) as stalled:
        parse_group(wrong.resource())

    (line,) = str(stalled.value).splitlines()
    place, _, rest = line.partition(": ")
    assert place == wrong.place
    assert wrong.expects in rest


@every_mistake
def test_check_run_and_the_operator_give_the_same_line(
    wrong: WrongSpec,
    written: Callable[[WrongSpec], Path],
    capsys: pytest.CaptureFixture[str],
) -> None:
    file = written(wrong)
    _, line = parsed(wrong.resource())

    codes = [main(["check", "--offline", str(file)]), main(["run", str(file)])]

    said = capsys.readouterr()
    assert codes == [ExitCode.USAGE, ExitCode.USAGE]
    assert said.out == f"{file}: {line}\n"
    assert said.err == f"landfall: SpecInvalid: {file}: {line}\n"
