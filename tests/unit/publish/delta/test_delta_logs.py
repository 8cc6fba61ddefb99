"""Logs of Delta tables in a store, by copies: one winner of each version, checkpoints, expiry."""

import json
from collections import Counter
from collections.abc import Collection, Iterator
from contextlib import suppress
from datetime import UTC, datetime, timedelta
from typing import Any

import pyarrow as pa
import pytest
from deltalake import CommitProperties, Field, Schema, Transaction
from deltalake.exceptions import CommitFailedError
from deltalake.schema import PrimitiveType
from deltalake.transaction import AddAction

from landfall.errors import (
    DestinationAway,
    DestinationDenied,
    Reason,
    Stalled,
    StoreAway,
    StoreDenied,
)
from landfall.objects import ObjectStat
from landfall.publish.building import check_publishers
from landfall.publish.delta.copied_log import BEFORE, CopiedTable, LogUnreadable, StoreLogs
from landfall.publish.delta.expired_log import expired, retention
from landfall.publish.delta.position import Commits
from landfall.store import Created
from landfall.store.memory import MemoryStore
from tests.support.driver.fakes import group

ROOT = "gs://lake/tables"
TABLE = f"{ROOT}/clicks"
LOG = "clicks/_delta_log"
COLUMNS = Schema([Field("id", PrimitiveType("long"))])
START = datetime(2026, 11, 1, tzinfo=UTC)


class CountingStore(MemoryStore):
    """Counts what is read of logs, by the end of the name; may fail, and may hide names."""

    def __init__(self) -> None:
        super().__init__()
        self.reads = Counter[str]()
        self.hidden: Collection[str] = ()
        self.fails: dict[str, Exception] = {}

    def read(self, key: str) -> bytes | None:
        self.reads[key.rpartition("/")[2]] += 1
        return super().read(key)

    def list_after(self, prefix: str, after: str = "") -> Iterator[ObjectStat]:
        return (s for s in super().list_after(prefix, after) if s.key not in self.hidden)

    def create(self, key: str, body: bytes) -> Created:
        for end, error in self.fails.items():
            if key.endswith(end):
                raise error
        return super().create(key, body)


@pytest.fixture
def store() -> CountingStore:
    return CountingStore()


def logs(store: CountingStore) -> StoreLogs:
    """As another process has them."""
    return StoreLogs(ROOT, lambda: store)


def load(of: StoreLogs) -> CopiedTable:
    loaded = of.load(TABLE)
    assert loaded is not None
    return loaded


def create(of: StoreLogs, **properties: str) -> None:
    of.create(TABLE, COLUMNS, [], properties)


def commit(of: StoreLogs, loaded: CopiedTable | None = None, url: str = "") -> int:
    """Add a file to a table; return the version."""
    loaded = loaded or load(of)
    version = loaded.version() + 1
    path = url or f"gs://lake/parsed/{version}.parquet"
    with of.committing(loaded):
        loaded.create_write_transaction(
            [AddAction(path, 100, {}, 0, data_change=True, stats='{"numRecords": 1}')],
            "append",
            loaded.schema(),
            commit_properties=CommitProperties(
                app_transactions=[Transaction("landfall", version)],
                max_commit_retries=0,
                custom_metadata={"through": str(version)},
            ),
        )
    return version


def paths(of: StoreLogs) -> list[str]:
    return sorted(pa.table(load(of).get_add_actions())["path"].to_pylist())


def names(store: CountingStore) -> list[str]:
    return [stat.key.removeprefix(f"{LOG}/") for stat in store.list_after(f"{LOG}/")]


def every(count: int) -> list[str]:
    return sorted(f"gs://lake/parsed/{version}.parquet" for version in range(1, count + 1))


def test_a_table_that_nobody_made_is_not_there(store: CountingStore) -> None:
    assert logs(store).load(TABLE) is None


def test_a_version_is_the_tables_next_one_and_its_log_names_no_folder_of_the_driver(
    store: CountingStore,
) -> None:
    made = logs(store)
    create(made)

    assert [commit(made) for _ in range(3)] == [1, 2, 3]

    assert load(logs(store)).version() == 3
    assert paths(logs(store)) == every(3)
    body = b"".join(store.read(f"{LOG}/{name}") or b"" for name in names(store))
    assert (b"landfall-delta-" in body, b'"location":"gs://lake/tables/clicks' in body) == (
        False,
        True,
    )


