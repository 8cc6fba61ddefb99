"""Drivers and executors get the Secret of the schema registry."""

from landfall.api.spec import parse_group
from landfall_operator.api.reasons import is_environment
from landfall_operator.objects.pod_templates import secrets_of
from tests.support.groups import document


def test_the_secret_of_a_schema_registry_is_mounted() -> None:
    resource = document()
    registry = {"urls": ["http://registry:8081"], "secretRef": {"name": "login"}}
    resource["spec"]["decode"] = {"format": "Avro", "registry": registry}

    assert "login" in secrets_of(parse_group(resource))
    del registry["secretRef"]
    assert "login" not in secrets_of(parse_group(resource))


def test_a_registry_that_is_away_condemns_no_revision() -> None:
    assert is_environment("SchemaRegistryUnavailable")
    assert is_environment("SchemaRegistryDenied")
