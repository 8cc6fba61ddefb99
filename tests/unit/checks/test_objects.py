from dataclasses import replace

import pytest

from landfall.checks import Finding, Invariant
from landfall.checks.objects import (
    Named,
    is_ours,
    is_proven,
    judge,
    judge_bytes,
    merge_by_key,
    stray,
)
from landfall.ledger.offsets import TopicPartition
from landfall.objects import ObjectStat
from tests.support.sample_ledger import SampleLedger

TP = TopicPartition("clicks", 0)


@pytest.fixture
def book() -> SampleLedger:
    return SampleLedger().open().add(TP)


@pytest.fixture
def named(book: SampleLedger) -> Named:
    landed = book.land(TP, 0, 10)
    book.commit(landed)
    return Named(slot=2, landed=landed.objects[0], applied=True)


@pytest.fixture
def found(book: SampleLedger, named: Named) -> ObjectStat:
    stat = book.store.stat(named.key)
    assert stat is not None
    return stat


def test_an_object_as_decided_is_fine(named: Named, found: ObjectStat) -> None:
    assert judge(named, found) is None
    assert judge(named, replace(found, token="")) is None
    assert is_proven(named.landed.upload, found.etag)


def test_a_missing_object_breaks_i6_once_it_is_applied(named: Named) -> None:
    size = named.landed.upload.size

    assert judge(named, None) == Finding(
        Invariant.I6, f"an object of {size} bytes", "nothing", 2, key=named.key
    )
    assert judge(replace(named, applied=False), None) is None


def test_a_changed_object_breaks_i5(named: Named, found: ObjectStat) -> None:
    for changed in (replace(found, size=1), replace(found, etag=f"{'0' * 32}-1")):
        finding = judge(named, changed)
        assert finding is not None
        assert (finding.invariant, finding.key) == (Invariant.I5, named.key)


def test_an_etag_of_another_make_proves_nothing_either_way(named: Named, found: ObjectStat) -> None:
    opaque = replace(found, etag="opaque")

    assert not is_proven(named.landed.upload, opaque.etag)
    assert judge(named, opaque) is None


def test_an_upload_that_nobody_named_breaks_i3(named: Named, found: ObjectStat) -> None:
    finding = judge(named, replace(found, token="zombie"))

    assert finding == Finding(Invariant.I3, "token token-2", "token zombie", 2, key=named.key)


def test_changed_bytes_break_i5(named: Named) -> None:
    assert judge_bytes(named, named.landed.crc32) is None
    assert judge_bytes(named, 0) == Finding(
        Invariant.I5, f"crc32 {named.landed.crc32:08x}", "00000000", 2, key=named.key
    )


def test_names_and_objects_are_joined_by_their_bytes(named: Named, found: ObjectStat) -> None:
    def name(key: str) -> Named:
        upload = replace(named.landed.upload, key=key)
        return replace(named, landed=replace(named.landed, upload=upload))

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


def test_only_what_a_landing_makes_can_be_a_stray(named: Named, found: ObjectStat) -> None:
    assert is_ours(named.key, "shop")
    assert is_ours("_landfall/shop/dead-letters/clicks/1_0_00000000000000000000.parquet", "shop")
    assert not is_ours("_landfall/shop/0/00000000000000000000.json", "shop")
    assert not is_ours("clicks/dt=2026-11-21/_SUCCESS", "shop")
    assert stray(found).key == named.key
