"""Mistakes that people make, at a real API server: refused there, or by the operator, at one place.

What ``landfall check`` and ``run`` print of the same specs is in ``tests/unit/api``.
"""

import re

import pytest
from kubernetes.client.exceptions import ApiException

from landfall_operator.api.validation import parsed
from tests.support.kubernetes.cluster import Cluster
from tests.support.kubernetes.groups import Groups, refusal
from tests.support.operator.wrong_specs import WRONG_SPECS, WrongSpec


@pytest.fixture
def dry_run(resource: Cluster) -> Groups:
    return Groups(resource, "default")


API_SERVERS_WORDS = {
    "is missing": "Required value",
    "a mapping of fields": "must be of type object",
    "list": "must be of type array",
    "text": "must be of type string",
    "whole number": "must be of type integer",
}
"""What the API server says of types and of missing fields, by our words for it."""
DECODED_FIRST = {
    "uploadPolicy.maxAge: 300": "must be of type string",
    "topics: {clicks: {}}": "unknown field",
    "transforms: {use: Select}": "unknown field",
}
"""Mistakes of types that the API server sees before it comes to our rule of the field."""


@pytest.mark.parametrize("wrong", WRONG_SPECS, ids=lambda wrong: wrong.id)
def test_the_api_server_or_the_operator_names_the_field_and_what_is_expected(
    dry_run: Groups, wrong: WrongSpec
) -> None:
    resource = wrong.resource()
    own = parsed(resource)[1]
    try:
        stored = dry_run.try_out(resource)
    except ApiException as refused:
        said = refusal(refused)
        assert re.search(rf'(?:^|"|; ){re.escape(wrong.place)}(?=[:."\[])', said), said
        assert expected_of_api_server(wrong, own) in said.replace(wrong.place, ""), said
        return

    assert parsed(stored)[1] == own


def expected_of_api_server(wrong: WrongSpec, own: str) -> str:
    """What the refusal contains beside the field: what is right, in our words or in its own."""
    if wrong.written in DECODED_FIRST:
        return DECODED_FIRST[wrong.written]
    if "unknown field" in own:  # no schema can suggest a name
        return "unknown field"
    return API_SERVERS_WORDS.get(wrong.expects, wrong.expects)
