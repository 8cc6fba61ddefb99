"""What a real registry has registered is read by the decoders."""

from landfall.schemas import Reference, RegisteredSchema
from landfall.schemas.client import RegistryClient, RegistryOptions
from tests.support.registry import Registry


def test_a_schema_and_its_references_are_read(registry: Registry) -> None:
    inner, outer = registry.subject(), registry.subject()
    country = {"type": "enum", "name": "shop.Country", "symbols": ["DE", "FR"]}
    visit = {
        "type": "record",
        "name": "shop.Visit",
        "fields": [{"name": "country", "type": "shop.Country"}],
    }
    registry.register(inner, country)
    used = {"name": "shop.Country", "subject": inner, "version": 1}
    schema_id = registry.register(outer, visit, references=[used])

    client = RegistryClient(RegistryOptions((registry.url,)))
    found = client.by_id(schema_id)

    assert isinstance(found, RegisteredSchema)
    assert [reference.name for reference in found.references] == ["shop.Country"]
    assert client.latest(outer) == found
    assert client.by_id(999_999) is None
    assert client.latest("nobody-value") is None
    assert isinstance(found.references[0], Reference)
