"""Which keys are the ledger's, where that is in another root."""

import json

import pytest

from landfall.ledger.names.object_names import dead_letter_key, ledger_prefix
from landfall.ledger.names.roots import (
    is_ledger_key,
    marked_ledger,
    may_be_of_ledger,
    may_be_of_objects,
    side_root,
)

SIDE = side_root("shop", "fix")
DATA = "clicks/dt=2026-11-21/2_0_00000000000000000000.json"
LETTERS = dead_letter_key("shop", "clicks", 2, 0, 0)
SLOT = f"{ledger_prefix('shop', '0')}0000000001/0000000000.json"


@pytest.mark.parametrize("root", ["", f"{SIDE}/"])
@pytest.mark.parametrize(("key", "is_ledgers"), [(DATA, False), (LETTERS, False), (SLOT, True)])
def test_a_side_lane_is_divided_as_its_group(root: str, key: str, is_ledgers: bool) -> None:
    whole = f"{root}{key}"
    prefixes = [whole[:end] for end in range(len(whole) + 1)]

    assert is_ledger_key(whole) is is_ledgers
    assert all(map(may_be_of_ledger if is_ledgers else may_be_of_objects, prefixes))


def test_a_listing_of_one_root_does_not_ask_the_other() -> None:
    assert not may_be_of_objects(ledger_prefix("shop", "0"))
    assert not may_be_of_objects(f"{SIDE}/{ledger_prefix('shop', '0')}")
    assert not may_be_of_ledger(f"{SIDE}/clicks/")


@pytest.mark.parametrize(
    ("objects", "ledger"),
    [
        ("hdfs://nn:8020/logs", "s3://ledgers/logs"),
        ("s3://logs/x", "gs://ledgers/x"),
        ("s3://logs/x", "abfss://c@account.dfs.core.windows.net/x"),
        ("hdfs://nn:8020/logs", "hdfs://nn:8020/ledgers"),
        ("file:///logs", "file:///ledgers"),
    ],
)
def test_a_mark_names_an_object_store_or_the_server_of_the_objects(
    objects: str, ledger: str
) -> None:
    assert marked_ledger(objects, json.dumps({"url": ledger}).encode()) == ledger


@pytest.mark.parametrize(
    ("objects", "ledger"),
    [
        ("s3://logs/x", "file:///etc/landfall/secrets"),
        ("s3://logs/x", "hdfs://evil:8020/x"),
        ("hdfs://nn:8020/logs", "hdfs://evil:8020/x"),
        ("hdfs://nn:8020/logs", "hdfs://nn:9000/x"),
        ("s3://logs/x", "acme.stores:Store"),
        ("s3://logs/x", "http://169.254.169.254/latest"),
        ("s3://logs/x", ""),
        ("s3://logs/x", 7),
        ("s3://logs/x", None),
    ],
)
def test_a_mark_leads_readers_nowhere_else(objects: str, ledger: object) -> None:
    with pytest.raises(ValueError, match="it names "):
        marked_ledger(objects, json.dumps({"url": ledger}).encode())


@pytest.mark.parametrize("mark", [b"", b"{}", b"[]", b"\xff", b'"url"'])
def test_a_mark_that_is_none_names_no_ledger(mark: bytes) -> None:
    with pytest.raises(ValueError, match="it names no ledger"):
        marked_ledger("s3://logs/x", mark)
