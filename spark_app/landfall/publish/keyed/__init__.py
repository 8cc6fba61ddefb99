"""Keyed tables: of the rows with the same key, a table shows the newest one.

Landed objects stay complete. Of each object, a table's format has a list of rows that do not count:
rows that are older than another one of their key, and rows that delete a key. They follow from an
index of all keys, below the table. A version of the table names the files of the
index that belongs to it, so rows, position and index change at once, and a version that is restored
brings its index along.

``rows`` reads the keys of files, ``index`` finds the newest row of a key, ``fold`` decides.

The index has offsets, not files and positions: a merge of objects leaves it as it is, and so does
another program that rewrites files of the table. Where a row is in its file, the file's own columns
``_partition`` and ``_offset`` show.
"""
