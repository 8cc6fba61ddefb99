"""The CRD is the one in crds/, is structural by Kubernetes' rules, and explains itself."""

import re
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest
import yaml

from dev.reference import page
from landfall.api.spec import GroupSpec
from landfall_operator.api.crd import COLUMNS, EXTRAS, RULES, at, crd, schema, to_yaml
from landfall_operator.api.schema import BYTES, DURATION, NOT_ZERO, RATIO, with_constraints
from tests.support.defaults import defaulted

FILE = Path(__file__).resolve().parents[3] / "crds" / "consumergroups.landfall.dev.yaml"
Node = dict[str, Any]


def nodes(node: Node, path: str = "") -> Iterator[tuple[str, Node]]:
    """Every field, item and value of a map, with its path."""
    yield path, node
    for name, child in node.get("properties", {}).items():
        yield from nodes(child, f"{path}.{name}" if path else name)
    for key in ("items", "additionalProperties"):
        if key in node:
            yield from nodes(node[key], f"{path}[]")


def field(path: str) -> Node:
    return at(schema(), path)


def test_the_file_is_what_the_models_make() -> None:
    assert FILE.read_text() == to_yaml(), "run `make crds`"


def test_the_reference_is_what_the_models_make() -> None:
    assert (FILE.parents[1] / "docs" / "reference.md").read_text() == page(), "run `make crds`"


def test_the_file_reads_back() -> None:
    assert yaml.safe_load(FILE.read_text()) == crd()


@pytest.mark.parametrize(
    ("path", "node"), [pytest.param(*pair, id=pair[0] or "root") for pair in nodes(schema())]
)
def test_every_node_is_structural(path: str, node: Node) -> None:
    untyped = node.get("x-kubernetes-int-or-string") or node.get(
        "x-kubernetes-preserve-unknown-fields"
    )
    judged = [kind for key in ("anyOf", "allOf", "oneOf") for kind in node.get(key, ())]

    assert "type" in node or untyped
    assert not ("type" in node and node.get("x-kubernetes-int-or-string"))
    assert not ("properties" in node and "additionalProperties" in node)
    assert (
        not {"$ref", "title", "const", "exclusiveMinimum", "patternProperties", "propertyNames"}
        & node.keys()
    )
    assert not any(
        {"type", "default", "description", "nullable", "properties"} & kind.keys()
        for kind in judged
    )


def test_every_field_is_with_constraints() -> None:
    silent = [
        path
        for path, node in nodes(schema())
        if path.startswith(("spec", "status"))
        and not path.endswith("[]")
        and not node.get("description")
    ]

    # what is passed on to Kubernetes is explained there
    assert [p for p in silent if not p.endswith((".name", ".mountPath"))] == []


def test_every_pattern_is_one_that_go_can_read() -> None:
    rules = [
        rule["rule"]
        for _, node in nodes(schema())
        for rule in node.get("x-kubernetes-validations", ())
    ]
    patterns = [
        pattern for rule in rules for pattern in re.findall(r"matches\(r?'([^']*)'\)", rule)
    ]

    assert len(patterns) > 50
    assert [p for p in patterns if re.search(r"\(\?[=!<P]|\\[1-9]", p)] == []
    assert all(re.compile(p) for p in patterns)


def test_a_wrong_form_is_told_in_a_sentence() -> None:
    patterns = [path for path, node in nodes(schema()) if "pattern" in node]

    assert patterns == [
        "spec.source.kafka.startingOffsets"
    ]  # no rule can stand where there is no type


def test_descriptions_tell_rules_bounds_and_defaults() -> None:
    told = {
        path: field(f"spec.{path}")["description"]
        for path in ("output.s3.partBytes", "replicas", "autoscaling")
    }

    assert told == {
        "output.s3.partBytes": "Size of the parts of a multipart upload. Must be a quantity above "
        "zero, such as 256Mi, 1G or "
        "1000000. Must be at least 5Mi. Must be at most 5Gi. Default: `16Mi`.",
        "replicas": "Executors; `kubectl scale`, HPA and KEDA write it. Not read where "
        "`autoscaling` is given. 0 to 1000. Default: `1`.",
        "autoscaling": "Lets the operator decide how many executors there are. "
        "minReplicas must not exceed maxReplicas.",
    }


