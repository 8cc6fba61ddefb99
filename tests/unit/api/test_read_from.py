"""``onDataLoss: {readFrom: …}``: another group has what Kafka has lost."""

import pytest

from landfall.api.spec import ConsumerGroup, parse_group
from tests.support.kubernetes.groups import document


@pytest.mark.parametrize("otherwise", ["Stall", "SkipAndRecord"])
def test_lost_offsets_may_be_read_from_another_group(otherwise: str) -> None:
    named = {"group": "backup", "url": "s3://backup/raw", "s3": {"endpoint": "http://s3:9000"}}
    lost = {"readFrom": named, "otherwise": otherwise}

    group = parse_group(document("clicks", source__kafka__onDataLoss=lost))

    source = group.spec.source
    assert source.read_from
    assert (source.read_from.group, source.read_from.access_field) == ("backup", "s3")
    assert source.places == (source.read_from,)
    assert source.skips_lost_ranges == (otherwise == "SkipAndRecord")
    assert ConsumerGroup.model_validate_json(group.model_dump_json(by_alias=True)) == group
