"""The CRD in crds/ is up to date, structural by Kubernetes' rules, and describes every field."""

import json
import re
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import pytest
import yaml

from landfall.api.spec import GroupSpec
from landfall_operator.api.backfill_crd import crd as backfill_crd
from landfall_operator.api.crd import COLUMNS, EXTRAS, RULES, at, crd, to_yaml
from landfall_operator.api.schema import BYTES, DURATION, NOT_ZERO, RATIO, with_constraints
from tests.support.operator.crd_schema import group_schema
from tests.support.operator.defaults import defaulted

README = Path(__file__).resolve().parents[3] / "README.md"
FILE = README.parent / "crds" / "consumergroups.landfall.dev.yaml"
Node = dict[str, Any]
UNKNOWN = "x-kubernetes-preserve-unknown-fields"
REFUSED = {"$ref", "title", "const", "exclusiveMinimum", "patternProperties", "propertyNames"}
NOT_IN_BRANCHES = {"type", "default", "description", "nullable", "properties"}


def nodes(node: Node, path: str = "") -> Iterator[tuple[str, Node]]:
    """Every field, item and value of a map, with its path."""
    yield path, node
    for name, child in node.get("properties", {}).items():
        yield from nodes(child, f"{path}.{name}" if path else name)
    for key in ("items", "additionalProperties"):
        if key in node:
            yield from nodes(node[key], f"{path}[]")


def field(path: str) -> Node:
    return at(group_schema(), path)


def test_the_file_is_generated_from_the_models() -> None:
    assert FILE.read_text() == to_yaml(), "run `make crds`"


def test_the_api_server_fills_in_only_what_the_last_release_knows() -> None:
    known = json.loads((Path(__file__).parent / "last_release" / "defaults.json").read_text())

    # The last release ignores what it cannot read of a status; it would refuse a spec.
    filled = {path for path, node in nodes(group_schema()) if "default" in node} - {"status"}
    assert filled <= set(known)


def test_the_file_reads_back() -> None:
    assert yaml.safe_load(FILE.read_text()) == crd()


def test_the_file_can_be_applied_by_any_client() -> None:
    """``kubectl apply`` keeps it without spaces in an annotation; all may have 256 KiB together."""
    assert len(json.dumps(crd(), separators=(",", ":"))) < 192 * 1024


@pytest.mark.parametrize("made", [crd, backfill_crd], ids=["ConsumerGroup", "Backfill"])
def test_kubectl_delete_all_deletes_no_object(made: Callable[[], dict[str, Any]]) -> None:
    assert made()["spec"]["names"]["categories"] == ["landfall"]


def test_pages_apply_the_files_on_the_server() -> None:
    """``kubectl apply`` without it keeps them in an annotation: most of what it may have."""
    pages = [README, *(README.parent / "docs").rglob("*.md")]
    lines = [line for page in pages for line in page.read_text().splitlines()]

    found = [line for line in lines if re.search(r"kubectl (apply|create|replace).*\bcrds/", line)]

    assert found
    assert [line for line in found if "--server-side" not in line] == []


def faults(node: Node) -> Iterator[str]:
    """What makes a node one that is not structural."""
    is_word_or_number = node.get("x-kubernetes-int-or-string")
    if not ("type" in node or is_word_or_number or node.get(UNKNOWN)):
        yield "no type"
    if "type" in node and is_word_or_number:
        yield "a type and x-kubernetes-int-or-string"
    if "properties" in node and "additionalProperties" in node:
        yield "properties and additionalProperties"
    yield from sorted(REFUSED & node.keys())
    for key in ("anyOf", "allOf", "oneOf"):
        for branch in node.get(key, ()):
            yield from (f"{key}: {keyword}" for keyword in sorted(NOT_IN_BRANCHES & branch.keys()))


def test_every_node_is_structural() -> None:
    found = dict(nodes(group_schema()))

    assert len(found) > 500
    assert {path: [*faults(node)] for path, node in found.items() if any(faults(node))} == {}


@pytest.mark.parametrize(
    ("node", "why"),
    [
        ({}, "no type"),
        ({"type": "string", "x-kubernetes-int-or-string": True}, "a type and x-"),
        ({"type": "object", "properties": {}, "additionalProperties": {}}, "properties and"),
        ({"type": "string", "const": "a"}, "const"),
        ({"type": "object", "anyOf": [{"type": "string"}]}, "anyOf: type"),
    ],
)
def test_a_node_that_is_not_structural_is_found(node: Node, why: str) -> None:
    (fault,) = faults(node)

    assert fault.startswith(why)


def test_every_field_has_a_description() -> None:
    undescribed = [
        path
        for path, node in nodes(group_schema())
        if path.startswith(("spec", "status"))
        and not path.endswith("[]")
        and not node.get("description")
    ]

    # Kubernetes describes the fields that are passed on to it
    assert [p for p in undescribed if not p.endswith((".name", ".mountPath"))] == []


