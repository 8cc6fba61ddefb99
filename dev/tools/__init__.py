"""Programs that only tests and people use, built from pinned Go modules and kept (``dev/servers/cache.py``)."""
