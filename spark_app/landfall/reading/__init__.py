"""Reads what a group has landed: only committed objects, each row once, at a fixed slot.

``landfall.open`` opens a group, ``LandedGroup.scan`` chooses the objects of a topic by slot, output
partition and time, and a ``Scan`` gives their URLs, or their rows as Arrow. Which objects are
visible at a slot follows from the ledger alone (``landfall.publish``), so the same slot gives the
same rows to every reader at any time, and a driver that lands meanwhile changes nothing.

``files`` chooses, also by the times of output partitions, ``specs`` knows how objects were made,
``objects`` fetches them, ``rows`` makes rows of them, ``manifests`` lists them for engines.
``datasets`` lets DuckDB choose columns and folders, ``queries`` answers SQL by it. ``tail_plan``
and ``tail`` add Kafka's records that have not landed, if a scan asks for them; only then is the
Kafka client imported. ``pyspark_landfall`` makes this a source of Spark.
"""

from landfall.reading.files import Choice, File
from landfall.reading.groups import LandedGroup, open_group, open_ledgers
from landfall.reading.scans import RowSource, Scan, read_elsewhere

__all__ = [
    "Choice",
    "File",
    "LandedGroup",
    "RowSource",
    "Scan",
    "open_group",
    "open_ledgers",
    "read_elsewhere",
]
