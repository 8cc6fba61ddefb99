"""Reads the records of loads that publishers keep beside the ledger, for ``landfall fsck``."""

from dataclasses import dataclass

from landfall.api.contract import LANE
from landfall.checks import Finding, load_records
from landfall.cli.group_store import GroupStore, map_concurrently
from landfall.publish.cursor import published_prefix


@dataclass(frozen=True)
class LoadRecords:
    """What was found of them.

    Attributes:
        read: how many records were read.
        findings: what is wrong with them.
    """

    read: int
    findings: tuple[Finding, ...]


def check_load_records(opened: GroupStore, *, deep: bool) -> LoadRecords:
    """Read the records of the last load of each table, all of them if ``deep``.

    Publishers go on meanwhile: a record that was not listed is looked for again, and one that is
    gone when it is read was an old one.
    """
    prefix, store = published_prefix(opened.name, LANE), opened.store
    chains = load_records.load_chains(prefix, (stat.key for stat in store.list_after(prefix)))
    begins = {load_records.begin_of(chain) for chain in chains}
    due = begins.union(*(chain.missing() for chain in chains))
    lacking = [load_records.missing_record(key) for key in sorted(due) if store.read(key) is None]
    keys = [*begins, *(key for chain in chains for key in chain.keys(1 if deep else chain.last))]

    def check(key: str) -> Finding | None:
        body = store.read(key)
        return None if body is None else load_records.check_record(prefix, key, body)

    damaged = filter(None, map_concurrently(check, keys, opened.new_pool))
    return LoadRecords(len(keys), (*lacking, *damaged))
