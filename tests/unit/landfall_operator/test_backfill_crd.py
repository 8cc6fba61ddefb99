"""The CRD of Backfills is up to date, and says the same as the model."""

import re
from pathlib import Path
from typing import Any

import pytest
import yaml

from landfall_operator.api import backfill
from landfall_operator.api.backfill_crd import CHANGEABLE, COLUMNS, crd, schema, to_yaml
from landfall_operator.api.crd import at

FILE = Path(__file__).resolve().parents[3] / "crds" / "backfills.landfall.dev.yaml"


def test_the_file_is_generated_from_the_models() -> None:
    assert FILE.read_text() == to_yaml(), "run `make crds`"
    assert yaml.safe_load(FILE.read_text()) == crd()


def test_every_column_shows_a_field() -> None:
    for _, kind, path, _, _ in COLUMNS:
        if path.startswith(".metadata"):
            continue
        assert at(schema(), path.removeprefix("."))["type"] == kind, path


def test_every_field_has_a_description() -> None:
    def missing(node: dict[str, Any], path: str) -> list[str]:
        own = [] if node.get("description") else [path]
        below = node.get("items", node).get("properties", {})
        return own + [each for name in below for each in missing(below[name], f"{path}.{name}")]

    assert [each for name in ("spec", "status") for each in missing(at(schema(), name), name)] == []


def test_all_but_two_fields_stay_as_they_were_created() -> None:
    fixed = schema()["properties"]["spec"]["x-kubernetes-validations"][1]["rule"]

    fields = set(at(schema(), "spec")["properties"])
    assert {*re.findall(r"self\.(\w+) == oldSelf\.\1", fixed)} == fields - {*CHANGEABLE}


def test_the_choice_becomes_the_options_of_the_command() -> None:
    spec, error = backfill.parsed(
        {
            "group": "clicks",
            "topics": ["clicks", "views"],
            "landed": {"from": "2026-11-20T14:00:00Z", "until": "2026-11-21T09:30:00Z"},
            "generations": 7,
            "outputPartitions": ["dt=2026-11-2*"],
            "share": "12.5%",
        }
    )

    assert (spec and [*spec.choice()], error) == (
        [
            *("--topic", "clicks", "--topic", "views"),
            *("--landed-from", "2026-11-20T14:00:00+00:00"),
            *("--landed-until", "2026-11-21T09:30:00+00:00"),
            *("--generations", "7"),
            "--output-partition=dt=2026-11-2*",
            *("--share", "12.5%"),
        ],
        "",
    )


@pytest.mark.parametrize(
    ("last", "option"), [("1h", "3600s"), ("90500ms", "91s"), ("400d", "576000m")]
)
def test_a_time_before_the_plan_is_an_option_that_the_command_takes(last: str, option: str) -> None:
    spec, _ = backfill.parsed({"group": "clicks", "last": last})

    assert spec
    assert [*spec.choice()] == ["--last", option]


@pytest.mark.parametrize(
    ("spec", "error"),
    [
        ({}, "spec.group: is missing"),
        ({"group": "Clicks"}, "spec.group: must be at most 40 lowercase letters"),
        ({"group": "a", "last": "1h", "landed": {"until": "2026-11-21T09:30:00Z"}}, "two ways"),
        ({"group": "a", "share": "0%"}, "spec.share: must be a percentage above zero"),
        ({"group": "a", "topic": ["x"]}, "spec.topic: unknown field"),
    ],
)
def test_what_is_wrong_is_named_with_its_field(spec: dict[str, Any], error: str) -> None:
    parsed, found = backfill.parsed(spec)

    assert parsed is None
    assert error in found
