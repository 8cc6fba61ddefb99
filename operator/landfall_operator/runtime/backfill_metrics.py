"""The metrics of Backfills: what their status said when they were listed last."""

from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass

from prometheus_client.core import GaugeMetricFamily
from prometheus_client.registry import Collector

from landfall_operator.api.backfill_status import BackfillPhase, BackfillStatus

LABELS = ["namespace", "group", "backfill"]


@dataclass(frozen=True, slots=True)
class BackfillSnapshot:
    """A Backfill as it was listed."""

    namespace: str
    name: str
    group: str
    status: BackfillStatus


BACKFILL_FAMILIES: Mapping[str, tuple[str, tuple[str, ...]]] = {
    "landfall_backfill_phase": (
        "1 for the current phase of the backfill, 0 for every other phase",
        ("phase",),
    ),
    "landfall_backfill_offsets": ("Offsets of the ranges that are landed again", ()),
    "landfall_backfill_landed_offsets": ("Offsets of them that are landed", ()),
    "landfall_backfill_differing_output_partitions": (
        "Output partitions whose rows are not those that are live; absent before the comparison",
        (),
    ),
}
"""What each metric says, and its labels besides ``LABELS``."""


class BackfillCollector(Collector):
    """Collects the metrics of all Backfills from their snapshots."""

    def __init__(self, snapshots: Callable[[], Mapping[tuple[str, str], BackfillSnapshot]]) -> None:
        """``snapshots`` is called at each scrape."""
        self._snapshots = snapshots

    def collect(self) -> Iterator[GaugeMetricFamily]:
        """One family per metric, each with the samples of all Backfills."""
        families = {
            name: GaugeMetricFamily(name, text, labels=[*LABELS, *labels])
            for name, (text, labels) in BACKFILL_FAMILIES.items()
        }
        snapshots = self._snapshots().values()
        for each in snapshots:
            labels = [each.namespace, each.group, each.name]
            for name, more, value in _samples(each.status):
                families[name].add_metric([*labels, *more], value)
        if snapshots:
            yield from families.values()


def _samples(status: BackfillStatus) -> Iterator[tuple[str, tuple[str, ...], float]]:
    for phase in BackfillPhase:
        yield "landfall_backfill_phase", (str(phase),), float(phase is status.phase)
    if status.offsets is not None:
        yield "landfall_backfill_offsets", (), status.offsets
        yield "landfall_backfill_landed_offsets", (), status.landed_offsets
    if status.comparison:
        differing = status.comparison.differing
        yield "landfall_backfill_differing_output_partitions", (), differing
