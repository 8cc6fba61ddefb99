"""Reads the ledger, and what is stored alongside it, as JSON: which objects and ranges count."""
