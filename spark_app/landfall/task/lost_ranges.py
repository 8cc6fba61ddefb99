"""Reads slices that Kafka has lost from what another group has landed, the rest from Kafka."""

from collections.abc import Callable, Iterator, Mapping

from landfall.errors import Reason, Retry, Stalled, StoreAway
from landfall.landed.reader import LandedReader
from landfall.ledger.offsets import Slice
from landfall.pipeline.records import Records
from landfall.source import Reader
from landfall.task import FromBackup


class LostRangeReader:
    """A ``source.Reader``: each slice is read as a whole from one of two sources.

    Which one is decided by the driver, for all attempts of a batch.
    """

    def __init__(
        self,
        log: Reader,
        open_backup: Callable[[], LandedReader],
        lost: Mapping[Slice, FromBackup],
    ) -> None:
        """Read nothing yet.

        Args:
            log: reads all other slices.
            open_backup: opens what reads these.
            lost: the slices that the log has lost, and where they are.
        """
        self._log = log
        self._open_backup = open_backup
        self._lost = lost

    def read(self, slice_: Slice) -> Iterator[Records]:
        """See ``source.Reader``."""
        found = self._lost.get(slice_)
        if found is None:
            yield from self._log.read(slice_)
            return
        try:
            yield from self._read_elsewhere(slice_, found)
        except StoreAway as error:
            # Else the task would give up all its slices, as if Kafka were away.
            raise Retry(f"{slice_}: read from what {found.group} has landed: {error}") from error

    def _read_elsewhere(self, slice_: Slice, found: FromBackup) -> Iterator[Records]:
        reader = self._open_backup()
        if reader.group != found.group:
            raise Stalled(
                Reason.OBJECT_LOST,
                f"{slice_}: it was read from what {found.group} has landed, and "
                f"spec.source.kafka.onDataLoss.readFrom names {reader.group} now",
            )
        reader.topic_ids = {slice_.topic_partition: found.topic_id}
        yield from reader.read(slice_)
