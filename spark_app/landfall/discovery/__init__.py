"""Finds new files in a bucket, and stores which parts have which numbers and which files are known.

A driver that discovers lists a bucket, and compares what is there with what is known. Each new file
is cut into parts, and a *part list* of them is stored. Only a DISCOVER in the ledger that names a
list gives its parts their numbers; a list that none names means nothing. The *known index* is a
cache of the lists below a number: it never has a file that no DISCOVER has numbered.

``feed_keys``   where the lists and the index of a feed are stored
``part_lists``  lists of parts in a store
``stored``      compressed objects that are checked against their hashes

Nothing here appends to a ledger or reads a clock. The store is only met by ``Slots``.
"""
