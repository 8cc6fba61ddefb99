"""The schemas for editors: fresh, right for what is right, and wrong for what is wrong."""

from functools import cache
from typing import Any

import jsonschema_rs
import pytest

from landfall.api.editor_schemas import schema_text
from landfall_operator.api.editor_schema import KINDS, editor_schema, to_json
from tests.support.kubernetes.groups import changed, document
from tests.support.operator.wrong_specs import WRONG_SPECS, WrongSpec


@cache
def validator(kind: str) -> Any:
    return jsonschema_rs.validator_for(editor_schema(kind))


def places(resource: Any) -> list[str]:
    """The fields with which the schema of a group finds fault."""
    errors = validator("ConsumerGroup").iter_errors(resource)
    return [".".join(map(str, error.instance_path)) for error in errors]


@pytest.mark.parametrize("kind", KINDS)
def test_the_files_are_generated_and_schemas_themselves(kind: str) -> None:
    assert schema_text(kind) == to_json(kind), "run `make crds`"
    assert jsonschema_rs.meta.is_valid(editor_schema(kind))


def test_a_group_is_right() -> None:
    assert places(document()) == []


LEFT_TO_CHECK = {
    "autoscaling: {minReplicas: 5, maxReplicas: 2}",
    "output.url: 'ftp://logs/clicks'",
    "publish: [{name: a, type: Success}, {name: a, type: Success}]",
    "route.pattern: '/dt={date}'",
    "route.pattern: 'dt={dat}'",
    "route.pattern: 'dt={date'",
    "route.timezone: Mars/Olympus",
    "schedule: {cron: '* * * *'}",
    "schedule: {cron: '0 0 0 * * *'}",
    "schedule: {cron: '61 * * * *'}",
    "source.files: [{topic: hits, url: 's3://in/x'}]",
    "source.kafka.topics: []",
}
"""Mistakes of two fields, and those that only models find."""


@pytest.mark.parametrize("wrong", WRONG_SPECS, ids=lambda wrong: wrong.id)
def test_wrong_specs_are_found(wrong: WrongSpec) -> None:
    assert bool(places(wrong.resource())) == (wrong.id not in LEFT_TO_CHECK)


@pytest.mark.parametrize(
    ("field", "value"),
    [
        ("spec.replicas", "${N}"),
        ("spec.replicas", "${N:-3}"),
        ("spec.state", "${STATE}"),
        ("spec.output.s3.pathStyle", "${PATH_STYLE}"),
        ("spec.output.format", "${FORMAT:-Json}"),
        ("spec.output.url", "${ROOT}/clicks"),
        ("spec.uploadPolicy.maxBytes", "${SIZE}Mi"),
        ("spec.uploadPolicy.maxBytes", 1.5e8),
        ("spec.uploadPolicy.maxAge", "${AGE}"),
        ("spec.badRecords.maxRatio", "${RATIO}"),
        ("spec.badRecords.maxRatio", 0.01),
        ("spec.source.kafka.startingOffsets", "${START}"),
        ("spec.source.kafka.startingOffsets", {"timestamp": "2026-11-21T00:00:00Z"}),
        ("spec.source.kafka.topics", ["${TOPIC}"]),
        ("spec.source.kafka.properties", {"sasl.password": "${PASSWORD}"}),
        ("metadata.name", "${TENANT}-clicks"),
    ],
)
def test_a_variable_may_stand_for_a_value(field: str, value: object) -> None:
    assert places(changed(document(), field, value)) == []


@pytest.mark.parametrize(
    ("field", "value"),
    [
        ("spec.replicas", "$N"),
        ("spec.replicas", "three"),
        ("spec.state", "${not a name}"),
        ("spec.output.s3.pathStyle", "maybe"),
        ("spec.badRecords.maxRatio", 2),
        ("spec.badRecords.s3.regoin", "eu-central-1"),
        ("spec.source.kafka.startingOffsets", {"timestmap": "2026-11-21T00:00:00Z"}),
        ("spec.decode.columns", [{"name": "a", "type": "Text"}]),
        ("spec.decode.columns", [{"name": "a", "typ": "String"}]),
        ("spec.topics", [{"pattern": "a", "decode": {"fromat": "Json"}}]),
        ("spec.publish", [{"use": "Icebreg"}]),
        ("kind", "Consumergroup"),
        ("apiVersion", "landfall.dev/v1"),
        ("metadata.name", "Clicks"),
        ("spce", {}),
    ],
)
def test_what_is_wrong_is_underlined_where_it_is(field: str, value: object) -> None:
    found = places(changed(document(), field, value))

    assert found
    assert all(place.startswith(field) or field.startswith(place) for place in found)
