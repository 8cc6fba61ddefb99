"""Sets up the operator's log: the format of ``landfall.logs``, with the libraries kept quiet."""

import logging
import sys

from landfall.logs import JsonFormatter, TextFormatter

_LIBRARY_LEVELS = {
    "kopf": logging.WARNING,
    "kubernetes": logging.WARNING,
    # urllib3 warns about every connection that it opens again; failed requests are logged by us.
    "urllib3": logging.ERROR,
    "asyncio": logging.WARNING,
}
"""The lowest level at which each library may log, unless the operator's own level is higher."""


def configure(log_format: str, level: str) -> None:
    """Log to standard error.

    Args:
        log_format: ``text`` or ``json``.
        level: The lowest level that is logged, as ``logging`` names it.
    """
    handler = logging.StreamHandler(sys.stderr)
    handler.setFormatter(JsonFormatter() if log_format == "json" else TextFormatter())
    handler.addFilter(drop_kopf_fields)
    logging.basicConfig(level=level, handlers=[handler], force=True)
    for name, lowest in _LIBRARY_LEVELS.items():
        logging.getLogger(name).setLevel(max(lowest, logging.getLogger().level))


def drop_kopf_fields(record: logging.LogRecord) -> bool:
    """Remove kopf's ``k8s_…`` attributes, which hold whole objects; no record is dropped."""
    for name in [name for name in vars(record) if name.startswith("k8s_")]:
        delattr(record, name)
    return True
