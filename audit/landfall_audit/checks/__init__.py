"""Compares one committed range after the other with its objects, and objects with the ledger."""
