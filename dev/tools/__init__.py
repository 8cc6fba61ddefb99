"""Programs for tests and developers, built from pinned Go modules (``dev.servers.cache``)."""
