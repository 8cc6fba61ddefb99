"""What an operator can be told."""

import re
from pathlib import Path

import pytest

from landfall_operator.settings import read

PAGE = Path(__file__).resolve().parents[3] / "docs" / "operator.md"


def test_flags_win_over_the_environment() -> None:
    told = read(["--image", "a"], {"LANDFALL_IMAGE": "b", "LANDFALL_LEASE": "c"})

    assert (told.context.image, told.lease) == ("a", "c")


def test_namespaces_come_by_flag_or_with_commas() -> None:
    environment = {"LANDFALL_NAMESPACES": "b, a,"}

    assert read([], environment).namespaces == ("a", "b")
    assert read(["--namespace", "x", "--namespace", "y"], environment).namespaces == ("x", "y")


def test_without_namespaces_it_is_all_of_the_cluster() -> None:
    assert read([], {"LANDFALL_NAMESPACES": ""}).namespaces == ()


def test_the_site_is_read_from_lists() -> None:
    environment = {
        "LANDFALL_OPERATOR_LABELS": "app=operator,release=x,",
        "LANDFALL_IMAGE_PULL_SECRETS": "one,two",
        "POD_NAMESPACE": "landfall",
        "POD_NAME": "operator-0",
    }

    told = read([], environment)

    assert dict(told.context.operator_labels) == {"app": "operator", "release": "x"}
    assert (told.context.image_pull_secrets, told.context.namespace, told.holder) == (
        ("one", "two"),
        "landfall",
        "operator-0",
    )


def test_two_outside_of_pods_have_different_names() -> None:
    assert read([], {}).holder != read([], {}).holder


@pytest.mark.parametrize(
    "wrong", [["--interval", "60"], ["--log-format", "xml"], ["--nope"], ["--http-port", "x"]]
)
def test_a_wrong_flag_is_refused(wrong: list[str], capsys: pytest.CaptureFixture[str]) -> None:
    with pytest.raises(SystemExit) as ended:
        read(wrong, {})

    assert ended.value.code == 2
    assert "usage:" in capsys.readouterr().err


def test_the_page_tells_of_every_flag(capsys: pytest.CaptureFixture[str]) -> None:
    with pytest.raises(SystemExit):
        read(["--help"], {})

    told = set(re.findall(r"--[a-z-]+", capsys.readouterr().out)) - {"--help", "--version"}
    assert set(re.findall(r"`(--[a-z-]+)`", PAGE.read_text())) == told
