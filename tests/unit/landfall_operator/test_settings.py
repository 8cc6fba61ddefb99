"""The operator's command line and environment."""

import json
import re
from pathlib import Path

import pytest

from landfall_operator.objects.rbac import Account
from landfall_operator.runtime.namespaces import Labelled
from landfall_operator.settings import read

PAGE = Path(__file__).resolve().parents[3] / "docs" / "reference" / "operator.md"


def test_flags_win_over_the_environment() -> None:
    settings = read(["--image", "a"], {"LANDFALL_IMAGE": "b", "LANDFALL_LEASE": "c"})

    assert (settings.context.image, settings.lease) == ("a", "c")


def test_namespaces_are_repeated_flags_or_comma_separated() -> None:
    environment = {"LANDFALL_NAMESPACES": "b, a,"}

    assert read([], environment).namespaces == ("a", "b")
    assert read(["--namespace", "x", "--namespace", "y"], environment).namespaces == ("x", "y")


def test_without_namespaces_the_operator_manages_all() -> None:
    assert read([], {"LANDFALL_NAMESPACES": ""}).namespaces == ()


def test_namespaces_are_found_by_a_label() -> None:
    environment = {
        "LANDFALL_NAMESPACE_LABEL": "landfall.dev/watch=true",
        "LANDFALL_NAMESPACE_ROLE": "role",
        "LANDFALL_SERVICE_ACCOUNT": "me",
        "POD_NAMESPACE": "landfall",
    }

    settings = read([], environment)

    account = Account("landfall", "me")
    assert settings.labelled == Labelled("landfall.dev/watch=true", "role", account)
    assert (settings.namespaces, read([], {}).labelled) == ((), None)


def test_labels_and_secrets_are_read_from_lists() -> None:
    environment = {
        "LANDFALL_OPERATOR_LABELS": "app=operator,release=x,",
        "LANDFALL_IMAGE_PULL_SECRETS": "one,two",
        "POD_NAMESPACE": "landfall",
        "POD_NAME": "operator-0",
    }

    settings = read([], environment)

    assert dict(settings.context.operator_labels) == {"app": "operator", "release": "x"}
    assert (settings.context.image_pull_secrets, settings.context.namespace, settings.holder) == (
        ("one", "two"),
        "landfall",
        "operator-0",
    )


def test_readers_of_metrics_are_peers_of_a_network_policy() -> None:
    peer = {"podSelector": {"matchLabels": {"app": "prometheus"}}}

    assert read([], {"LANDFALL_METRICS_READERS": json.dumps([peer])}).context.readers == (peer,)
    assert read([], {"LANDFALL_METRICS_READERS": ""}).context.readers == ()
    for wrong in ("x", "{}", "[1]", "[{}]"):
        with pytest.raises(SystemExit):
            read(["--metrics-readers", wrong], {})


def test_without_labels_the_operator_is_known_by_its_name() -> None:
    for environment in ({}, {"LANDFALL_OPERATOR_LABELS": ""}):
        labels = read([], environment).context.operator_labels
        assert dict(labels) == {"app.kubernetes.io/name": "landfall-operator"}


def test_two_operators_outside_of_pods_have_different_names() -> None:
    assert read([], {}).holder != read([], {}).holder


@pytest.mark.parametrize(
    "wrong",
    [
        ["--namespace", "kube-system"],
        ["--namespace-label", "no-value"],
        ["--namespace", "a", "--namespace-label", "a=b"],
        ["--interval", "60"],
        ["--log-format", "xml"],
        ["--nope"],
        ["--http-port", "x"],
    ],
)
def test_a_wrong_flag_is_refused(wrong: list[str], capsys: pytest.CaptureFixture[str]) -> None:
    with pytest.raises(SystemExit) as ended:
        read(wrong, {})

    assert ended.value.code == 2
    assert "usage:" in capsys.readouterr().err


def test_the_page_lists_every_flag(capsys: pytest.CaptureFixture[str]) -> None:
    with pytest.raises(SystemExit):
        read(["--help"], {})

    flags = set(re.findall(r"--[a-z-]+", capsys.readouterr().out)) - {"--help", "--version"}
    assert set(re.findall(r"`(--[a-z-]+)`", PAGE.read_text())) == flags


def test_the_limit_of_rollouts_is_a_number_from_zero_on() -> None:
    assert [read(flags, {}).max_rollouts for flags in ([], ["--max-rollouts", "5"])] == [0, 5]
    assert read([], {"LANDFALL_MAX_ROLLOUTS": "3"}).max_rollouts == 3
    with pytest.raises(SystemExit):
        read(["--max-rollouts", "-1"], {})
