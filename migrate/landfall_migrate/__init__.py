"""Converts settings of Secor or Confluent's S3 sink to a ``ConsumerGroup``, and checks the join.

Pure: texts come in, a document and a report go out. ``landfall_migrate.cli`` reads the files.

``properties`` parses files, ``settings`` resolves them to one value per key. ``secor`` and
``connect`` fill a ``draft`` from them, by the tables in ``secor.keys`` and ``connect.keys``; the
tables also define the outcome of a key that nothing takes. So every key of the input is in the
``report`` exactly once, and a key that is in no table is ``unknown``, never skipped. A value of a
key that a table calls secret goes nowhere: sections see it only by ``Settings.secret``.

``offsets`` reads where the old program stopped. ``join`` checks that the old objects meet the start
of the ledger, by ``old_objects`` and ``new_objects``.
"""
