from msgspec.structs import replace

from landfall.checks.objects import NamedObject
from landfall.cli.objects.named_objects import NamedObjects
from landfall.ledger.task_results import LandedObject, ObjectKind
from landfall.objects import Part, Upload


def landed(key: str, upload_id: str = "u") -> LandedObject:
    return LandedObject(
        Upload(key, upload_id, (Part("e", 3),), "t"), ObjectKind.DATA, 1, 0, 0, crc32=7
    )


def test_objects_come_back_in_byte_order_of_their_keys() -> None:
    names = NamedObjects()

    for slot, key in enumerate(("b", "\U00010000", "\uffff", "a")):
        assert names.add(slot, landed(key)) is None

    assert [named.key for named in names.in_order(())] == ["a", "b", "\uffff", "\U00010000"]


def test_a_key_that_was_named_before_is_reported_with_its_slot() -> None:
    names = NamedObjects()
    names.add(3, landed("a"))

    assert names.add(5, replace(landed("a"), rows=2)) == 3
    assert list(names.in_order(())) == [NamedObject(3, landed("a"), applied=True)]


def test_a_repair_replaces_the_upload_and_keeps_the_slot() -> None:
    names = NamedObjects()
    names.add(3, landed("a"))

    names.repair(landed("a", "again"))

    assert list(names.in_order({"a"})) == [NamedObject(3, landed("a", "again"), applied=False)]