def test_every_pattern_is_one_that_go_can_read() -> None:
    rules = [
        rule["rule"]
        for _, node in nodes(group_schema())
        for rule in node.get("x-kubernetes-validations", ())
    ]
    patterns = [
        pattern for rule in rules for pattern in re.findall(r"matches\(r?'([^']*)'\)", rule)
    ]

    assert len(patterns) > 50
    assert [p for p in patterns if re.search(r"\(\?[=!<P]|\\[1-9]", p)] == []
    assert all(re.compile(p) for p in patterns)


def test_the_form_of_a_text_is_checked_by_a_rule_with_a_message() -> None:
    patterns = [path for path, node in nodes(group_schema()) if "pattern" in node]

    # a CEL rule needs a type
    assert patterns == [
        "spec.source.kafka.startingOffsets",
        "spec.source.kafka.onDataLoss",
        "spec.badRecords.maxRatio",
        "spec.badRecords.overrides[].maxRatio",
    ]


def test_descriptions_include_rules_bounds_and_defaults() -> None:
    descriptions = {
        path: field(f"spec.{path}")["description"]
        for path in ("output.s3.partBytes", "replicas", "autoscaling")
    }

    assert descriptions == {
        "output.s3.partBytes": "Part size of multipart uploads, in bytes. Must be a quantity above "
        "zero, such as 256Mi, 1G or "
        "1000000. Must be at least 5Mi. Must be at most 5Gi. Default: `16Mi`.",
        "replicas": "Number of executors. `kubectl scale`, HPA and KEDA write this field. Ignored "
        "if `autoscaling` is set. 0 to 1000. Default: `1`.",
        "autoscaling": "Lets the operator choose the number of executors. `replicas` applies if "
        "not set. minReplicas must not exceed maxReplicas.",
    }


def test_descriptions_include_a_bound_on_one_side() -> None:
    nodes = {"a": {"type": "integer", "minimum": 2}, "b": {"type": "integer", "maximum": 3}}

    described = with_constraints({"type": "object", "properties": nodes})

    assert [node["description"] for node in described["properties"].values()] == [
        "At least 2.",
        "At most 3.",
    ]


def test_an_empty_mapping_is_a_default_only_if_its_fields_have_defaults() -> None:
    assert [
        path
        for path, node in nodes(group_schema())
        if node.get("default") == {} and not filled(node)
    ] == []


def filled(node: Node) -> bool:
    return any("default" in child for child in node["properties"].values())


@pytest.mark.parametrize("path", [*RULES, *EXTRAS])
def test_rules_belong_to_existing_fields(path: str) -> None:
    assert field(path)


def test_columns_show_existing_fields() -> None:
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
        "LAST-RUN",
        "AGE",
    ]
    assert [name.upper() for name, *_, priority in COLUMNS if priority] == [
        "TOPICS",
        "REASON",
        "DESIRED",
        "IMAGE",
        "NEWER-IMAGE",
        "NEXT-RUN",
        "FILES",
        "PUBLISHED",
    ]


def test_defaults_are_written_as_users_write_them() -> None:
    values = {path: node["default"] for path, node in nodes(group_schema()) if "default" in node}

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


def test_the_api_server_says_only_that_no_operator_has_seen_a_group() -> None:
    found = {path: node["default"] for path, node in nodes(field("status")) if "default" in node}

    assert found == {"": {"observedGeneration": -1}}


def test_an_older_crd_accepts_the_words_of_a_newer_operator() -> None:
    assert [path for path, node in nodes(field("status")) if "enum" in node] == []
    assert field("spec.state")["enum"] == ["Running", "Suspended"]


def test_starting_offsets_are_words_or_mappings() -> None:
    node = field("spec.source.kafka.startingOffsets")

    assert node["pattern"] == "^(Earliest|Latest)$"
    assert node["anyOf"] == [{"required": ["timestamp"]}, {"required": ["offsets"]}]
    assert node["properties"]["timestamp"]["format"] == "date-time"


def test_what_may_be_a_word_has_no_rules_and_no_defaults_inside() -> None:
    node = field("spec.source.kafka.onDataLoss")

    assert (node["pattern"], node["default"]) == ("^(Stall|SkipAndRecord)$", "Stall")
    assert node["anyOf"] == [{"required": ["readFrom"]}]
    assert node["properties"]["otherwise"]["enum"] == ["Stall", "SkipAndRecord"]
    inside = [each for path, each in nodes(node) if path]
    assert not [each for each in inside if {"x-kubernetes-validations", "default"} & each.keys()]


@pytest.mark.parametrize(
    ("pattern", "good", "bad"),
    [
        (BYTES, ["256Mi", "1.5G", "1e9", "7"], ["256MB", "-1", "", "1 Gi", "500m"]),
        (DURATION, ["90s", "5m", "1h30m", "500ms", "1.5h"], ["5", "5 m", "", "PT5M"]),
        (RATIO, ["0", "0.001", "1", "1.0"], ["1.1", "2", ".5", "1 %"]),
        (NOT_ZERO, ["0.5s", "10m"], ["0s", "0.0m"]),
    ],
)
def test_patterns_accept_good_texts_and_reject_bad_ones(
    pattern: str, good: list[str], bad: list[str]
) -> None:
    assert [text for text in good if not re.search(pattern, text)] == []
    assert [text for text in bad if re.search(pattern, text)] == []