def test_of_two_writers_of_a_version_one_wins_and_the_other_reads_again(
    store: CountingStore,
) -> None:
    one, other = logs(store), logs(store)
    create(one)
    with pytest.raises(CommitFailedError):
        create(other)
    first, second = load(one), load(other)
    commit(other, second, "gs://lake/parsed/other.parquet")

    with pytest.raises(CommitFailedError, match="version 1 exists"):
        commit(one, first)

    assert load(one).version() == 1
    assert commit(one) == 2
    assert paths(other) == ["gs://lake/parsed/2.parquet", "gs://lake/parsed/other.parquet"]


def test_a_pass_with_nothing_new_reads_the_newest_version_alone(store: CountingStore) -> None:
    made = logs(store)
    create(made)
    for _ in range(5):
        commit(made)
    store.reads.clear()

    load(made)

    assert store.reads == {f"{5:020}.json": 1}


def test_a_log_that_was_deleted_and_begun_again_is_another_one(store: CountingStore) -> None:
    made, again = logs(store), logs(store)
    create(made)
    commit(made, url="gs://lake/parsed/a.parquet")
    old = load(made).metadata().id
    sizes = {stat.key: stat.size for stat in store.list_after("")}
    store.delete_slots([*sizes])
    assert again.load(TABLE) is None
    create(again)
    commit(again, url="gs://lake/parsed/b.parquet")

    assert sizes == {stat.key: stat.size for stat in store.list_after("")}, "it looks the same"
    assert paths(made) == ["gs://lake/parsed/b.parquet"]
    assert load(made).metadata().id != old


def test_a_checkpoint_follows_its_version_and_readers_begin_at_it(store: CountingStore) -> None:
    made = logs(store)
    create(made, **{"delta.checkpointInterval": "10"})
    for _ in range(25):
        commit(made)
    written = [name for name in names(store) if "checkpoint" in name]
    hint = json.loads(store.read(f"{LOG}/_last_checkpoint") or b"")
    assert f"{hint['version']:020}.checkpoint.parquet" == max(n for n in written if n[0] == "0")
    store.reads.clear()

    reader = logs(store)
    found = load(reader)

    assert found.version() == 25
    assert found.transaction_version("landfall") == 25
    assert paths(reader) == every(25)
    assert f"{0:020}.json" not in store.reads, "nothing before the checkpoint but for positions"
    assert len([commit for commit, _ in zip(Commits(found), range(BEFORE), strict=False)]) == BEFORE
    assert len(found.history()) == 26, "older versions are copied when they are asked for"


@pytest.mark.parametrize("hint", [b"", b"[]", b"no", b'{"version": 900}', b'{"version": null}'])
def test_the_hint_at_a_checkpoint_is_only_a_hint(store: CountingStore, hint: bytes) -> None:
    made = logs(store)
    create(made, **{"delta.checkpointInterval": "10"})
    for _ in range(25):
        commit(made)
    store.overwrite(f"{LOG}/_last_checkpoint", hint)

    assert paths(logs(store)) == every(25)


def test_a_checkpoint_that_could_not_be_written_is_made_with_the_next_version(
    store: CountingStore,
) -> None:
    made = logs(store)
    create(made, **{"delta.checkpointInterval": "5"})
    store.fails = {".parquet": StoreAway("no answer")}
    for _ in range(6):
        with suppress(DestinationAway):
            commit(made)
    assert (load(made).version(), [n for n in names(store) if "checkpoint" in n]) == (6, [])
    store.fails = {}

    commit(logs(store))

    assert f"{7:020}.checkpoint.parquet" in names(store)
    assert paths(logs(store)) == every(7)


def test_a_version_without_those_before_it_is_not_read(store: CountingStore) -> None:
    made = logs(store)
    create(made)
    for _ in range(3):
        commit(made)
    store.hidden = {f"{LOG}/{2:020}.json"}

    with pytest.raises(DestinationAway, match="lacks a version between"):
        logs(store).load(TABLE)

    store.delete_slots([f"{LOG}/{0:020}.json", *store.hidden])
    with pytest.raises(LogUnreadable, match="no version 0, and no checkpoint"):
        logs(store).load(TABLE)


def test_parts_of_a_checkpoint_count_if_all_are_there(store: CountingStore) -> None:
    made = logs(store)
    create(made, **{"delta.checkpointInterval": "10"})
    for _ in range(12):
        commit(made)
    (whole,) = [n for n in names(store) if n.endswith(".checkpoint.parquet")]
    body = store.read(f"{LOG}/{whole}") or b""
    version = whole[:20]
    store.delete_slots([f"{LOG}/{whole}"])
    one = f"{version}.checkpoint.{1:010}.{1:010}.parquet"
    store.create(f"{LOG}/{version}.checkpoint.{1:010}.{2:010}.parquet", body)
    assert paths(logs(store)) == every(12), "by version 0: a part is missing"
    store.create(f"{LOG}/{one}", body)
    store.reads.clear()

    assert paths(logs(store)) == every(12)
    assert (store.reads[one], store.reads[f"{0:020}.json"]) == (1, 0)


