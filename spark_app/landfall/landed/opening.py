"""Opens the log that a group lands, and what another group has landed."""

from landfall.api.contract import LANE
from landfall.api.spec import ConsumerGroup, LandedPlace, LandedSource, Ledger
from landfall.errors import Reason, Stalled
from landfall.landed.backup import LandedBackup
from landfall.landed.history import History
from landfall.landed.log import LandedLog
from landfall.landed.reader import LandedReader
from landfall.lane import Lane
from landfall.lane.stores import with_ledger
from landfall.ledger import State
from landfall.ledger.names.roots import LEDGER_MARK, marked_ledger
from landfall.source.files_log import FilesLog
from landfall.source.kafka import KafkaLog
from landfall.store import Store
from landfall.store.urls import open_store


def open_log(group: ConsumerGroup, state: State | None = None) -> KafkaLog | FilesLog | LandedLog:
    """The log of a group, as a ``source.Log``. Connects at the first call.

    Args:
        group: the resource.
        state: of the lane, with the ends of feeds; without it they have nothing yet.

    Raises:
        Stalled: SPEC_INVALID, librdkafka does not accept the properties, or a library for the store
            of the other group is not installed.
        Retry: the store of the other group does not answer.
    """
    source = group.spec.source
    if source.landed:
        store = open_landed(source.landed)
        return LandedLog(source.landed, _history(store, source.landed))
    if source.kafka:
        return KafkaLog(group)
    log = FilesLog(group)
    if state is not None:
        log.take_in(state)
    return log


def open_reader(landed: LandedSource) -> LandedReader:
    """Open the reader of another group's objects.

    Raises:
        Stalled, Retry: as ``open_log``.
    """
    store = open_landed(landed)
    return LandedReader(store, _history(store, landed))


def open_lost_reader(group: ConsumerGroup) -> LandedReader:
    """Open the reader of offsets that Kafka lost, from objects of the group that the spec names.

    Raises:
        Stalled: OBJECT_LOST, the spec names none; or as ``open_log``.
        Retry: as ``open_log``.
    """
    named = group.spec.source.read_from
    if named is None:
        raise Stalled(
            Reason.OBJECT_LOST,
            "spec.source.kafka.onDataLoss names no group any more to read lost offsets from",
        )
    store = open_landed(named)
    return LandedReader(store, _history_of_lost(store, group, named), named.field)


def backup_of(group: ConsumerGroup) -> LandedBackup | None:
    """Return the backup, another group that has landed what Kafka lost, if the spec names one.

    It connects at the first question.
    """
    named = group.spec.source.read_from
    if named is None:
        return None

    def open_history() -> History:
        return _history_of_lost(open_landed(named), group, named)

    return LandedBackup(named.group, named.field, open_history)


def _history_of_lost(store: Store, group: ConsumerGroup, named: LandedPlace) -> History:
    return History(Lane(store, named.group, LANE), store.stat, group.spec.source.selects)


def _history(store: Store, landed: LandedSource) -> History:
    return History(Lane(store, landed.group, LANE), store.stat, landed.selects)


def open_landed(landed: LandedPlace) -> Store:
    """The store of another group's objects, and of its ledger, wherever that is.

    Raises:
        Stalled, Retry: as ``open_log``.
    """
    objects = open_store(landed.root)
    body = objects.read(LEDGER_MARK)
    if body is None:
        return objects
    try:
        access = landed.root.model_dump(mode="json", by_alias=True, exclude={"url"})
        place = Ledger.model_validate({**access, "url": marked_ledger(landed.url, body)})
    except ValueError as error:
        raise Stalled(
            Reason.SPEC_INVALID, f"{landed.field}: {LEDGER_MARK} in {landed.url}: {error}"
        ) from error
    return with_ledger(open_store(place), objects)
