"""Mistakes that people make, at a real API server: refused there, or by the operator, at one place.

What ``landfall check`` and ``run`` print of the same specs is in ``tests/unit/api``.
"""

import re

import pytest
from kubernetes.client.exceptions import ApiException

from landfall_operator.api.validation import parsed
from tests.support.cluster import Cluster
from tests.support.groups import Groups, refusal
from tests.support.wrong_specs import WRONG_SPECS, WrongSpec


@pytest.fixture
def dry_run(resource: Cluster) -> Groups:
    return Groups(resource, "default")


@pytest.mark.parametrize("wrong", WRONG_SPECS, ids=lambda wrong: wrong.id)
def test_the_api_server_or_the_operator_names_the_same_field(
    dry_run: Groups, wrong: WrongSpec
) -> None:
    resource = wrong.resource()
    own = parsed(resource)[1]
    try:
        stored = dry_run.try_out(resource)
    except ApiException as refused:
        # Its texts are its own. Some fields it names by their section, and unknown ones in full.
        said = refusal(refused)
        section, _, _ = wrong.place.rpartition(".")
        assert re.search(re.escape(section), said), said
        return

    assert parsed(stored)[1] == own
