"""``landfall audit``, which is ``landfall-audit`` where only the auditor is installed."""