@pytest.mark.parametrize(
    ("error", "raised"),
    [(StoreAway("no"), DestinationAway), (StoreDenied("no"), DestinationDenied)],
)
def test_a_stores_error_is_the_destinations(
    store: CountingStore, error: Exception, raised: type[Exception]
) -> None:
    store.fails = {".json": error}

    with pytest.raises(raised, match="no"):
        create(logs(store))


def test_expired_versions_leave_the_log_with_a_checkpoint(store: CountingStore) -> None:
    made = logs(store)
    create(
        made,
        **{"delta.checkpointInterval": "10", "delta.logRetentionDuration": "interval 0 days"},
    )
    for _ in range(35):
        commit(made)

    left = [name for name in names(store) if name[0] == "0"]

    assert left[0].endswith(".checkpoint.parquet")
    assert left[1] == f"{left[0][:20]}.json"
    assert int(left[0][:20]) >= 20
    assert paths(logs(store)) == every(35)
    assert paths(made) == every(35)


@pytest.mark.parametrize(
    "kept", [{"delta.enableExpiredLogCleanup": "false"}, {"delta.logRetentionDuration": "a while"}]
)
def test_versions_stay_where_a_table_keeps_them(store: CountingStore, kept: dict[str, str]) -> None:
    made = logs(store)
    create(
        made,
        **{
            "delta.checkpointInterval": "5",
            "delta.logRetentionDuration": "interval 0 days",
            **kept,
        },
    )
    for _ in range(11):
        commit(made)

    assert f"{0:020}.json" in names(store)


def listed(*found: tuple[int, str]) -> list[str]:
    return [f"{version:020}{end}" for version, end in found]


def test_what_is_before_the_newest_expired_checkpoint_is_expired() -> None:
    checkpoints = {2, 4, 6}
    log = listed(
        *(
            (version, end)
            for version in range(8)
            for end in ([".checkpoint.parquet"] if version in checkpoints else [])
            + [".crc", ".json"]
        )
    )
    log.append("_last_checkpoint")
    times: dict[int, Any] = {version: START + timedelta(days=version) for version in range(8)}

    def of(days: float) -> set[int]:
        names = expired(log, times.get, START + timedelta(days=days))
        assert names == [name for name in log if name in names]
        versions = {int(name[:20]) for name in names}
        assert {n for n in log if n[0] == "0" and int(n[:20]) in versions} == {*names}
        return versions

    assert [of(days) for days in (2, 2.5, 4.5, 9)] == [set(), {0, 1}, {0, 1, 2, 3}, {*range(6)}]
    del times[4]
    assert of(9) == {*range(6)}, "a checkpoint whose time is not known is passed over"
    assert of(5) == {0, 1}


@pytest.mark.parametrize(
    ("text", "length"),
    [
        ("interval 30 days", timedelta(days=30)),
        ("INTERVAL 1 week 12 Hours", timedelta(days=7, hours=12)),
        ("interval 36500 days", timedelta(days=36500)),
        ("30 days", None),
        ("interval", None),
        ("interval 2 months", None),
        ("interval 1 day or so", None),
    ],
)
def test_an_interval_of_delta_has_a_length(text: str, length: timedelta | None) -> None:
    assert retention(text) == length


AZURE = "abfss://lake@account.dfs.core.windows.net"


@pytest.mark.parametrize(
    ("table", "more", "refusal"),
    [
        (
            "gs://lake/tables/{topic}",
            {},
            "options.table: tables in gs:// are reached by the access",
        ),
        (
            f"{AZURE}/tables/{{topic}}",
            {"storage": {"a": "b"}},
            "options.storage: tables in abfss://",
        ),
        (f"{AZURE}/tables", {"secret": True}, "secretRef: tables in abfss:// are reached by spec."),
        (f"{AZURE}/parsed/{{topic}}", {}, "a route without topicPath, whose pattern begins with"),
    ],
)
def test_a_table_that_the_outputs_access_does_not_reach_is_refused(
    table: str, more: dict[str, Any], refusal: str
) -> None:
    options = {"table": table, **{name: more[name] for name in more if name == "storage"}}
    entry = {"name": "lake", "type": "Delta", "options": options}
    entry |= {"secretRef": {"name": "s"}} if "secret" in more else {}
    output = {"url": f"{AZURE}/parsed", "format": "Parquet"}

    with pytest.raises(Stalled) as raised:
        check_publishers(group(output=output, publish=[entry]), MemoryStore())

    assert raised.value.reason is Reason.SPEC_INVALID
    assert refusal in " ".join(str(raised.value).split())
