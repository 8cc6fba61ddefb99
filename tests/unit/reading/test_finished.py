"""The slot of an event that says an hour is complete pins what is in the hour."""

from pathlib import Path

import landfall
from landfall.publish.events import EventKind, Events
from tests.support.ledger.event_ledger import EventLedger
from tests.support.ledger.readable import CLICKS, Readable, Row

BEFORE, HOUR = "dt=2026-11-21/hr=02", "dt=2026-11-21/hr=03"


def rows(count: int) -> list[Row]:
    return [{"id": i, "name": f"n{i}"} for i in range(count)]


def test_a_scan_at_the_slot_of_an_event_counts_the_hour(tmp_path: Path) -> None:
    landed = Readable(tmp_path)
    landed.land(CLICKS, (BEFORE, rows(7)), (HOUR, rows(5))).land(CLICKS, (HOUR, rows(3))).settle()
    scene = EventLedger("Webhook", {}, {"route__pattern": "dt={date}/hr={hour}"}, {}, landed.ledger)
    scene.finish("clicks", "2026-11-21T04:00:00+00:00").settle()
    landed.land(CLICKS, (HOUR, rows(2))).settle()  # late

    finished = Events(scene.context, frozenset({EventKind.FINISHED}))
    (stretch,) = scene.follower(1000).stretches(-1)
    event = next(each for each in finished.of(stretch) if each.subject == f"clicks/{HOUR}")

    clicks = landfall.open(landed.url)
    scan = clicks.scan("clicks", slot=event.slot, output_partition=HOUR)
    assert (scan.rows, len(scan.files())) == (8, 2)
    assert clicks.scan("clicks", output_partition=HOUR).rows == 10
