"""A group's landed data as a source of Spark: ``spark.read.format("landfall").load(url)``.

Spark finds this module by its name, without registration: it imports every top-level module that
begins with ``pyspark_`` and takes its ``DefaultSource`` (pyspark.sql.datasource, since 4.0). It
must be importable where the driver runs and where executors do, with the extra ``reader``.

``source`` reads options and batches, ``stream`` is for ``readStream``, ``types`` maps columns.
``landfall.reading`` defines what is read, and when.
"""

from pyspark_landfall.source import DefaultSource

__all__ = ["DefaultSource"]
