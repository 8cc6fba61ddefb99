from dataclasses import replace

import pytest
from msgspec import structs

from landfall.checks import Finding, Invariant
from landfall.checks.objects import (
    NamedObject,
    check_bytes,
    check_object,
    is_landfall_object,
    merge_by_key,
    unnamed_object,
)
from landfall.ledger.offsets import TopicPartition
from landfall.objects import ObjectStat, is_proven
from tests.support.ledger.sample_ledger import SampleLedger

TP = TopicPartition("clicks", 0)


@pytest.fixture
def sample() -> SampleLedger:
    return SampleLedger().open().add(TP)


@pytest.fixture
def named(sample: SampleLedger) -> NamedObject:
    landed = sample.land(TP, 0, 10)
    sample.commit(landed)
    return NamedObject(slot=2, landed=landed.objects[0], applied=True)


@pytest.fixture
def found(sample: SampleLedger, named: NamedObject) -> ObjectStat:
    stat = sample.store.stat(named.key)
    assert stat is not None
    return stat


def test_an_object_as_it_was_committed_is_sound(named: NamedObject, found: ObjectStat) -> None:
    assert check_object(named, found) is None
    assert check_object(named, replace(found, token="")) is None
    assert is_proven(named.landed.upload, found.etag)


def test_a_missing_object_breaks_i6_once_it_is_applied(named: NamedObject) -> None:
    size = named.landed.upload.size

    assert check_object(named, None) == Finding(
        Invariant.I6, f"an object of {size} bytes", "nothing", 2, key=named.key
    )
    assert check_object(replace(named, applied=False), None) is None


def test_a_changed_object_breaks_i5(named: NamedObject, found: ObjectStat) -> None:
    for changed in (replace(found, size=1), replace(found, etag=f"{'0' * 32}-1")):
        finding = check_object(named, changed)
        assert finding is not None
        assert (finding.invariant, finding.key) == (Invariant.I5, named.key)


def test_an_etag_that_is_no_md5_proves_nothing_either_way(
    named: NamedObject, found: ObjectStat
) -> None:
    opaque = replace(found, etag="opaque")

    assert not is_proven(named.landed.upload, opaque.etag)
    assert check_object(named, opaque) is None


def test_an_object_of_another_upload_breaks_i3(named: NamedObject, found: ObjectStat) -> None:
    finding = check_object(named, replace(found, token="zombie"))

    assert finding == Finding(Invariant.I3, "token token-2", "token zombie", 2, key=named.key)


def test_changed_bytes_break_i5(named: NamedObject) -> None:
    assert check_bytes(named, named.landed.crc32) is None
    assert check_bytes(named, 0) == Finding(
        Invariant.I5, f"crc32 {named.landed.crc32:08x}", "00000000", 2, key=named.key
    )


def test_named_and_visible_objects_are_paired_in_byte_order(
    named: NamedObject, found: ObjectStat
) -> None:
    def name(key: str) -> NamedObject:
        upload = structs.replace(named.landed.upload, key=key)
        return replace(named, landed=structs.replace(named.landed, upload=upload))

    names = [name("a"), name("b"), name("\uffff"), name("\U00010000")]
    stats = [replace(found, key=key) for key in ("b", "c", "\U00010000")]

    joined = [(n and n.key, s and s.key) for n, s in merge_by_key(names, stats)]

    assert joined == [
        ("a", None),
        ("b", "b"),
        (None, "c"),
        ("\uffff", None),
        ("\U00010000", "\U00010000"),
    ]


def test_only_data_objects_and_dead_letters_are_landfall_objects(
    named: NamedObject, found: ObjectStat
) -> None:
    assert is_landfall_object(named.key, "shop")
    assert is_landfall_object(
        "_landfall/shop/dead-letters/clicks/1_0_00000000000000000000.parquet", "shop"
    )
    assert not is_landfall_object("_landfall/shop/0/0000000000/0000000000.json", "shop")
    assert not is_landfall_object("clicks/dt=2026-11-21/_SUCCESS", "shop")
    assert unnamed_object(found).key == named.key
