"""The stored part of a spec."""

from landfall.api.contract import LANE
from landfall.driver.stored_specs import store_spec, stored_spec
from landfall.store.memory import MemoryStore
from tests.support.fakes import group


def test_a_stored_spec_has_the_entries_of_topics_of_its_time() -> None:
    store = MemoryStore()
    entry = {"pattern": "a", "decode": {"timestamp": {"field": "at", "unit": "Seconds"}}}
    of_now = group(topics=[{"pattern": "b", "transforms": []}])
    before, older = group(topics=[entry]), group()

    found = stored_spec(store, of_now, LANE, store_spec(store, before, LANE))

    assert found.spec.topics == before.spec.topics
    assert stored_spec(store, of_now, LANE, store_spec(store, older, LANE)).spec.topics == ()
