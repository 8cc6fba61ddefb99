"""Reads the files of feeds by the lists of parts that the ledger names."""