def test_a_bound_on_one_side_is_told() -> None:
    nodes = {"a": {"type": "integer", "minimum": 2}, "b": {"type": "integer", "maximum": 3}}

    made = with_constraints({"type": "object", "properties": nodes})

    assert [node["description"] for node in made["properties"].values()] == [
        "At least 2.",
        "At most 3.",
    ]


def test_an_empty_mapping_is_only_a_default_if_that_fills_fields() -> None:
    assert [
        path for path, node in nodes(schema()) if node.get("default") == {} and not filled(node)
    ] == []


def filled(node: Node) -> bool:
    return any("default" in child for child in node["properties"].values())


@pytest.mark.parametrize("path", [*RULES, *EXTRAS])
def test_rules_stand_at_fields_that_are_there(path: str) -> None:
    assert field(path)


def test_columns_are_read_from_fields_that_are_there() -> None:
    paths = [path for _, _, path, _, _ in COLUMNS if path.startswith(".status")]

    assert all(field(path.removeprefix(".")) for path in paths)


def test_kubectl_get_prints_the_documented_columns() -> None:
    assert [name.upper() for name, *_, priority in COLUMNS if not priority] == [
        "PHASE",
        "GENERATION",
        "REPLICAS",
        "LAG",
        "LAG-TIME",
        "COMMIT-FAILURES",
        "LAST-COMMIT",
        "AGE",
    ]
    assert [name.upper() for name, *_, priority in COLUMNS if priority] == [
        "TOPICS",
        "REASON",
        "DESIRED",
        "IMAGE",
    ]


def test_defaults_are_written_as_people_write_them() -> None:
    values = {path: node["default"] for path, node in nodes(schema()) if "default" in node}

    assert values["spec.uploadPolicy"] == {}
    assert (values["spec.uploadPolicy.maxBytes"], values["spec.uploadPolicy.maxAge"]) == (
        "256Mi",
        "5m",
    )
    assert values["spec.badRecords.maxRatio"] == "0.001"
    assert values["spec.upgrade.rollback.window"] == "2h"
    assert values["spec.source.kafka.startingOffsets"] == "Earliest"


def test_defaults_are_the_models() -> None:
    document = {
        "source": {"kafka": {"bootstrapServers": "k:1", "topics": ["a"]}},
        "output": {"url": "s3://b"},
    }

    assert GroupSpec.model_validate(defaulted(field("spec"), document)) == GroupSpec.model_validate(
        document
    )


def test_the_status_gets_no_defaults_from_the_api_server() -> None:
    assert [path for path, node in nodes(field("status")) if "default" in node] == []


def test_starting_offsets_are_words_or_mappings() -> None:
    node = field("spec.source.kafka.startingOffsets")

    assert node["pattern"] == "^(Earliest|Latest)$"
    assert node["anyOf"] == [{"required": ["timestamp"]}, {"required": ["offsets"]}]
    assert node["properties"]["timestamp"]["format"] == "date-time"


@pytest.mark.parametrize(
    ("pattern", "good", "bad"),
    [
        (BYTES, ["256Mi", "1.5G", "1e9", "7"], ["256MB", "-1", "", "1 Gi", "500m"]),
        (DURATION, ["90s", "5m", "1h30m", "500ms", "1.5h"], ["5", "5 m", "", "PT5M"]),
        (RATIO, ["0", "0.001", "1", "1.0"], ["1.1", "2", ".5", "1 %"]),
        (NOT_ZERO, ["0.5s", "10m"], ["0s", "0.0m"]),
    ],
)
def test_patterns_tell_good_from_bad(pattern: str, good: list[str], bad: list[str]) -> None:
    assert [text for text in good if not re.search(pattern, text)] == []
    assert [text for text in bad if re.search(pattern, text)] == []
