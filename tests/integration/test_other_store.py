"""Two stores with buckets of the same name: a group lands in its own only."""

from collections.abc import Callable

import pytest

from dev.servers.s3 import S3
from dev.servers.server import Server, ServerKind
from landfall.api.contract import ExitCode, LedgerPosition
from landfall.errors import Reason, Stalled
from landfall.store import Store
from landfall.store.urls import open_store
from tests.integration.conftest import keys
from tests.support.driver.driver_thread import DriverThread
from tests.support.driver.fakes import FakeLog, group
from tests.support.stores.s3 import Bucket, S3Server


def test_a_bucket_of_the_same_name_elsewhere_is_refused(
    bucket: Bucket, own_server: Callable[[ServerKind], Server], monkeypatch: pytest.MonkeyPatch
) -> None:
    for name, value in keys(bucket.server).items():
        monkeypatch.setenv(name, value)
    address = own_server(S3).up().address
    assert address
    other = S3Server(address, bucket.server.env).create_bucket(bucket.name)
    log = FakeLog().write("a", 25, 7)
    first = DriverThread(store_of(bucket), log, "r").start()
    landed = first.until_landed()
    known = LedgerPosition(landed.epoch, landed.slot)
    assert first.stop() is ExitCode.OK

    refused = DriverThread(store_of(other), log, "r", known_ledger=known).start()
    with pytest.raises(Stalled) as why:
        refused.end()
    again = DriverThread(store_of(bucket), log, "r", known_ledger=known).start()
    again.until_landed()

    assert why.value.reason is Reason.LEDGER_BEHIND
    assert other.keys() == []
    assert again.stop() is ExitCode.OK


def store_of(bucket: Bucket) -> Store:
    s3 = {"endpoint": bucket.server.endpoint, "pathStyle": True}
    return open_store(group(output={"url": f"{bucket.url}/root", "s3": s3}).spec.output)
